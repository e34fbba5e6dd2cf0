/* SPDX-License-Identifier: Apache-2.0 */
/* device_clip.c: has a device clip the gradients that it was handed last. */
#include "core/internal.h"

/* A failure in the middle leaves some gradients clipped. A disabled scaler keeps no stage that could say so. */
static gsc_status clip_failed(gsc_scaler *scaler, gsc__record *record, gsc_status status, const char *api)
{
    if (status == GSC_ERR_DEVICE && scaler->options.enabled)
        gsc__note_written(scaler, record);
    return gsc__device_status(status, api);
}

/* The norm is put together here, so the device is waited for. */
static gsc_status clip_with_host(gsc_scaler *scaler, gsc__record *record, const gsc__device_clip_request *request)
{
    gsc__device_part *part = scaler->device;
    gsc__device_use *use = &record->device;
    /* An infinite max_norm only adds up. */
    GSC_TRY(
        gsc__device_status(part->backend->clip(use->record, request->p, (double)INFINITY, request->use), request->api));
    GSC_TRY(gsc__device_settle(scaler, request->api));
    const gsc__device_verdict verdict = gsc__device_verdict_of(scaler, record);
    gsc__env_enter(scaler);
    use->host_norm = gsc__device_total_norm(scaler, request->p, verdict.numbers.norm);
    use->has_host_norm = true;
    const double coefficient = gsc__clip_coefficient(request->max_norm, use->host_norm);
    const bool overflowed = request->use != GSC_CLIP_WHATEVER && verdict.found_inf;
    if (coefficient >= 1.0 || (scaler->options.enabled && (overflowed || verdict.comm_failed)))
        return GSC_OK;
    gsc_status status = part->backend->multiply(use->record, coefficient);
    if (status != GSC_OK)
        return clip_failed(scaler, record, status, request->api);
    scaler->progress.activity = GSC_CLIPPING;
    gsc__sweep_multiply(&part->host, coefficient);
    scaler->progress.activity = GSC_IDLE;
    return GSC_OK;
}

gsc_status gsc__device_clip(gsc_scaler *scaler, gsc__record *record, const gsc__device_clip_request *request)
{
    gsc__device_use *use = &record->device;
    const bool in_place = request->use != GSC_CLIP_MULTIPLIER;
    bool failed = false;
    if (scaler->device->host.count > 0)
        return clip_with_host(scaler, record, request);
    use->has_host_norm = false;
    gsc_status status = GSC_OK;
    if (gsc__is_sharded(scaler))
        status = gsc__device_reduce_norm(scaler, record, request->p, request->api, &failed);
    if (failed && scaler->options.enabled)
        return gsc__ranks_failed(scaler, record, GSC_COMM_COLLECTIVE_FAILED, status);
    if (status != GSC_OK)
        return status;
    status = scaler->device->backend->clip(use->record, request->p, request->max_norm, request->use);
    if (status != GSC_OK)
        return in_place ? clip_failed(scaler, record, status, request->api) : gsc__device_status(status, request->api);
    use->has_coefficient |= !in_place;
    return GSC_OK;
}

double gsc__device_norm(const gsc_scaler *scaler, const gsc__record *record)
{
    const gsc__device_use *use = &record->device;
    return use->has_host_norm ? use->host_norm : gsc__device_verdict_of(scaler, record).numbers.norm;
}
