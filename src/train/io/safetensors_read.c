/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_read.c: opens files; every field of the header is checked against the file's length before it is used.
 * Numbers are read in the machine's byte order: safetensors_format.c compiles only for little-endian machines. */
#define _POSIX_C_SOURCE 200809L /* AT_FDCWD */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "train/io/json.h"
#include "train/io/safetensors_format.h"
#include "train/io/safetensors_read.h"

typedef struct entry {
    const char *name;
    DLTensor tensor;
    const gsc__safetensors_dtype *format_dtype;
    int64_t begin, end; /* in bytes of the data */
} entry;

struct gsc_safetensors {
    const char *path; /* borrowed while opening */
    gsc__mapping mapping;
    json_t *header; /* owns the names and the metadata */
    const uint8_t *data;
    int64_t data_size;
    entry *entries; /* in the order of the data */
    size_t count;
    const entry **sorted_by_name;
    int64_t *shapes; /* of all entries */
    gsc_metadata *metadata;
    size_t metadata_count;
    void *copies; /* the elements of unaligned tensors */
};

static gsc_status out_of_memory(const gsc_safetensors *file)
{
    return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", file->path);
}

/* Parses the header and locates the data. */
static gsc_status read_header(gsc_safetensors *file)
{
    const char *path = file->path;
    size_t size = file->mapping.size;
    if (size < GSC_SAFETENSORS_LENGTH)
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: has %zu bytes, a safetensors file begins with %d that give its header's length", path,
                        size, (int)GSC_SAFETENSORS_LENGTH);
    uint64_t length;
    memcpy(&length, file->mapping.data, sizeof length);
    if (length > GSC_SAFETENSORS_MAX_HEADER || length > size - GSC_SAFETENSORS_LENGTH)
        return gsc_fail(
            GSC_ERR_VALUE,
            "%s: its header's length is %llu, allowed are at most %d and what the file's %zu bytes hold; it "
            "is truncated or no safetensors file",
            path, (unsigned long long)length, (int)GSC_SAFETENSORS_MAX_HEADER, size);
    const char *text = (const char *)file->mapping.data + GSC_SAFETENSORS_LENGTH;
    if (length == 0 || text[0] != '{')
        return gsc_fail(GSC_ERR_VALUE, "%s: the header is no JSON object: it does not begin with {", path);
    file->data = file->mapping.data + GSC_SAFETENSORS_LENGTH + length;
    file->data_size = (int64_t)(size - GSC_SAFETENSORS_LENGTH - length);
    return gsc__json_parse(path, text, (size_t)length, &file->header);
}

static gsc_status read_metadata(gsc_safetensors *file, json_t *metadata)
{
    if (!json_is_object(metadata))
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is %s, it must be an object", file->path, GSC_SAFETENSORS_METADATA,
                        gsc__json_type(metadata));
    file->metadata = calloc(json_object_size(metadata) + 1, sizeof *file->metadata);
    if (!file->metadata)
        return out_of_memory(file);
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return gsc_fail(GSC_ERR_VALUE, "%s: %s: \"%s\" is %s, it must be a string", file->path,
                            GSC_SAFETENSORS_METADATA, key, gsc__json_type(value));
        file->metadata[file->metadata_count++] = (gsc_metadata){key, json_string_value(value)};
    }
    return GSC_OK;
}

static gsc_status bad_field(const gsc_safetensors *file, const entry *e, const char *field, const char *problem)
{
    return gsc_fail(GSC_ERR_VALUE, "%s: tensor \"%s\": %s %s", file->path, e->name, field, problem);
}

static gsc_status read_dtype(const gsc_safetensors *file, entry *e, const json_t *value)
{
    if (!json_is_string(value))
        return bad_field(file, e, "dtype", value ? "is no string" : "is missing");
    const char *name = json_string_value(value);
    e->format_dtype = gsc__safetensors_dtype_named(name);
    if (!e->format_dtype)
        return gsc_fail(GSC_ERR_VALUE, "%s: tensor \"%s\": dtype is \"%s\", which the format does not have", file->path,
                        e->name, name);
    if (gsc__safetensors_size(e->format_dtype) == 0) /* the format has it, this library does not support it */
        return gsc_fail(GSC_ERR_UNSUPPORTED, "%s: tensor \"%s\": dtype is %s; convert the file to F16, BF16 or F32",
                        file->path, e->name, name);
    return GSC_OK;
}

/* Reads a list of integers >= 0 into `out`, which has room for all of them. */
static gsc_status read_integers(const gsc_safetensors *file, const entry *e, const char *field, const json_t *list,
                                int64_t *out)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *value = json_array_get(list, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return bad_field(file, e, field, "has an entry that is no integer >= 0");
        out[i] = json_integer_value(value);
    }
    return GSC_OK;
}

