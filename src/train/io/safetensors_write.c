/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_write.c: everything is checked while a file is planned, so that only the disk can fail once it is
 * written. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/dtype_kind.h"
#include "base/dtype_text.h"
#include "base/try.h"
#include "train/io/json.h"
#include "train/io/safetensors_write.h"
#include "train/tensor/tensor.h"

static gsc_status out_of_memory(const char *who) { return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", who); }

static gsc_status check_sizes(const char *who, gsc__safetensors_item *item)
{
    const DLTensor *tensor = item->tensor;
    if (tensor->ndim < 0 || (tensor->ndim > 0 && !tensor->shape))
        return gsc_fail(GSC_ERR_VALUE, "%s: tensor \"%s\" has ndim %d%s", who, item->name, (int)tensor->ndim,
                        tensor->ndim > 0 ? " and shape NULL" : ", allowed are 0 and more");
    for (int32_t d = 0; d < tensor->ndim; d++)
        if (tensor->shape[d] < 0)
            return gsc_fail(GSC_ERR_VALUE, "%s: tensor \"%s\" has shape[%d] %lld, allowed are 0 and more", who,
                            item->name, (int)d, (long long)tensor->shape[d]);
    if (!gsc__safetensors_bytes(item->dtype, tensor->ndim, tensor->shape, &item->bytes))
        return gsc_fail(GSC_ERR_VALUE, "%s: the sizes of tensor \"%s\" multiply to more bytes than memory can hold",
                        who, item->name);
    return GSC_OK;
}

static gsc_status check_tensor(const char *who, gsc__safetensors_item *item)
{
    const DLTensor *tensor = item->tensor;
    if (!tensor)
        return gsc_fail(GSC_ERR_VALUE, "%s: tensor \"%s\" is NULL", who, item->name);
    if (!gsc__is_on_cpu(tensor))
        return gsc_fail(GSC_ERR_DEVICE, "%s: tensor \"%s\" is on %s; copy it to the CPU", who, item->name,
                        gsc__describe_device(tensor->device).text);
    item->dtype = gsc__safetensors_dtype_of(tensor->dtype);
    if (!item->dtype)
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: tensor \"%s\" has dtype %s, which a file cannot hold; allowed are bool, 8- to 64-bit "
                        "integers, float16, bfloat16, float32, float64 and complex64, of 1 lane",
                        who, item->name, gsc__describe_dtype(tensor->dtype).text);
    GSC_TRY(check_sizes(who, item));
    if (item->bytes > 0 && !gsc__is_compact(tensor))
        return gsc_fail(GSC_ERR_VALUE, "%s: tensor \"%s\" is strided; give a compact row-major copy", who, item->name);
    if (item->bytes > 0 && !tensor->data)
        return gsc_fail(GSC_ERR_VALUE, "%s: tensor \"%s\" has elements but no data", who, item->name);
    return GSC_OK;
}

static gsc_status check_named(const char *who, const gsc_named_tensor *named, gsc__safetensors_item *item)
{
    GSC_TRY(gsc__json_check_text(who, "a tensor's name", named->name));
    if (strcmp(named->name, GSC_SAFETENSORS_METADATA) == 0)
        return gsc_fail(GSC_ERR_VALUE, "%s: no tensor may be named \"%s\"", who, named->name);
    *item = (gsc__safetensors_item){.name = named->name, .tensor = named->tensor};
    return check_tensor(who, item);
}

static int by_dtype_and_name(const void *left, const void *right)
{
    const gsc__safetensors_item *a = left, *b = right;
    if (a->dtype != b->dtype)
        return a->dtype > b->dtype ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* The header's entry for a tensor whose data begins at `begin`. NULL: no memory. */
static json_t *describe(const gsc__safetensors_item *item, int64_t begin)
{
    json_t *shape = json_array();
    bool done = shape != NULL;
    for (int32_t d = 0; done && d < item->tensor->ndim; d++)
        done = json_array_append_new(shape, json_integer(item->tensor->shape[d])) == 0;
    if (!done) {
        json_decref(shape);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", item->dtype->name, "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)begin + (json_int_t)item->bytes);
}

static gsc_status add_metadata_entry(const char *who, json_t *entries, const gsc_metadata *entry)
{
    GSC_TRY(gsc__json_check_text(who, "a metadata key", entry->key));
    GSC_TRY(gsc__json_check_text(who, "a metadata value", entry->value));
    if (json_object_get(entries, entry->key))
        return gsc_fail(GSC_ERR_VALUE, "%s: two entries of metadata have the key \"%s\"", who, entry->key);
    return json_object_set_new(entries, entry->key, json_string(entry->value)) == 0 ? GSC_OK : out_of_memory(who);
}

static gsc_status add_metadata(const char *who, json_t *header, const gsc_metadata *metadata, size_t m)
{
    if (m == 0)
        return GSC_OK;
    json_t *entries = json_object();
    if (json_object_set_new(header, GSC_SAFETENSORS_METADATA, entries) != 0) /* also of NULL */
        return out_of_memory(who);
    for (size_t i = 0; i < m; i++)
        GSC_TRY(add_metadata_entry(who, entries, &metadata[i]));
    return GSC_OK;
}

