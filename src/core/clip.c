/* SPDX-License-Identifier: Apache-2.0 */
/* clip.c: clipping an optimizer's gradients to a total norm. */
#include "core/entry.h"

gsc_status gsc__clip_list(gsc_scaler *scaler, gsc__record *record, double max_norm, double p, double *norm)
{
    double total;
    gsc__env_enter(scaler);
    GSC_TRY(gsc__ranks_norm(scaler, record, 1.0, p, NULL, &total));
    if (norm)
        *norm = total;
    double coefficient = gsc__clip_coefficient(max_norm, total);
    if (coefficient < 1.0) {
        scaler->progress.activity = GSC_CLIPPING;
        gsc__sweep_multiply(&scaler->list, coefficient);
        scaler->progress.activity = GSC_IDLE;
    }
    return GSC_OK;
}

gsc_status gsc__clip_collect(gsc_scaler *scaler, gsc__record *record, double p, const char *api)
{
    const gsc__collect_rules rules = {
        .api = api, .want_norm = true, .allow_fp16 = scaler->options.allow_fp16_grads || !scaler->options.enabled};
    gsc__record *enabled = scaler->options.enabled ? record : NULL;
    scaler->progress = (gsc__progress){.activity = GSC_MEASURING, .record = enabled, .p = p};
    gsc_status status = enabled ? gsc__check_same_gradients(scaler, record, api) : GSC_OK;
    if (status == GSC_OK)
        status = gsc__collect(scaler, record, &rules);
    scaler->progress.activity = GSC_IDLE;
    if (status != GSC_OK)
        gsc__ranks_norm_refused(scaler, enabled, p);
    return status;
}

gsc_status gsc__clip_hand_over(gsc_scaler *scaler, gsc__record *record, double p, const char *api)
{
    gsc_status status = gsc__device_replace(scaler, record, api);
    if (status != GSC_OK)
        gsc__ranks_norm_refused(scaler, scaler->options.enabled ? record : NULL, p);
    return status;
}

/* The gradients are in the device's hands. norm NULL: not wanted, so nothing is waited for. */
static gsc_status clip_on_device(gsc_scaler *scaler, gsc__record *record, double max_norm, double p, const char *api,
                                 double *norm)
{
    const gsc__device_clip_request request = {.api = api, .p = p, .max_norm = max_norm, .use = GSC_CLIP_WHATEVER};
    GSC_TRY(gsc__device_clip(scaler, record, &request));
    if (!norm)
        return GSC_OK;
    GSC_TRY(gsc__device_know(scaler, record, NULL, api));
    *norm = gsc__device_norm(scaler, record);
    return GSC_OK;
}

gsc_status gsc__clip_unscaled(gsc_scaler *scaler, gsc__record *record, double max_norm, double p, const char *api,
                              double *norm)
{
    GSC_TRY(gsc__clip_collect(scaler, record, p, api));
    if (scaler->device) {
        GSC_TRY(gsc__clip_hand_over(scaler, record, p, api));
        return clip_on_device(scaler, record, max_norm, p, api, norm);
    }
    gsc__env_enter(scaler);
    return gsc__clip_list(scaler, scaler->options.enabled ? record : NULL, max_norm, p, norm);
}

static gsc_status check_norm(double max_norm, double p, const char *api)
{
    if (!(max_norm >= 0.0))
        return gsc_fail(GSC_ERR_VALUE, "%s: max_norm is %.9g, allowed are 0 and more, infinity included", api,
                        max_norm);
    if (!(p > 0.0))
        return gsc_fail(GSC_ERR_VALUE, "%s: norm_type is %.9g, allowed are values > 0, infinity included", api, p);
    return GSC_OK;
}

/* Checks and unscales first. */
static gsc_status clip_ready(gsc_scaler *scaler, gsc__record *record, double max_norm, double p, const char *api,
                             double *norm)
{
    const gsc__check_request request = {.api = api, .unscales = true, .want_norm = true};
    GSC_TRY(gsc__check_gradients(scaler, record, &request));
    return scaler->device ? clip_on_device(scaler, record, max_norm, p, api, norm)
                          : gsc__clip_list(scaler, record, max_norm, p, norm);
}

/* record: what the scaler knows of this optimizer, NULL: nothing. */
static gsc_status clip(gsc_scaler *scaler, const gsc_optimizer *optimizer, gsc__record *record, double max_norm,
                       double p, const char *api, double *norm)
{
    GSC_TRY(check_norm(max_norm, p, api));
    bool unscaled = record && record->stage == GSC_STAGE_UNSCALED;
    bool is_ready = scaler->options.enabled && !unscaled;
    if (is_ready)
        GSC_TRY(gsc__require_ready(record, api));
    if (unscaled && record->comm_failure != GSC_COMM_FINE)
        return gsc__refuse_comm(record, api);
    if (unscaled)
        GSC_TRY(gsc__require_whole(record, api));
    const gsc__user user = gsc__optimizer_user(optimizer, api);
    gsc_status status = gsc__record_open(scaler, &user, &record);
    if (status == GSC_OK)
        return is_ready ? clip_ready(scaler, record, max_norm, p, api, norm)
                        : gsc__clip_unscaled(scaler, record, max_norm, p, api, norm);
    if (is_ready)
        gsc__ranks_refuse(scaler, record);
    else
        gsc__ranks_norm_refused(scaler, NULL, p);
    return status;
}

gsc_status gsc_scaler_clip_grad_norm(gsc_scaler *scaler, const gsc_optimizer *optimizer, double max_norm,
                                     double norm_type, double *total_norm)
{
    const char *api = "gsc_scaler_clip_grad_norm";
    gsc__record *record;
    GSC_TRY(gsc__check_call(scaler, optimizer, api, &record));
    GSC_CALL_SCOPE(scaler);
    gsc__env_enter(scaler);
    double norm = 0.0;
    bool wanted = total_norm || !scaler->device;
    GSC_TRY(clip(scaler, optimizer, record, max_norm, norm_type, api, wanted ? &norm : NULL));
    if (total_norm)
        *total_norm = norm;
    return GSC_OK;
}