static gsc_status read_shape(const gsc_safetensors *file, entry *e, const json_t *list, int64_t **shapes)
{
    if (!json_is_array(list))
        return bad_field(file, e, "shape", list ? "is no list" : "is missing");
    GSC_TRY(read_integers(file, e, "shape", list, *shapes));
    e->tensor.ndim = (int32_t)json_array_size(list); /* fits, since the header has at most 100,000,000 bytes */
    e->tensor.shape = *shapes;
    *shapes += e->tensor.ndim;
    return GSC_OK;
}

static gsc_status read_offsets(const gsc_safetensors *file, entry *e, const json_t *list)
{
    if (!json_is_array(list) || json_array_size(list) != 2)
        return bad_field(file, e, "data_offsets", list ? "is no list of two numbers" : "is missing");
    int64_t offsets[2] = {0}, bytes;
    GSC_TRY(read_integers(file, e, "data_offsets", list, offsets));
    if (offsets[0] > offsets[1] || offsets[1] > file->data_size)
        return gsc_fail(
            GSC_ERR_VALUE,
            "%s: tensor \"%s\": data_offsets are %lld and %lld, they must rise and end within the %lld bytes "
            "of data that the file has; it is damaged or truncated",
            file->path, e->name, (long long)offsets[0], (long long)offsets[1], (long long)file->data_size);
    if (!gsc__safetensors_bytes(e->format_dtype, e->tensor.ndim, e->tensor.shape, &bytes) ||
        bytes != offsets[1] - offsets[0])
        return gsc_fail(GSC_ERR_VALUE, "%s: tensor \"%s\": data_offsets give it %lld bytes, its shape and dtype do not",
                        file->path, e->name, (long long)(offsets[1] - offsets[0]));
    e->begin = offsets[0];
    e->end = offsets[1];
    return GSC_OK;
}

static gsc_status read_entry(const gsc_safetensors *file, entry *e, json_t *value, int64_t **shapes)
{
    if (!json_is_object(value))
        return gsc_fail(GSC_ERR_VALUE, "%s: tensor \"%s\" is %s, it must be an object", file->path, e->name,
                        gsc__json_type(value));
    GSC_TRY(read_dtype(file, e, json_object_get(value, "dtype")));
    GSC_TRY(read_shape(file, e, json_object_get(value, "shape"), shapes));
    return read_offsets(file, e, json_object_get(value, "data_offsets"));
}

/* Room for all entries and their shapes. The entries and sizes of the parsed header are counted: a number that the file
 * gives never decides how much is allocated. */
static gsc_status allocate_entries(gsc_safetensors *file)
{
    size_t tensors = 0, sizes = 0;
    const char *key;
    json_t *value;
    json_object_foreach(file->header, key, value)
    {
        tensors++;
        sizes += json_array_size(json_object_get(value, "shape")); /* 0 for anything else */
    }
    file->entries = calloc(tensors + 1, sizeof *file->entries);
    file->sorted_by_name = calloc(tensors + 1, sizeof *file->sorted_by_name);
    file->shapes = calloc(sizes + 1, sizeof *file->shapes);
    return file->entries && file->sorted_by_name && file->shapes ? GSC_OK : out_of_memory(file);
}

static gsc_status read_entries(gsc_safetensors *file)
{
    GSC_TRY(allocate_entries(file));
    int64_t *shapes = file->shapes;
    const char *key;
    json_t *value;
    json_object_foreach(file->header, key, value)
    {
        if (strcmp(key, GSC_SAFETENSORS_METADATA) == 0) {
            GSC_TRY(read_metadata(file, value));
        } else {
            entry *e = &file->entries[file->count++];
            e->name = key;
            GSC_TRY(read_entry(file, e, value, &shapes));
        }
    }
    return GSC_OK;
}

static int compare_offsets(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end;
}

/* Sorts the entries; they must fill the data without a hole or an overlap. */
static gsc_status check_offsets(gsc_safetensors *file)
{
    qsort(file->entries, file->count, sizeof *file->entries, compare_offsets);
    int64_t end = 0;
    for (size_t i = 0; i < file->count; i++) {
        const entry *e = &file->entries[i];
        if (e->begin != end)
            return gsc_fail(GSC_ERR_VALUE,
                            "%s: tensor \"%s\" begins at byte %lld of the data, the one before ends at %lld",
                            file->path, e->name, (long long)e->begin, (long long)end);
        end = e->end;
    }
    if (end != file->data_size)
        return gsc_fail(GSC_ERR_VALUE, "%s: has %lld bytes of data, its tensors %lld", file->path,
                        (long long)file->data_size, (long long)end);
    return GSC_OK;
}

static bool is_aligned(const gsc_safetensors *file, const entry *e)
{
    return (uintptr_t)(file->data + e->begin) % gsc__safetensors_alignment(e->format_dtype) == 0;
}

