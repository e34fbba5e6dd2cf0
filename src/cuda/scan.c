/* SPDX-License-Identifier: Apache-2.0 */
/* scan.c: a check from the scan to the verdict, what a scale-aware step gets, and how the step ended. */
#include <math.h>

#include "cuda/module.h"

static gsc_status begin(const gsc__device_record *record, const gsc__device_scan *scan)
{
    const gsc__cuda_begin_args args = {.state = record->device->state,
                                       .slot = record->slot,
                                       .host_max_abs = scan->host_max_abs,
                                       .host_found_inf = scan->host_found_inf,
                                       .checked = scan->checked,
                                       .failed = scan->failed,
                                       .unscales = scan->unscales};
    return gsc__cuda_launch_one(record->device, GSC_CUDA_KERNEL_begin, &args, "begin a check");
}

static gsc_status clear_part(const gsc__cuda_part *part)
{
    if (part->counts.address == 0)
        return GSC_OK;
    GSC_TRY(gsc__cuda_enter(part->site->context));
    gsc_status status = GSC_CUDA_CALL("clear counts", cuMemsetD8Async, part->counts.address, 0, part->counts.capacity,
                                      part->site->stream);
    gsc__cuda_leave();
    return status;
}

/* What an earlier scan has counted, whose verdict failed, must not count here. */
static gsc_status clear_counts(const gsc__device_record *record)
{
    for (const gsc__cuda_part *part = record->parts; part && record->is_counted; part = part->next)
        GSC_TRY(clear_part(part));
    return GSC_OK;
}

gsc_status gsc__cuda_scan(gsc__device_record *record, const gsc__device_scan *scan)
{
    const bool sums = scan->p == 1.0 || scan->p == 2.0;
    const gsc__cuda_run run = {.pass = GSC_CUDA_CHECK,
                               .kernel = sums ? GSC_CUDA_KERNEL_sum : GSC_CUDA_KERNEL_scan,
                               .p = scan->p,
                               .counts = true,
                               .gathers = true,
                               .what = scan->unscales ? "unscale the gradients" : "check the gradients"};
    GSC_TRY(gsc__cuda_list_tensors(record, scan->tensors, scan->count, scan->same_tensors));
    GSC_TRY(gsc__cuda_reserve_counts(record, scan->grad_count));
    GSC_TRY(gsc__cuda_reserve_partials(record)); /* little; a norm may be wanted first in a capture */
    GSC_TRY(clear_counts(record));
    GSC_TRY(begin(record, scan));
    record->is_counted = true;
    record->norm = (gsc__cuda_norm_progress){
        .failed = scan->failed, .unscaled = scan->unscales, .has_check = true, .check_p = sums ? scan->p : 0.0};
    return gsc__cuda_run_pass(record, &run);
}

gsc_status gsc__cuda_agreement(gsc__device_record *record, DLTensor *values)
{
    const gsc__cuda_pack_args args = {.slot = record->slot};
    *values = gsc__cuda_values(record, record->slot->agreement, GSC_FLOAT32, GSC_CUDA_AGREED);
    return gsc__cuda_launch_one(record->device, GSC_CUDA_KERNEL_pack, &args, "pack what the ranks agree on");
}

gsc_status gsc__cuda_decide(gsc__device_record *record, bool collective_failed)
{
    const gsc__device *device = record->device;
    const gsc__cuda_site *home = device->sites;
    const gsc__cuda_decide_args args = {.state = device->state,
                                        .slot = record->slot,
                                        .shot = device->shot_on_device,
                                        .counts = (gsc__cuda_count *)(uintptr_t)record->parts->counts.address,
                                        .entries = (gsc__cuda_entry *)(uintptr_t)record->entries.address,
                                        .grad_count = (uint32_t)record->grad_count,
                                        .agreed = device->has_comm,
                                        .collective_failed = collective_failed};
    size_t blocks = gsc__cuda_blocks(home->context, record->grad_count, GSC_CUDA_MAX_THREADS);
    GSC_TRY(gsc__cuda_enter(home->context));
    gsc_status status = gsc__cuda_launch(home->context, GSC_CUDA_KERNEL_decide, blocks > 0 ? blocks : 1,
                                         GSC_CUDA_MAX_THREADS, home->stream, &args, "decide on a step");
    gsc__cuda_leave();
    record->is_counted = record->is_counted && status != GSC_OK;
    return status;
}

gsc_status gsc__cuda_scaling(gsc__device_record *record, gsc_grad_scaling *out)
{
    *out = (gsc_grad_scaling){.multiplier = (double)NAN,
                              .multiplier_dev = &record->multiplier,
                              .multiplier64_dev = &record->multiplier64,
                              .found_inf_dev = &record->found_inf,
                              .stream = record->device->sites->stream};
    return GSC_OK;
}

gsc_status gsc__cuda_finish(gsc__device_record *record, gsc_outcome outcome, bool clipped)
{
    const gsc__cuda_finish_args args = {
        .state = record->device->state, .slot = record->slot, .outcome = outcome, .clipped = clipped};
    return gsc__cuda_launch_one(record->device, GSC_CUDA_KERNEL_finish, &args, "count a step");
}
