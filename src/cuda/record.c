/* SPDX-License-Identifier: Apache-2.0 */
/* record.c: the module's part of an optimizer's record: its slot, and memory that only grows. */
#include <stdlib.h>
#include <string.h>

#include "cuda/module.h"
#include "cuda/upload.h"

static gsc_status no_memory(void) { return gsc_fail(GSC_ERR_MEMORY, "CUDA: no memory for an optimizer's record"); }

/* Makes room in the list of outgrown memory. */
static gsc_status reserve_outgrown(gsc__device_record *record)
{
    size_t count = record->outgrown_count + 1;
    CUdeviceptr *addresses = realloc(record->outgrown, count * sizeof *addresses);
    if (addresses)
        record->outgrown = addresses;
    CUcontext *contexts = realloc(record->outgrown_contexts, count * sizeof *contexts);
    if (contexts)
        record->outgrown_contexts = contexts;
    return addresses && contexts ? GSC_OK : no_memory();
}

static void set_outgrown(gsc__device_record *record, CUcontext context, CUdeviceptr address)
{
    if (address == 0)
        return;
    record->outgrown_contexts[record->outgrown_count] = context;
    record->outgrown[record->outgrown_count++] = address;
}

static gsc_status allocate_zeroed(const gsc__cuda_site *site, size_t bytes, CUdeviceptr *out)
{
    GSC_TRY(gsc__cuda_refuse_capture(site, "allocate memory for a list of gradients that it has not seen"));
    GSC_TRY(gsc__cuda_allocate(bytes, out));
    gsc_status status = GSC_CUDA_CALL("clear new memory", cuMemsetD8Async, *out, 0, bytes, site->stream);
    if (status != GSC_OK)
        gsc__cuda_free(*out);
    return status;
}

gsc_status gsc__cuda_reserve(gsc__device_record *record, const gsc__cuda_site *site, gsc__cuda_buffer *buffer,
                             size_t bytes)
{
    CUdeviceptr address = 0;
    if (bytes <= buffer->capacity)
        return GSC_OK;
    bytes = bytes < 2 * buffer->capacity ? 2 * buffer->capacity : bytes;
    GSC_TRY(reserve_outgrown(record));
    GSC_TRY(gsc__cuda_enter(site->context));
    gsc_status status = allocate_zeroed(site, bytes, &address);
    gsc__cuda_leave();
    GSC_TRY(status);
    set_outgrown(record, site->context->handle, buffer->address);
    *buffer = (gsc__cuda_buffer){.address = address, .capacity = bytes};
    return GSC_OK;
}

static DLTensor number(const gsc__device_record *record, void *data, DLDataType dtype)
{
    return (DLTensor){.data = data,
                      .device = {kDLCUDA, record->device->sites->context->device_id},
                      .ndim = 1,
                      .dtype = dtype,
                      .shape = (int64_t *)(uintptr_t)&record->one};
}

DLTensor gsc__cuda_values(gsc__device_record *record, void *data, DLDataType dtype, int64_t count)
{
    record->value_count = count;
    return (DLTensor){.data = data,
                      .device = {kDLCUDA, record->device->sites->context->device_id},
                      .ndim = 1,
                      .dtype = dtype,
                      .shape = &record->value_count};
}

static gsc_status send_slot(gsc__device_record *record, uint64_t record_number)
{
    const gsc__cuda_slot slot = {.number = record_number,
                                 .overflow_epoch = -1,
                                 .comm_failed_epoch = -1,
                                 .r = 1.0,
                                 .scale = 1.0,
                                 .multiplier64 = 1.0,
                                 .multiplier = 1.0f};
    const gsc__cuda_site *home = record->device->sites;
    *record->settled = slot;
    GSC_TRY(gsc__cuda_refuse_capture(home, "begin an optimizer's record"));
    if (record->entries.address != 0) /* of a record that was destroyed */
        GSC_TRY(GSC_CUDA_CALL("clear a report", cuMemsetD8Async, record->entries.address, 0, record->entries.capacity,
                              home->stream));
    return gsc__cuda_upload(home->context, home->stream, record->slot, &slot, sizeof slot,
                            "begin an optimizer's record");
}