static size_t entry_size(const entry *e) { return (size_t)(e->end - e->begin); }

/* Copies follow each other, each aligned for any dtype. */
static size_t copy_size(const entry *e)
{
    enum { ALIGNMENT = 8 };
    return (entry_size(e) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Tensors point into the mapping; unaligned ones are copied. */
static gsc_status set_data(gsc_safetensors *file)
{
    size_t total = 0;
    for (size_t i = 0; i < file->count; i++)
        total += is_aligned(file, &file->entries[i]) ? 0 : copy_size(&file->entries[i]);
    uint8_t *next = total > 0 ? malloc(total) : NULL;
    if (total > 0 && !next)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory to align %zu bytes", file->path, total);
    file->copies = next;
    for (size_t i = 0; i < file->count; i++) {
        entry *e = &file->entries[i];
        e->tensor.device = (DLDevice){kDLCPU, 0};
        e->tensor.dtype = e->format_dtype->dtype;
        if (entry_size(e) == 0)
            continue;
        if (is_aligned(file, e) || !next) { /* !next tells analysers that an unaligned one has memory */
            e->tensor.data = (void *)(uintptr_t)(file->data + e->begin);
        } else {
            e->tensor.data = memcpy(next, file->data + e->begin, entry_size(e));
            next += copy_size(e);
        }
    }
    return GSC_OK;
}

static int compare_names(const void *left, const void *right)
{
    const entry *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static void sort_names(gsc_safetensors *file)
{
    for (size_t i = 0; i < file->count; i++)
        file->sorted_by_name[i] = &file->entries[i];
    qsort(file->sorted_by_name, file->count, sizeof *file->sorted_by_name, compare_names);
}

static gsc_status read_file(gsc_safetensors *file)
{
    GSC_TRY(read_header(file));
    GSC_TRY(read_entries(file));
    GSC_TRY(check_offsets(file));
    GSC_TRY(set_data(file));
    sort_names(file);
    return GSC_OK;
}

gsc_status gsc__safetensors_open_mapping(const char *path, gsc__mapping *mapping, gsc_safetensors **out)
{
    gsc_safetensors *file = calloc(1, sizeof *file);
    if (!file) {
        gsc__mapping_close(mapping);
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", path);
    }
    file->path = path;
    file->mapping = *mapping;
    *mapping = (gsc__mapping){0};
    gsc_status status = read_file(file);
    if (status != GSC_OK) {
        gsc_safetensors_close(file);
        return status;
    }
    file->path = NULL;
    *out = file;
    return GSC_OK;
}

gsc_status gsc_safetensors_open(const char *path, gsc_safetensors **out)
{
    if (!path || !out)
        return gsc_fail(GSC_ERR_VALUE, "gsc_safetensors_open: %s is NULL", path ? "out" : "path");
    gsc__mapping mapping;
    GSC_TRY(gsc__mapping_open(AT_FDCWD, path, path, &mapping)); /* opens it by this path, and names it so in messages */
    return gsc__safetensors_open_mapping(path, &mapping, out);
}

void gsc_safetensors_close(gsc_safetensors *file)
{
    if (!file)
        return;
    gsc__mapping_close(&file->mapping);
    json_decref(file->header);
    free(file->entries);
    free(file->sorted_by_name);
    free(file->shapes);
    free(file->metadata);
    free(file->copies);
    free(file);
}

size_t gsc_safetensors_count(const gsc_safetensors *file) { return file ? file->count : 0; }

const char *gsc_safetensors_name(const gsc_safetensors *file, size_t index)
{
    return file && index < file->count ? file->entries[index].name : NULL;
}

const DLTensor *gsc_safetensors_tensor(const gsc_safetensors *file, size_t index)
{
    return file && index < file->count ? &file->entries[index].tensor : NULL;
}

const DLTensor *gsc_safetensors_find(const gsc_safetensors *file, const char *name)
{
    if (!file || !name)
        return NULL;
    const entry wanted = {.name = name}, *key = &wanted;
    const entry **found = bsearch(&key, file->sorted_by_name, file->count, sizeof *file->sorted_by_name, compare_names);
    return found ? &(*found)->tensor : NULL;
}

size_t gsc_safetensors_metadata_count(const gsc_safetensors *file) { return file ? file->metadata_count : 0; }

gsc_metadata gsc_safetensors_metadata(const gsc_safetensors *file, size_t index)
{
    return file && index < file->metadata_count ? file->metadata[index] : (gsc_metadata){NULL, NULL};
}

const char *gsc_safetensors_metadata_find(const gsc_safetensors *file, const char *key)
{
    for (size_t i = 0; file && key && i < file->metadata_count; i++)
        if (strcmp(file->metadata[i].key, key) == 0)
            return file->metadata[i].value;
    return NULL;
}
