/* SPDX-License-Identifier: Apache-2.0 */
/* device_check.c: has a device check (and unscale) an optimizer's gradients and decide, without waiting. */
#include "core/internal.h"

/* Hands the module nothing that it has already. Sets *same to whether it has the gradients of scaler->list. */
static gsc_status take_tensors(gsc_scaler *scaler, gsc__record *record, bool *same)
{
    gsc__device_use *use = &record->device;
    const bool is_known = scaler->list_is_last && !scaler->list_is_copied; /* collect.c has compared them */
    *same = use->is_sent && (is_known || gsc__device_tensors_match(&use->sent, &scaler->list));
    if (*same)
        return GSC_OK;
    use->is_sent = false;
    return gsc__device_tensors_take(&use->sent, &scaler->list);
}

/* Whether every gradient is on the scaler's own device, where multiplier_dev is. */
static bool all_here(const gsc_scaler *scaler)
{
    const gsc__list *list = &scaler->list;
    for (size_t i = 0; i < list->count; i++)
        if (!gsc__is_on(list->views[i].tensor, scaler->options.device))
            return false;
    return list->count > 0;
}

/* Norms of shards are added up on the device. */
static gsc_status check_shards(const gsc_scaler *scaler, const char *api)
{
    if (scaler->device->host.count == 0 || !gsc__is_sharded(scaler))
        return GSC_OK;
    return gsc_fail(GSC_ERR_UNSUPPORTED,
                    "%s: gradients in shards (comm.allreduce_sum) cannot be clipped while some are on the CPU and the "
                    "scaler is on a device; move them to the device",
                    api);
}

static gsc_status prepare(gsc_scaler *scaler, gsc__record *record, const gsc__check_request *request, bool *same)
{
    GSC_TRY(gsc__device_open(scaler, record, request->api));
    GSC_TRY(take_tensors(scaler, record, same));
    /* The same tensors on devices, and none beside them. */
    const bool was_here = *same && record->device.is_here && scaler->list.count == record->device.sent.count;
    record->device.is_here = was_here || all_here(scaler);
    if (record->device.is_here)
        scaler->device->host.count = 0;
    else
        GSC_TRY(gsc__device_take_host(scaler, request->api, request->want_norm));
    return request->want_norm ? check_shards(scaler, request->api) : GSC_OK;
}

/* The module has begun: it may have written some of the gradients and not others. */
static gsc_status not_whole(gsc_scaler *scaler, gsc__record *record, gsc_status status)
{
    gsc__note_written(scaler, record);
    return status;
}

static gsc_status scan(gsc_scaler *scaler, gsc__record *record, gsc__device_scan *scan, const char *api)
{
    gsc__device_use *use = &record->device;
    GSC_TRY(gsc__device_sweep_host(scaler, record, scan, api));
    gsc_status status = gsc__device_status(scaler->device->backend->scan(use->record, scan), api);
    use->is_sent = status == GSC_OK;
    use->has_coefficient = use->has_host_norm = false;
    bool writes = scan->unscales && (status == GSC_ERR_DEVICE || scaler->device->host.count > 0);
    return status != GSC_OK && writes ? not_whole(scaler, record, status) : status;
}

/* Enqueues the verdict of the scan. */
static gsc_status decide(gsc_scaler *scaler, gsc__record *record, bool unscaled, const char *api)
{
    bool collective_failed;
    scaler->progress.activity = GSC_IDLE;
    gsc_status status = gsc__device_agree(scaler, record, api, &collective_failed);
    if (collective_failed)
        return gsc__ranks_failed(scaler, record, GSC_COMM_COLLECTIVE_FAILED, status);
    if (status != GSC_OK)
        return unscaled ? not_whole(scaler, record, status) : status;
    record->check++;
    scaler->pending.recorded = true;
    return GSC_OK;
}

gsc_status gsc__device_check(gsc_scaler *scaler, gsc__record *record, const gsc__check_request *request,
                             gsc_status status)
{
    bool same = false;
    if (status == GSC_OK)
        status = prepare(scaler, record, request, &same);
    const bool unscales = request->unscales || !record->device.is_here;
    gsc__device_scan request_scan = {.tensors = record->device.sent.list,
                                     .count = record->device.sent.count,
                                     .same_tensors = same,
                                     .grad_count = record->grad_count,
                                     .unscales = unscales,
                                     .p = request->p,
                                     .checked = scaler->list.count > 0};
    if (status == GSC_OK)
        status = scan(scaler, record, &request_scan, request->api);
    scaler->progress.activity = GSC_IDLE;
    if (status != GSC_OK) {
        gsc__ranks_refuse(scaler, record);
        return status;
    }
    record->has_grads = request_scan.checked;
    record->device.is_word = false;
    GSC_TRY(decide(scaler, record, unscales, request->api));
    if (unscales)
        gsc__record_set_stage(scaler, record, GSC_STAGE_UNSCALED);
    return GSC_OK;
}

gsc_status gsc__device_record_check(gsc_scaler *scaler, gsc__record *record, bool found_inf, const char *api)
{
    const gsc__device_scan word = {.unscales = true, .host_found_inf = found_inf, .checked = true};
    gsc__device_use *use = &record->device;
    scaler->progress.record = record;
    gsc_status status = gsc__device_open(scaler, record, api);
    if (status == GSC_OK)
        status = gsc__device_status(scaler->device->backend->scan(use->record, &word), api);
    use->is_sent = use->is_here = use->has_coefficient = use->has_host_norm = false;
    if (status != GSC_OK) {
        gsc__ranks_refuse(scaler, record);
        return status;
    }
    record->claim = 0;
    record->has_grads = use->is_word = true;
    GSC_TRY(decide(scaler, record, false, api));
    gsc__record_set_stage(scaler, record, GSC_STAGE_UNSCALED);
    return GSC_OK;
}

gsc_status gsc__device_replace(gsc_scaler *scaler, gsc__record *record, const char *api)
{
    gsc__device_use *use = &record->device;
    bool same;
    GSC_TRY(gsc__device_open(scaler, record, api));
    GSC_TRY(take_tensors(scaler, record, &same));
    GSC_TRY(gsc__device_take_host(scaler, api, true));
    GSC_TRY(check_shards(scaler, api));
    use->is_here = all_here(scaler);
    gsc_status status = scaler->device->backend->replace(use->record, use->sent.list, use->sent.count, same);
    use->is_sent = status == GSC_OK;
    return gsc__device_status(status, api);
}
