/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_safetensors.c: the input is a file. If it opens, its tensors are all of its data, byte for byte; written again,
 * it has the same content, and written once more, the same bytes. */
#define _XOPEN_SOURCE 700 /* mkdtemp */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gradscaler/safetensors.h"
#include "support.h"

static char folder[48], written[2][80];

static void remove_folder(void)
{
    for (int i = 0; i < 2; i++)
        remove(written[i]);
    rmdir(folder);
}

/* In memory if possible: writing a file syncs it to disk. */
static void make_folder(void)
{
    if (folder[0] != '\0')
        return;
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/gradscaler-fuzz-XXXXXX", parent);
    require(mkdtemp(folder), "a temporary folder can be made");
    for (int i = 0; i < 2; i++)
        snprintf(written[i], sizeof written[i], "%s/%d.safetensors", folder, i);
    atexit(remove_folder);
}

static size_t count_bytes(const DLTensor *tensor)
{
    size_t bytes = (size_t)tensor->dtype.bits / 8;
    for (int32_t i = 0; i < tensor->ndim; i++)
        bytes *= (size_t)tensor->shape[i];
    return bytes;
}

/* The first element; NULL if the tensor is empty. */
static const uint8_t *elements(const DLTensor *tensor)
{
    return tensor->data ? (const uint8_t *)tensor->data + tensor->byte_offset : NULL;
}

/* Checks every byte: the tensors are the file's data, in order and complete. */
static void check_data(const gsc_safetensors *file, const uint8_t *data, size_t size)
{
    input length = {data, size};
    size_t at = 8 + (size_t)take_u64(&length);
    require(size >= 8 && at >= 8 && at <= size, "the header is within the file");
    for (size_t i = 0; i < gsc_safetensors_count(file); i++) {
        const DLTensor *tensor = gsc_safetensors_tensor(file, i);
        require(tensor->device.device_type == kDLCPU && tensor->strides == NULL, "a compact tensor on the CPU");
        size_t bytes = count_bytes(tensor);
        require(bytes <= size - at, "tensor %zu is within the file", i);
        require(bytes == 0 || memcmp(elements(tensor), data + at, bytes) == 0, "the bytes of tensor %zu", i);
        require((uintptr_t)elements(tensor) % ((size_t)tensor->dtype.bits / 8) == 0 || tensor->dtype.code == kDLComplex,
                "tensor %zu is aligned", i);
        at += bytes;
    }
    require(at == size, "the tensors are the whole file");
}

static void check_names(const gsc_safetensors *file)
{
    size_t count = gsc_safetensors_count(file), m = gsc_safetensors_metadata_count(file);
    for (size_t i = 0; i < count; i++) {
        const char *name = gsc_safetensors_name(file, i);
        require(name && gsc_safetensors_find(file, name) == gsc_safetensors_tensor(file, i), "name %zu is found", i);
    }
    for (size_t i = 0; i < m; i++) {
        gsc_metadata entry = gsc_safetensors_metadata(file, i);
        require(entry.key && entry.value, "metadata %zu has key and value", i);
        require(gsc_safetensors_metadata_find(file, entry.key) == entry.value, "metadata %s is found", entry.key);
    }
    require(!gsc_safetensors_name(file, count) && !gsc_safetensors_tensor(file, count), "there are no more");
    require(!gsc_safetensors_metadata(file, m).key, "there is no more metadata");
}

static gsc_status write_again(const gsc_safetensors *file, const char *path)
{
    size_t count = gsc_safetensors_count(file), m = gsc_safetensors_metadata_count(file);
    gsc_named_tensor *tensors = calloc(count + 1, sizeof *tensors);
    gsc_metadata *metadata = calloc(m + 1, sizeof *metadata);
    require(tensors && metadata, "there is memory");
    for (size_t i = 0; i < count; i++) {
        DLTensor *tensor = (DLTensor *)(uintptr_t)gsc_safetensors_tensor(file, i);
        tensors[i] = (gsc_named_tensor){.name = gsc_safetensors_name(file, i), .tensor = tensor};
    }
    for (size_t i = 0; i < m; i++)
        metadata[i] = gsc_safetensors_metadata(file, i);
    gsc_status status = gsc_safetensors_write(path, tensors, count, metadata, m);
    free(tensors);
    free(metadata);
    return status;
}

static gsc_safetensors *open_written(const char *path)
{
    gsc_safetensors *file;
    require(gsc_safetensors_open(path, &file) == GSC_OK, "what was written can be read");
    return file;
}

static void require_equal(const gsc_safetensors *one, const gsc_safetensors *other)
{
    require(gsc_safetensors_count(one) == gsc_safetensors_count(other), "the number of tensors");
    for (size_t i = 0; i < gsc_safetensors_count(one); i++) {
        const DLTensor *a = gsc_safetensors_tensor(one, i);
        const DLTensor *b = gsc_safetensors_find(other, gsc_safetensors_name(one, i));
        require(b && memcmp(&a->dtype, &b->dtype, sizeof a->dtype) == 0 && a->ndim == b->ndim, "tensor %zu", i);
        require(a->ndim == 0 || memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0, "shape %zu", i);
        require(count_bytes(a) == 0 || memcmp(elements(a), elements(b), count_bytes(a)) == 0, "elements %zu", i);
    }
    require(gsc_safetensors_metadata_count(one) == gsc_safetensors_metadata_count(other), "the number of entries");
    for (size_t i = 0; i < gsc_safetensors_metadata_count(one); i++) {
        gsc_metadata entry = gsc_safetensors_metadata(one, i);
        const char *value = gsc_safetensors_metadata_find(other, entry.key);
        require(value && strcmp(value, entry.value) == 0, "metadata %s", entry.key);
    }
}

static bool same_bytes(const char *one, const char *other)
{
    FILE *a = fopen(one, "rb"), *b = fopen(other, "rb");
    require(a && b, "both files exist");
    int from_a, from_b;
    do {
        from_a = getc(a);
        from_b = getc(b);
    } while (from_a == from_b && from_a != EOF);
    fclose(a);
    fclose(b);
    return from_a == from_b;
}

static void check_writing(const gsc_safetensors *file)
{
    make_folder();
    gsc_status status = write_again(file, written[0]);
    require(status == GSC_OK, "what was read can be written");
    gsc_safetensors *again = open_written(written[0]);
    require_equal(file, again);
    require_equal(again, file);
    require(write_again(again, written[1]) == GSC_OK, "what was written can be written again");
    require(same_bytes(written[0], written[1]), "equal content makes equal files");
    gsc_safetensors_close(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_file(0, data, size);
    gsc_safetensors *file = NULL;
    forget_message();
    gsc_status status = gsc_safetensors_open(path, &file);
    if (status != GSC_OK) {
        require(status == GSC_ERR_VALUE || status == GSC_ERR_UNSUPPORTED, "not %s", gsc_status_name(status));
        require(file == NULL, "a refusal leaves the output alone");
        require_message(path);
        return 0;
    }
    check_data(file, data, size);
    check_names(file);
    check_writing(file);
    gsc_safetensors_close(file);
    return 0;
}