static gsc_status add_tensors(const char *who, json_t *header, const gsc__safetensors_plan *plan)
{
    int64_t begin = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const gsc__safetensors_item *item = &plan->items[i];
        if (json_object_get(header, item->name))
            return gsc_fail(GSC_ERR_VALUE, "%s: two tensors are named \"%s\"", who, item->name);
        if (item->bytes > INT64_MAX - begin)
            return gsc_fail(GSC_ERR_VALUE, "%s: the tensors have more bytes than a file can", who);
        if (json_object_set_new(header, item->name, describe(item, begin)) != 0)
            return out_of_memory(who);
        begin += item->bytes;
    }
    return GSC_OK;
}

/* The header's length, the header, and spaces up to an aligned start of the data. */
static gsc_status make_head(const char *who, const char *header, size_t size, gsc__safetensors_plan *plan)
{
    size_t padded = (size + GSC_SAFETENSORS_ALIGNMENT - 1) / GSC_SAFETENSORS_ALIGNMENT * GSC_SAFETENSORS_ALIGNMENT;
    if (padded > GSC_SAFETENSORS_MAX_HEADER)
        return gsc_fail(GSC_ERR_VALUE, "%s: names, shapes and metadata take %zu bytes, allowed are %d", who, padded,
                        (int)GSC_SAFETENSORS_MAX_HEADER);
    char *head = malloc(GSC_SAFETENSORS_LENGTH + padded);
    if (!head)
        return out_of_memory(who);
    uint64_t length = padded;
    memcpy(head, &length, GSC_SAFETENSORS_LENGTH);
    memcpy(head + GSC_SAFETENSORS_LENGTH, header, size);
    memset(head + GSC_SAFETENSORS_LENGTH + size, ' ', padded - size);
    plan->head = head;
    plan->head_size = GSC_SAFETENSORS_LENGTH + padded;
    return GSC_OK;
}

static gsc_status print_head(const char *who, const json_t *header, gsc__safetensors_plan *plan)
{
    size_t size;
    char *text = gsc__json_print(header, JSON_COMPACT, &size);
    if (!text)
        return out_of_memory(who);
    gsc_status status = make_head(who, text, size, plan);
    free(text);
    return status;
}

static gsc_status plan_items(const char *who, const gsc_named_tensor *tensors, gsc__safetensors_plan *plan)
{
    plan->items = calloc(plan->count + 1, sizeof *plan->items);
    if (!plan->items)
        return out_of_memory(who);
    for (size_t i = 0; i < plan->count; i++)
        GSC_TRY(check_named(who, &tensors[i], &plan->items[i]));
    qsort(plan->items, plan->count, sizeof *plan->items, by_dtype_and_name);
    return GSC_OK;
}

static gsc_status fill_plan(const char *who, const gsc_named_tensor *tensors, const gsc_metadata *metadata, size_t m,
                            json_t *header, gsc__safetensors_plan *plan)
{
    GSC_TRY(plan_items(who, tensors, plan));
    GSC_TRY(add_metadata(who, header, metadata, m));
    GSC_TRY(add_tensors(who, header, plan));
    return print_head(who, header, plan);
}

gsc_status gsc__safetensors_plan_create(const char *who, const gsc_named_tensor *tensors, size_t n,
                                        const gsc_metadata *metadata, size_t m, gsc__safetensors_plan *out)
{
    if ((n > 0 && !tensors) || (m > 0 && !metadata))
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL", who, n > 0 && !tensors ? "tensors" : "metadata");
    gsc__safetensors_plan plan = {.count = n};
    json_t *header = json_object();
    gsc_status status = header ? fill_plan(who, tensors, metadata, m, header, &plan) : out_of_memory(who);
    json_decref(header);
    if (status == GSC_OK)
        *out = plan;
    else
        gsc__safetensors_plan_free(&plan);
    return status;
}

void gsc__safetensors_plan_free(gsc__safetensors_plan *plan)
{
    free(plan->items);
    free(plan->head);
    *plan = (gsc__safetensors_plan){0};
}

gsc_status gsc__safetensors_plan_write(const gsc__safetensors_plan *plan, gsc__file *file)
{
    GSC_TRY(gsc__file_write(file, plan->head, plan->head_size));
    for (size_t i = 0; i < plan->count; i++)
        if (plan->items[i].bytes > 0)
            GSC_TRY(gsc__file_write(file, gsc__elements(plan->items[i].tensor), (size_t)plan->items[i].bytes));
    return GSC_OK;
}

static gsc_status write_into(int folder, const char *path, const gsc__safetensors_plan *plan)
{
    gsc__file file;
    GSC_TRY(gsc__file_create(folder, path, &file));
    GSC_TRY(gsc__file_finish(&file, gsc__safetensors_plan_write(plan, &file)));
    return gsc__folder_sync(folder, path);
}

static gsc_status write_durably(const char *path, const gsc__safetensors_plan *plan)
{
    int folder;
    GSC_TRY(gsc__folder_open_parent(path, &folder));
    gsc_status status = write_into(folder, path, plan);
    close(folder);
    return status;
}

gsc_status gsc_safetensors_write(const char *path, const gsc_named_tensor *tensors, size_t n,
                                 const gsc_metadata *metadata, size_t m)
{
    if (!path)
        return gsc_fail(GSC_ERR_VALUE, "gsc_safetensors_write: path is NULL");
    gsc__safetensors_plan plan;
    GSC_TRY(gsc__safetensors_plan_create(path, tensors, n, metadata, m, &plan));
    gsc_status status = write_durably(path, &plan);
    gsc__safetensors_plan_free(&plan);
    return status;
}
