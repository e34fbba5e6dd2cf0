/* SPDX-License-Identifier: Apache-2.0 */
#include "core/internal.h"

static gsc_status check_norm(double max_norm, double p, const char *caller)
{
    if (!(max_norm >= 0.0))
        return gsc_fail(GSC_ERR_VALUE, "%s: max_norm is %.9g, allowed are 0 and more, infinity included", caller,
                        max_norm);
    if (!(p > 0.0))
        return gsc_fail(GSC_ERR_VALUE, "%s: norm_type is %.9g, allowed are values > 0, infinity included", caller, p);
    return GSC_OK;
}

gsc_status gsc__clip_list(gsc_scaler *scaler, gsc__record *record, double max_norm, double p, double *norm)
{
    gsc__env_enter(scaler);
    gsc_status status = gsc__ranks_norm(scaler, 1.0, p, NULL, norm);
    if (status != GSC_OK)
        return record ? gsc__disagree(scaler, record, status) : status;
    double coefficient = gsc__clip_coefficient(max_norm, *norm);
    if (coefficient < 1.0)
        gsc__sweep_multiply(&scaler->list, coefficient);
    return GSC_OK;
}

gsc_status gsc__clip_unscaled(gsc_scaler *scaler, const gsc_optimizer *optimizer, double max_norm, double p,
                              const char *caller, double *norm)
{
    const gsc__collection collection = {.caller = caller,
                                        .want_norm = true,
                                        .allow_fp16 = scaler->options.allow_fp16_grads || !scaler->options.enabled};
    gsc_status status = gsc__collect(scaler, optimizer, &collection);
    gsc__env_enter(scaler);
    if (status != GSC_OK) {
        gsc__ranks_norm_refused(scaler, p);
        return status;
    }
    gsc__record *record = scaler->options.enabled ? gsc__record_find(scaler, optimizer) : NULL;
    return gsc__clip_list(scaler, record, max_norm, p, norm);
}

gsc_status gsc__do_clip(gsc_scaler *scaler, const gsc_optimizer *optimizer, double max_norm, double p, double *norm)
{
    const char *caller = "gsc_scaler_clip_grad_norm";
    GSC_TRY(check_norm(max_norm, p, caller));
    if (!scaler->options.enabled)
        return gsc__clip_unscaled(scaler, optimizer, max_norm, p, caller, norm);

    gsc__record *record = gsc__record_find(scaler, optimizer);
    if (!record || record->stage != GSC_STAGE_UNSCALED) {
        const gsc__exam exam = {.caller = caller, .writes = true, .want_norm = true};
        GSC_TRY(gsc__require_ready(scaler, optimizer, caller));
        GSC_TRY(gsc__examine(scaler, optimizer, &exam, &record));
        return gsc__clip_list(scaler, record, max_norm, p, norm); /* the list is still there */
    }
    if (record->comm_failed)
        return gsc_fail(GSC_ERR_COMM,
                        "%s: the ranks could not agree on these gradients; call " GSC_WORDS_UPDATE_TO " on every rank",
                        caller);
    return gsc__clip_unscaled(scaler, optimizer, max_norm, p, caller, norm);
}