static gsc_status allocate_slot(gsc__device_record *record)
{
    void *settled = NULL;
    CUdeviceptr slot = 0, seen_by_device = 0;
    GSC_TRY(gsc__cuda_refuse_capture(record->device->sites, "allocate memory for an optimizer that it has not seen"));
    if (!record->slot) {
        GSC_TRY(gsc__cuda_allocate(sizeof *record->slot, &slot));
        record->slot = (gsc__cuda_slot *)(uintptr_t)slot;
    }
    GSC_TRY(gsc__cuda_allocate_pinned(sizeof *record->settled, &settled, &seen_by_device));
    record->settled = settled;
    return GSC_OK;
}

static gsc_status create_slot(gsc__device_record *record, uint64_t record_number)
{
    GSC_TRY(gsc__cuda_enter(record->device->sites->context));
    gsc_status status = record->settled ? GSC_OK : allocate_slot(record);
    if (status == GSC_OK)
        status = send_slot(record, record_number);
    gsc__cuda_leave();
    return status;
}

static gsc_status create_home_part(gsc__device_record *record)
{
    if (record->parts)
        return GSC_OK;
    record->parts = calloc(1, sizeof *record->parts);
    if (!record->parts)
        return no_memory();
    record->parts->site = record->device->sites;
    return GSC_OK;
}

static gsc_status record_begin(gsc__device_record *record, uint64_t record_number)
{
    GSC_TRY(create_home_part(record));
    GSC_TRY(create_slot(record, record_number));
    record->parts->passes = record->slot->passes;
    record->one = 1;
    record->is_captured = record->is_listed = false;
    record->multiplier = number(record, &record->slot->multiplier, GSC_FLOAT32);
    record->multiplier64 = number(record, &record->slot->multiplier64, GSC_FLOAT64);
    record->found_inf = number(record, &record->slot->found_inf_dev, GSC_FLOAT32);
    return GSC_OK;
}

gsc_status gsc__cuda_record_create(gsc__device *device, uint64_t record_number, gsc__device_record **out)
{
    gsc__device_record *record = device->spare_records;
    if (record)
        device->spare_records = record->next;
    else
        record = calloc(1, sizeof *record);
    if (!record)
        return no_memory();
    record->device = device;
    gsc_status status = record_begin(record, record_number);
    gsc__device_record **list = status == GSC_OK ? &device->records : &device->spare_records;
    record->next = *list;
    *list = record;
    if (status == GSC_OK)
        *out = record;
    return status;
}

/* Work that is enqueued may still use the memory, and freeing would wait for it: the next record gets it. */
void gsc__cuda_record_destroy(gsc__device_record *record)
{
    gsc__device_record **at = &record->device->records;
    while (*at != record)
        at = &(*at)->next;
    *at = record->next;
    record->next = record->device->spare_records;
    record->device->spare_records = record;
}

static void free_buffers(const gsc__cuda_part *part, const gsc__cuda_part *home)
{
    if (gsc__cuda_enter(part->site->context) != GSC_OK)
        return;
    gsc__cuda_free(part->tensors.address);
    gsc__cuda_free(part->dims.address);
    gsc__cuda_free(part->item_tensors.address);
    gsc__cuda_free(part->partials.address);
    gsc__cuda_free(part->counts.address);
    if (part != home)
        gsc__cuda_free((CUdeviceptr)(uintptr_t)part->passes);
    gsc__cuda_leave();
}

static void free_parts(gsc__device_record *record)
{
    gsc__cuda_part *home = record->parts;
    while (record->parts) {
        gsc__cuda_part *part = record->parts;
        record->parts = part->next;
        free_buffers(part, home);
        if (gsc__cuda_enter(record->device->sites->context) == GSC_OK) {
            gsc__cuda_free((CUdeviceptr)(uintptr_t)part->home_pass);
            gsc__cuda_free(part->home_counts.address);
            gsc__cuda_leave();
        }
        free(part->host_tensors);
        free(part->host_dims);
        if (part != home)
            free(part);
    }
    free(home);
}

void gsc__cuda_record_free(gsc__device_record *record)
{
    free_parts(record);
    if (gsc__cuda_enter(record->device->sites->context) == GSC_OK) {
        gsc__cuda_free((CUdeviceptr)(uintptr_t)record->slot);
        gsc__cuda_free(record->entries.address);
        gsc__cuda_free_pinned(record->settled);
        gsc__cuda_leave();
    }
    for (size_t i = 0; i < record->outgrown_count; i++)
        if (gsc__cuda()->cuCtxPushCurrent_v2(record->outgrown_contexts[i]) == CUDA_SUCCESS) {
            gsc__cuda_free(record->outgrown[i]);
            gsc__cuda_leave();
        }
    free(record->outgrown);
    free(record->outgrown_contexts);
    free(record);
}
