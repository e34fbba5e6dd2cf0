/* SPDX-License-Identifier: Apache-2.0 */
/* report.c: what has to be fetched from the device when it is asked for: an overflow's report, a single number. */
#include <stdlib.h>

#include "cuda/module.h"

/* Copies memory of the site's device and waits. */
static gsc_status fetch(const gsc__cuda_site *site, void *to, CUdeviceptr from, size_t bytes, const char *what)
{
    GSC_TRY(gsc__cuda_enter(site->context));
    gsc_status status = gsc__cuda_refuse_capture(site, what);
    if (status == GSC_OK)
        status = GSC_CUDA_CALL(what, cuMemcpyDtoHAsync_v2, to, from, bytes, site->stream);
    if (status == GSC_OK)
        status = GSC_CUDA_CALL(what, cuStreamSynchronize, site->stream);
    gsc__cuda_leave();
    return status;
}

/* Those of the last report, in the order of their indices. */
static void fill_entries(const gsc__cuda_entry *found, size_t grad_count, uint64_t check, gsc_overflow *entries,
                         size_t capacity)
{
    size_t count = 0;
    for (size_t i = 0; i < grad_count && count < capacity; i++)
        if (found[i].check == check)
            entries[count++] = (gsc_overflow){.index = i,
                                              .inf_count = found[i].infs,
                                              .nan_count = found[i].nans,
                                              .first_index = found[i].first,
                                              .repeats = found[i].repeats};
}

gsc_status gsc__cuda_report(gsc__device_record *record, gsc_overflow *entries, size_t capacity)
{
    const size_t count = record->entries.capacity / sizeof(gsc__cuda_entry);
    if (record->settled->report_count == 0 || capacity == 0)
        return GSC_OK;
    gsc__cuda_entry *found = malloc(count * sizeof *found);
    if (!found)
        return gsc_fail(GSC_ERR_MEMORY, "CUDA: no memory for an overflow report on %zu gradients", count);
    gsc_status status =
        fetch(record->device->sites, found, record->entries.address, count * sizeof *found, "fetch an overflow report");
    if (status == GSC_OK)
        fill_entries(found, count, record->settled->reported_check, entries, capacity);
    free(found);
    return status;
}

gsc_status gsc__cuda_read_element(gsc__device *device, const gsc__device_tensor *tensor, double *value)
{
    gsc__cuda_site *site;
    uint64_t bits = 0; /* little-endian: the element stands at the beginning */
    GSC_TRY(gsc__cuda_site_get(device, tensor->device_id, &site));
    GSC_TRY(fetch(site, &bits, (CUdeviceptr)(uintptr_t)tensor->start, gsc__kind_size(tensor->kind),
                  "read a number from the device"));
    *value = gsc__element(tensor->kind, &bits, 0);
    return GSC_OK;
}
