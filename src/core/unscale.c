/* SPDX-License-Identifier: Apache-2.0 */
/* unscale.c: the check of one optimizer's gradients, which unscales them where asked, and what it leaves for step and
 * update. */
#include "core/entry.h"

gsc_status gsc__refuse_comm(const gsc__record *record, const char *api)
{
    static const char *const reasons[] = {
        [GSC_COMM_REFUSED_HERE] = "this rank refused this optimizer's gradients, and the others know",
        [GSC_COMM_REFUSED_ELSEWHERE] = "another rank refused its gradients of this optimizer; see its message",
        [GSC_COMM_SCALES_DIFFER] = "the ranks' scales differed at this optimizer's gradients",
        [GSC_COMM_COLLECTIVE_FAILED] = "a collective for this optimizer's gradients failed",
    };
    return gsc_fail(GSC_ERR_COMM, "%s: %s; call " GSC_WORDS_UPDATE_TO " with one value on every rank", api,
                    reasons[record->comm_failure]);
}

gsc_status gsc__require_whole(const gsc__record *record, const char *api)
{
    if (!record->partly_written || record->comm_failure != GSC_COMM_FINE)
        return GSC_OK;
    return gsc_fail(
        GSC_ERR_STATE,
        "%s: an exception in the host's parallel loop, or a failure of the device, left this optimizer's gradients "
        "written in part; drop them: %s",
        api,
        GSC_WORDS("gsc_scaler_skip and gsc_scaler_update, or compute them anew and gsc_scaler_rearm",
                  "skip and update, or compute them anew and rearm"));
}

gsc_status gsc__require_ready(const gsc__record *record, const char *api)
{
    switch (record ? record->stage : GSC_STAGE_READY) {
    case GSC_STAGE_READY:
        if (!record || record->comm_failure == GSC_COMM_FINE)
            return GSC_OK;
        /* The other ranks know, too, and will enter no collective for this optimizer. */
        return gsc__refuse_comm(record, api);
    case GSC_STAGE_UNSCALED:
        GSC_TRY(gsc__require_whole(record, api));
        return gsc_fail(GSC_ERR_STATE,
                        "%s: this optimizer's gradients are already unscaled since the last update; unscale once per "
                        "iteration, and call " GSC_WORDS_UPDATE " at its end. If they were made anew since, " GSC_WORDS(
                            "call gsc_scaler_rearm first", "call rearm first") "; or " GSC_WORDS_DROP_BATCH,
                        api);
    case GSC_STAGE_STEPPED: break;
    }
    return gsc_fail(GSC_ERR_STATE,
                    "%s: this optimizer has already stepped since the last update; call " GSC_WORDS_UPDATE, api);
}

static gsc__check_result sweep(gsc_scaler *scaler, const gsc__check_request *request)
{
    double r = gsc__inverse_scale(scaler);
    if (request->unscales)
        return gsc__sweep_unscale(&scaler->list, r);
    if (request->p == 0.0)
        return gsc__sweep_check(&scaler->list, r);
    gsc__check_result result;
    gsc__norm_sum(&scaler->list, r, request->p, request->sums, &result);
    return result;
}

/* What this rank has seen. */
static void note_check(const gsc_scaler *scaler, gsc__record *record, bool has_grads, double max_abs)
{
    record->has_grads = has_grads;
    record->max_abs = max_abs;
    record->scale = (double)scaler->schedule.scale;
}

/* For step and for the next update. */
static void note_agreement(gsc_scaler *scaler, gsc__record *record, const gsc__agreement *agreement)
{
    record->check++;
    record->found_inf = agreement->found_inf;
    record->overflowed |= agreement->found_inf;
    record->checked = agreement->checked;
    scaler->pending.recorded = true;
    scaler->pending.checked |= agreement->checked;
    scaler->pending.overflow |= agreement->found_inf;
}

static void report(gsc_scaler *scaler, gsc__record *record, double r, gsc__overflow_source source)
{
    scaler->progress.activity = GSC_REPORTING;
    gsc__report_overflow(scaler, record, r, source);
    scaler->progress.activity = GSC_IDLE;
}

