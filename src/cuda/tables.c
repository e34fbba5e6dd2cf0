/* SPDX-License-Identifier: Apache-2.0 */
/* tables.c: a list of tensors as tables in device memory: one for each device that has some of them. */
#include <stdlib.h>
#include <string.h>

#include "cuda/module.h"
#include "cuda/upload.h"

static gsc_status no_memory(size_t count)
{
    return gsc_fail(GSC_ERR_MEMORY, "CUDA: no memory for a list of %zu gradients", count);
}

static gsc_status create_passes(gsc__device_record *record, gsc__cuda_part *part)
{
    gsc__cuda_buffer passes = {0}, home_pass = {0};
    if (!part->passes) { /* else the second one failed before */
        GSC_TRY(gsc__cuda_reserve(record, part->site, &passes, GSC_CUDA_PASSES * sizeof *part->passes));
        part->passes = (gsc__cuda_pass *)(uintptr_t)passes.address;
    }
    GSC_TRY(gsc__cuda_reserve(record, record->device->sites, &home_pass, sizeof *part->home_pass));
    part->home_pass = (gsc__cuda_pass *)(uintptr_t)home_pass.address;
    return GSC_OK;
}

static gsc_status create_part(gsc__device_record *record, int32_t device_id, gsc__cuda_part **out)
{
    gsc__cuda_site *site;
    GSC_TRY(gsc__cuda_site_get(record->device, device_id, &site));
    gsc__cuda_part *part = calloc(1, sizeof *part);
    if (!part)
        return no_memory(1);
    part->site = site;
    *out = part; /* in the record's list, which frees it */
    return GSC_OK;
}

/* The part on that device, made where it is not there yet. */
static gsc_status find_part(gsc__device_record *record, int32_t device_id, gsc__cuda_part **out)
{
    gsc__cuda_part **end = &record->parts;
    while (*end && (*end)->site->context->device_id != device_id)
        end = &(*end)->next;
    if (!*end)
        GSC_TRY(create_part(record, device_id, end));
    *out = *end;
    if (!(*out)->home_pass && *out != record->parts)
        GSC_TRY(create_passes(record, *out));
    return GSC_OK;
}

static gsc_status count_tensors(gsc__device_record *record, const gsc__device_tensor *tensors, size_t count)
{
    for (gsc__cuda_part *part = record->parts; part; part = part->next) {
        part->tensor_count = part->dim_count = 0;
        part->item_count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        gsc__cuda_part *part;
        GSC_TRY(find_part(record, tensors[i].device_id, &part));
        part->tensor_count++;
        part->dim_count += (size_t)tensors[i].ndim;
        part->item_count += gsc__cuda_items_of(&tensors[i]);
        if (part->item_count > UINT32_MAX)
            return gsc_fail(GSC_ERR_VALUE,
                            "CUDA: gradients on one device have more than %llu elements (2^32 blocks of %d) in all",
                            (unsigned long long)UINT32_MAX * GSC_CUDA_ITEM, GSC_CUDA_ITEM);
    }
    return GSC_OK;
}

/* Makes *array larger where it has room for fewer than count elements. */
static bool grow(void *array, size_t *capacity, size_t count, size_t size)
{
    void *before, *after;
    memcpy(&before, array, sizeof before);
    if (count <= *capacity)
        return true;
    count = count < 2 * *capacity ? 2 * *capacity : count;
    after = realloc(before, count * size);
    if (!after)
        return false;
    memcpy(array, &after, sizeof after);
    *capacity = count;
    return true; /* cppcheck-suppress memleak ; *array has it */
}

