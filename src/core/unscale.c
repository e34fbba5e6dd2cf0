/* SPDX-License-Identifier: Apache-2.0 */
/* unscale.c: the check of one optimizer's gradients, with or without unscaling them, and what it leaves behind. */
#include "core/internal.h"

double gsc__inverse_scale(const gsc_scaler *scaler)
{
    return gsc__fpenv_pin(1.0 / gsc__fpenv_pin((double)scaler->scale));
}

gsc_status gsc__require_ready(const gsc_scaler *scaler, const gsc_optimizer *optimizer, const char *caller)
{
    const gsc__record *record = gsc__record_find(scaler, optimizer);
    switch (record ? record->stage : GSC_STAGE_READY) {
    case GSC_STAGE_READY:
        if (!record || !record->comm_failed)
            return GSC_OK;
        /* The other ranks have gone on without it: it would wait for them in vain. */
        return gsc_fail(
            GSC_ERR_COMM,
            "%s: this rank refused this optimizer's gradients, and the others know; call " GSC_WORDS_UPDATE_TO
            " on every rank",
            caller);
    case GSC_STAGE_UNSCALED:
        return gsc_fail(GSC_ERR_STATE,
                        "%s: this optimizer's gradients are already unscaled since the last update; unscale once per "
                        "iteration, and call " GSC_WORDS_UPDATE " at its end",
                        caller);
    case GSC_STAGE_STEPPED: break;
    }
    return gsc_fail(GSC_ERR_STATE,
                    "%s: this optimizer has already stepped since the last update; call " GSC_WORDS_UPDATE, caller);
}

static gsc__check_result sweep(gsc_scaler *scaler, const gsc__exam *exam)
{
    double r = gsc__inverse_scale(scaler);
    if (exam->writes)
        return gsc__sweep_unscale(&scaler->list, r);
    if (exam->p == 0.0)
        return gsc__sweep_check(&scaler->list, r);
    gsc__check_result finding;
    gsc__norm_sum(&scaler->list, r, exam->p, exam->sums, &finding);
    return finding;
}

/* The verdict of all ranks becomes the optimizer's and the next update's. */
static void settle(gsc_scaler *scaler, gsc__record *record, const gsc__verdict *verdict)
{
    record->found_inf = verdict->found_inf;
    record->overflowed |= verdict->found_inf;
    scaler->pending.recorded = true;
    scaler->pending.checked |= verdict->checked;
    scaler->pending.overflow |= verdict->found_inf;
}

gsc_status gsc__disagree(gsc_scaler *scaler, gsc__record *record, gsc_status status)
{
    record->stage = GSC_STAGE_UNSCALED;
    record->comm_failed = true;
    scaler->pending.recorded = true;
    return status;
}

gsc_status gsc__examine(gsc_scaler *scaler, const gsc_optimizer *optimizer, const gsc__exam *exam, gsc__record **out)
{
    const gsc__collection collection = {
        .caller = exam->caller, .allow_fp16 = scaler->options.allow_fp16_grads, .want_norm = exam->want_norm};
    gsc_status status = gsc__collect(scaler, optimizer, &collection);
    gsc__env_enter(scaler);
    gsc__check_result finding = {0};
    if (status == GSC_OK)
        finding = sweep(scaler, exam);
    gsc__verdict verdict = {.found_inf = finding.found_inf,
                            .checked = status == GSC_OK && scaler->list.count > 0,
                            .failed = status != GSC_OK};
    bool has_grads = verdict.checked;
    gsc_status agreement = gsc__ranks_agree(scaler, &verdict);
    gsc__record *record = *out = gsc__record_find(scaler, optimizer); /* gsc__collect has made it known */
    if (status != GSC_OK) {
        if (record)
            record->comm_failed = agreement != GSC_OK;
        return status;
    }
    record->has_grads = has_grads;
    record->max_abs = finding.max_abs;
    if (agreement != GSC_OK)
        return gsc__disagree(scaler, record, agreement);
    if (exam->writes)
        record->stage = GSC_STAGE_UNSCALED;
    settle(scaler, record, &verdict);
    if (verdict.found_inf)
        gsc__report_overflow(scaler, record, exam->writes ? 1.0 : gsc__inverse_scale(scaler),
                             finding.found_inf ? GSC_OVERFLOW_HERE : GSC_OVERFLOW_ELSEWHERE);
    return GSC_OK;
}

gsc_status gsc__do_unscale(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    const gsc__exam exam = {.caller = "gsc_scaler_unscale", .writes = true};
    gsc__record *record;
    GSC_TRY(gsc__require_ready(scaler, optimizer, exam.caller));
    return gsc__examine(scaler, optimizer, &exam, &record);
}

gsc_status gsc__do_record(gsc_scaler *scaler, const gsc_optimizer *optimizer, bool found_inf)
{
    gsc__record *record;
    GSC_TRY(gsc__require_ready(scaler, optimizer, "gsc_scaler_record"));
    gsc_status status = gsc__record_get(scaler, optimizer, &record);
    gsc__env_enter(scaler);
    gsc__verdict verdict = {.found_inf = found_inf, .checked = true, .failed = status != GSC_OK};
    gsc_status agreement = gsc__ranks_agree(scaler, &verdict);
    GSC_TRY(status);
    record->has_grads = true;
    record->max_abs = 0.0;
    if (agreement != GSC_OK)
        return gsc__disagree(scaler, record, agreement);
    record->stage = GSC_STAGE_UNSCALED;
    settle(scaler, record, &verdict);
    if (verdict.found_inf)
        gsc__report_overflow(scaler, record, 1.0, found_inf ? GSC_OVERFLOW_RECORDED : GSC_OVERFLOW_ELSEWHERE);
    return GSC_OK;
}
