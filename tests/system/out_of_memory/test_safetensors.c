/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing safetensors: each allocation fails once. */
#define _XOPEN_SOURCE 700
#include "readers.h"

#include "safetensors_files.h"

static char *dir;

static gsc_status open_safetensors(void **out)
{
    return gsc_safetensors_open(temp_path(dir, "recorded.safetensors"), (gsc_safetensors **)out);
}

static void check_safetensors(void *made)
{
    assert_recorded(made);
    gsc_safetensors_close(made);
}

/* Unaligned tensors are copied. */
static gsc_status open_unaligned(void **out)
{
    return gsc_safetensors_open(temp_path(dir, "raw.safetensors"), (gsc_safetensors **)out);
}

static void check_unaligned(void *made)
{
    const DLTensor *tensor = gsc_safetensors_find(made, "b");
    assert_non_null(tensor);
    assert_memory_equal(tensor->data, ((const uint8_t[]){1, 2, 3, 4}), 4);
    gsc_safetensors_close(made);
}

static gsc_status write_safetensors(const char *path)
{
    DLTensor tensors[RECORDED_TENSORS];
    gsc_named_tensor named[RECORDED_TENSORS];
    for (size_t i = 0; i < RECORDED_TENSORS; i++) {
        const recorded_tensor *r = &recorded_tensors[i];
        tensors[i] = dl_tensor(r->dtype, r->data, r->ndim, r->shape);
        named[i] = (gsc_named_tensor){r->name, &tensors[i]};
    }
    const gsc_metadata metadata = {"made by", "gradscaler"};
    return gsc_safetensors_write(path, named, RECORDED_TENSORS, &metadata, 1);
}

static void write_old(void) { temp_write(dir, "written.safetensors", "old", 3); }

/* The old file stays until the new one is complete. */
static gsc_status replace_safetensors(void **out)
{
    const char *path = temp_path(dir, "written.safetensors");
    gsc_status status = write_safetensors(path);
    if (status != GSC_OK) {
        size_t size;
        uint8_t *content = read_file(path, &size);
        assert_int_equal(size, 3);
        assert_memory_equal(content, "old", 3);
        free(content);
        return status;
    }
    *out = dir;
    return GSC_OK;
}

static void check_replaced(void *made)
{
    gsc_safetensors *file;
    assert_ok(gsc_safetensors_open(temp_path(made, "written.safetensors"), &file));
    check_safetensors(file);
    write_old();
}

static int make_files(void **state)
{
    (void)state;
    dir = temp_dir_create();
    assert_ok(write_safetensors(temp_path(dir, "recorded.safetensors")));
    write_raw(dir,
              "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
              "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[1,5]}}",
              SIZE_MAX, 5);
    write_old();
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    temp_dir_remove(dir);
    return 0;
}

static void test_each_allocation_of_reading_and_writing(void **state)
{
    (void)state;
    const reader readers[] = {
        {"gsc_safetensors_open", open_safetensors, check_safetensors, 4, false},
        {"gsc_safetensors_open, unaligned", open_unaligned, check_unaligned, 5, false},
        {"gsc_safetensors_write", replace_safetensors, check_replaced, 20, true},
    };
    check_readers(readers, sizeof readers / sizeof readers[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation_of_reading_and_writing)};
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