static gsc_status reserve_part(gsc__device_record *record, gsc__cuda_part *part)
{
    if (part->tensor_count == 0)
        return GSC_OK;
    if (!grow(&part->host_tensors, &part->tensor_capacity, part->tensor_count, sizeof *part->host_tensors) ||
        !grow(&part->host_dims, &part->dim_capacity, part->dim_count, sizeof *part->host_dims))
        return no_memory(part->tensor_count);
    GSC_TRY(gsc__cuda_reserve(record, part->site, &part->tensors, part->tensor_count * sizeof *part->host_tensors));
    GSC_TRY(gsc__cuda_reserve(record, part->site, &part->dims, part->dim_count * sizeof *part->host_dims));
    return gsc__cuda_reserve(record, part->site, &part->item_tensors, (size_t)part->item_count * sizeof(uint32_t));
}

/* Whether the elements are neighbours in the order of the dims. */
static bool is_dense(const gsc__device_tensor *tensor)
{
    int64_t stride = 1;
    for (int32_t d = 0; d < tensor->ndim; d++) {
        if (tensor->dims[d].stride != stride)
            return false;
        stride *= tensor->dims[d].shape;
    }
    return true;
}

static void add_tensor(gsc__cuda_part *part, const gsc__device_tensor *tensor)
{
    for (int32_t d = 0; part->host_dims && d < tensor->ndim; d++) /* NULL: no tensor has any */
        part->host_dims[part->dim_count + (size_t)d] = tensor->dims[d];
    part->host_tensors[part->tensor_count++] = (gsc__cuda_tensor){.start = (uint64_t)(uintptr_t)tensor->start,
                                                                  .count = tensor->count,
                                                                  .row_major_start = tensor->row_major_start,
                                                                  .first_item = (uint32_t)part->item_count,
                                                                  .first_dim = (uint32_t)part->dim_count,
                                                                  .index = tensor->index,
                                                                  .ndim = (uint16_t)tensor->ndim,
                                                                  .kind = (uint8_t)tensor->kind,
                                                                  .dense = is_dense(tensor)};
    part->dim_count += (size_t)tensor->ndim;
    part->item_count += gsc__cuda_items_of(tensor);
}

/* After count_tensors and reserve_part. */
static void fill_part(gsc__cuda_part *part, const gsc__device_tensor *tensors, size_t count)
{
    part->tensor_count = part->dim_count = 0;
    part->item_count = 0;
    if (!part->host_tensors)
        return; /* there has never been a tensor */
    for (size_t i = 0; i < count; i++)
        if (tensors[i].device_id == part->site->context->device_id)
            add_tensor(part, &tensors[i]);
}

static gsc_status send_items(const gsc__cuda_part *part)
{
    const gsc__cuda_context *context = part->site->context;
    const gsc__cuda_items_args args = {.tensors = part->table.tensors,
                                       .item_tensors = (uint32_t *)(uintptr_t)part->item_tensors.address,
                                       .tensor_count = part->table.tensor_count,
                                       .item_count = part->table.item_count};
    return gsc__cuda_launch(context, GSC_CUDA_KERNEL_items,
                            gsc__cuda_blocks(context, args.item_count, GSC_CUDA_MAX_THREADS), GSC_CUDA_MAX_THREADS,
                            part->site->stream, &args, "find the gradients' blocks");
}

static gsc_status send_part(const gsc__cuda_part *part)
{
    const gsc__cuda_context *context = part->site->context;
    CUstream stream = part->site->stream;
    const char *what = "send the list of gradients";
    GSC_TRY(gsc__cuda_upload(context, stream, (void *)(uintptr_t)part->tensors.address, part->host_tensors,
                             part->tensor_count * sizeof *part->host_tensors, what));
    GSC_TRY(gsc__cuda_upload(context, stream, (void *)(uintptr_t)part->dims.address, part->host_dims,
                             part->dim_count * sizeof *part->host_dims, what));
    return send_items(part);
}

static void set_table(gsc__cuda_part *part)
{
    part->table = (gsc__cuda_table){.tensors = (const gsc__cuda_tensor *)(uintptr_t)part->tensors.address,
                                    .dims = (const gsc__device_dim *)(uintptr_t)part->dims.address,
                                    .item_tensors = (const uint32_t *)(uintptr_t)part->item_tensors.address,
                                    .tensor_count = (uint32_t)part->tensor_count,
                                    .item_count = (uint32_t)part->item_count};
}