gsc_status gsc__check_gradients(gsc_scaler *scaler, gsc__record *record, const gsc__check_request *request)
{
    const gsc__collect_rules rules = {.api = request->api,
                                      .claims = true,
                                      .allow_fp16 = scaler->options.allow_fp16_grads,
                                      .want_norm = request->want_norm};
    scaler->progress.activity = GSC_COLLECTING;
    scaler->progress.record = record;
    gsc_status status = gsc__collect(scaler, record, &rules);
    if (status == GSC_OK)
        status = gsc__claim_gradients(scaler, record, request->api);
    if (scaler->device)
        return gsc__device_check(scaler, record, request, status);
    gsc__env_enter(scaler);
    gsc__check_result result = {0};
    if (status == GSC_OK) {
        if (request->unscales)
            scaler->progress.activity = GSC_UNSCALING;
        result = sweep(scaler, request);
    }
    scaler->progress.activity = GSC_IDLE;
    gsc__agreement agreement = {.found_inf = result.found_inf,
                                .checked = status == GSC_OK && scaler->list.count > 0,
                                .failed = status != GSC_OK};
    if (status == GSC_OK)
        note_check(scaler, record, agreement.checked, result.max_abs);
    gsc_status ranks_status = gsc__ranks_agree(scaler, &agreement);
    if (status != GSC_OK) {
        record->comm_failure = agreement.failure;
        return status;
    }
    if (ranks_status != GSC_OK)
        return gsc__ranks_failed(scaler, record, agreement.failure, ranks_status);
    if (request->unscales)
        gsc__record_set_stage(scaler, record, GSC_STAGE_UNSCALED);
    note_agreement(scaler, record, &agreement);
    if (agreement.found_inf)
        report(scaler, record, request->unscales ? 1.0 : gsc__inverse_scale(scaler),
               result.found_inf ? GSC_OVERFLOW_HERE : GSC_OVERFLOW_ELSEWHERE);
    return GSC_OK;
}

gsc_status gsc__unscale(gsc_scaler *scaler, const gsc__user *user, gsc__record *record)
{
    if (!scaler->options.enabled)
        return GSC_OK;
    GSC_CALL_SCOPE(scaler);
    const gsc__check_request request = {.api = user->api, .unscales = true};
    GSC_TRY(gsc__require_ready(record, request.api));
    gsc_status status = gsc__record_open(scaler, user, &record);
    if (status == GSC_OK)
        return gsc__check_gradients(scaler, record, &request);
    gsc__ranks_refuse(scaler, record);
    return status;
}

gsc_status gsc_scaler_unscale(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    const gsc__user user = gsc__optimizer_user(optimizer, "gsc_scaler_unscale");
    gsc__record *record;
    GSC_TRY(gsc__check_call(scaler, optimizer, user.api, &record));
    return gsc__unscale(scaler, &user, record);
}

/* Takes the caller's word for what gsc__check_gradients finds out. */
static gsc_status record_check(gsc_scaler *scaler, gsc__record *record, bool found_inf)
{
    gsc__agreement agreement = {.found_inf = found_inf, .checked = true};
    note_check(scaler, record, true, 0.0);
    scaler->progress.record = record;
    gsc_status ranks_status = gsc__ranks_agree(scaler, &agreement);
    record->claim = 0;
    if (ranks_status != GSC_OK)
        return gsc__ranks_failed(scaler, record, agreement.failure, ranks_status);
    gsc__record_set_stage(scaler, record, GSC_STAGE_UNSCALED);
    note_agreement(scaler, record, &agreement);
    if (agreement.found_inf)
        report(scaler, record, 1.0, found_inf ? GSC_OVERFLOW_RECORDED : GSC_OVERFLOW_ELSEWHERE);
    return GSC_OK;
}

gsc_status gsc_scaler_record(gsc_scaler *scaler, const gsc_optimizer *optimizer, bool found_inf)
{
    const char *api = "gsc_scaler_record";
    gsc__record *record;
    GSC_TRY(gsc__check_known(scaler, optimizer, api, &record));
    if (!record || record->use != GSC_USED_WITH_BUFFERS)
        GSC_TRY(GSC_CHECK_RESERVED(optimizer, api, "optimizer"));
    if (!scaler->options.enabled)
        return GSC_OK;
    GSC_CALL_SCOPE(scaler);
    GSC_TRY(gsc__require_ready(record, api));
    gsc_status status = gsc__record_get(scaler, optimizer, &record);
    if (status == GSC_OK)
        return scaler->device ? gsc__device_record_check(scaler, record, found_inf, api)
                              : record_check(scaler, record, found_inf);
    gsc__ranks_refuse(scaler, NULL);
    return status;
}