/* Other devices come after the scaler's, whose stream may be under capture, which then takes theirs in. */
static gsc_status send_tables(gsc__device_record *record)
{
    for (gsc__cuda_part *part = record->parts; part; part = part->next) {
        set_table(part);
        if (part->tensor_count == 0)
            continue;
        GSC_TRY(gsc__cuda_site_wait(part->site, record->device->sites));
        GSC_TRY(gsc__cuda_enter(part->site->context));
        gsc_status status = send_part(part);
        gsc__cuda_leave();
        GSC_TRY(status);
    }
    return GSC_OK;
}

static gsc_status note_capture(gsc__device_record *record)
{
    const gsc__cuda_site *home = record->device->sites;
    bool is_capturing = false;
    GSC_TRY(gsc__cuda_enter(home->context));
    gsc_status status = gsc__cuda_is_capturing(home->stream, &is_capturing);
    gsc__cuda_leave();
    record->is_captured = record->is_captured || is_capturing;
    return status;
}

/* While a graph is captured, it gets a copy of the list, and sends it whenever it is replayed: so the list that was
 * sent last may be another one from then on. */
gsc_status gsc__cuda_list_tensors(gsc__device_record *record, const gsc__device_tensor *tensors, size_t count,
                                  bool same_tensors)
{
    GSC_TRY(note_capture(record));
    if (same_tensors && record->is_listed && !record->is_captured)
        return GSC_OK;
    record->is_listed = false;
    GSC_TRY(count_tensors(record, tensors, count));
    for (gsc__cuda_part *part = record->parts; part; part = part->next)
        GSC_TRY(reserve_part(record, part));
    for (gsc__cuda_part *part = record->parts; part; part = part->next)
        fill_part(part, tensors, count);
    GSC_TRY(send_tables(record));
    record->is_listed = true;
    return GSC_OK;
}

gsc_status gsc__cuda_reserve_counts(gsc__device_record *record, size_t grad_count)
{
    if (grad_count > UINT32_MAX)
        return gsc_fail(GSC_ERR_VALUE, "CUDA: an optimizer has %zu gradients; allowed are 2^32 - 1", grad_count);
    const gsc__cuda_site *home = record->device->sites;
    const size_t bytes = grad_count * sizeof(gsc__cuda_count);
    gsc__cuda_buffer entries = record->entries;
    for (gsc__cuda_part *part = record->parts; part; part = part->next) {
        GSC_TRY(gsc__cuda_reserve(record, part->site, &part->counts, bytes));
        if (part != record->parts)
            GSC_TRY(gsc__cuda_reserve(record, home, &part->home_counts, bytes));
    }
    GSC_TRY(gsc__cuda_reserve(record, home, &record->entries, grad_count * sizeof(gsc__cuda_entry)));
    record->grad_count = grad_count;
    if (entries.address == 0 || entries.address == record->entries.address)
        return GSC_OK;
    GSC_TRY(gsc__cuda_enter(home->context)); /* the last report moves along */
    gsc_status status =
        GSC_CUDA_CALL("keep the last report", cuMemcpyPeerAsync, record->entries.address, home->context->handle,
                      entries.address, home->context->handle, entries.capacity, home->stream);
    gsc__cuda_leave();
    return status;
}

/* Behind the items' partials stand those of the tree's first level, and of its second. */
gsc_status gsc__cuda_reserve_partials(gsc__device_record *record)
{
    for (gsc__cuda_part *part = record->parts; part; part = part->next) {
        size_t items = part->table.item_count;
        size_t count = items + items / GSC_CUDA_MAX_THREADS + 1 +
                       items / ((size_t)GSC_CUDA_MAX_THREADS * GSC_CUDA_MAX_THREADS) + 1;
        if (items > 0)
            GSC_TRY(gsc__cuda_reserve(record, part->site, &part->partials, count * sizeof(gsc__cuda_partial)));
    }
    return GSC_OK;
}
