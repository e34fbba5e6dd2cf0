/* SPDX-License-Identifier: Apache-2.0 */
/* step.c: the step of an optimizer, or the reason for none: an overflow, the user's skip. */
#include <math.h>

#include "core/entry.h"
#include "core/step_call.h"

static gsc_status check_args(const gsc_step_args *args, const char *api)
{
    GSC_TRY(GSC_CHECK_RESERVED(args, api, "args"));
    if (!(args->clip_norm >= 0.0))
        return gsc_fail(GSC_ERR_VALUE, "%s: args.clip_norm is %.9g, allowed are 0 (no clipping) and more", api,
                        args->clip_norm);
    if (!(args->clip_norm_type >= 0.0))
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: args.clip_norm_type is %.9g, allowed are 0 (means 2) and more, infinity "
                        "included",
                        api, args->clip_norm_type);
    if (args->stream)
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: args.stream is set, but it is the scaler that sets it for the optimizer; pass NULL, and "
                        "choose streams with gsc_scaler_set_stream",
                        api);
    return GSC_OK;
}

/* The comparisons are arithmetic: a NaN may trap in the caller's environment. */
static gsc_status read_args(gsc__step_attempt *attempt, const gsc_step_args *args)
{
    gsc__env_enter(attempt->scaler);
    GSC_TRY(check_args(args, attempt->api));
    attempt->args = args;
    attempt->clips = args->clip_norm > 0.0;
    attempt->p = args->clip_norm_type == 0.0 ? 2.0 : args->clip_norm_type;
    return GSC_OK;
}

static void finish(gsc__step_attempt *attempt, gsc_outcome outcome)
{
    attempt->result.outcome = outcome;
    gsc__record_set_stage(attempt->scaler, attempt->record, GSC_STAGE_STEPPED);
    attempt->scaler->stats.steps += outcome == GSC_STEPPED;
    attempt->scaler->stats.skipped_steps += outcome == GSC_SKIPPED_OVERFLOW;
}

static gsc_status skip_overflow(gsc__step_attempt *attempt)
{
    gsc__env_enter(attempt->scaler);
    if (attempt->clips)
        attempt->result.grad_norm = gsc__step_skipped_norm(attempt->record->max_abs);
    finish(attempt, GSC_SKIPPED_OVERFLOW);
    return GSC_OK;
}

/* The outcome is the same on every rank, so that what follows it stays the same, too. */
static gsc_status step_plain(gsc__step_attempt *attempt)
{
    GSC_TRY(gsc__step_call(attempt, NULL));
    finish(attempt, attempt->record->checked ? GSC_STEPPED : GSC_NO_GRADS);
    return GSC_OK;
}

/* For gradients that are unscaled in place. collected: they are in the scaler's list. */
static gsc_status step_unscaled(gsc__step_attempt *attempt, bool collected)
{
    gsc_scaler *scaler = attempt->scaler;
    attempt->result.max_abs = attempt->record->max_abs;
    attempt->result.scale = attempt->record->scale;
    if (gsc__step_must_skip(attempt->record))
        return skip_overflow(attempt);
    if (!collected && !attempt->clips)
        GSC_TRY(gsc__check_same_gradients(scaler, attempt->record, attempt->api));
    if (attempt->clips) {
        double max_norm = attempt->args->clip_norm, *norm = &attempt->result.grad_norm;
        GSC_TRY(collected ? gsc__clip_list(scaler, attempt->record, max_norm, attempt->p, norm)
                          : gsc__clip_unscaled(scaler, attempt->record, max_norm, attempt->p, attempt->api, norm));
    }
    return step_plain(attempt);
}

static gsc_status step_ready(gsc__step_attempt *attempt)
{
    const gsc__check_request request = {.api = attempt->api, .unscales = true, .want_norm = attempt->clips};
    GSC_TRY(gsc__check_gradients(attempt->scaler, attempt->record, &request));
    return step_unscaled(attempt, true);
}

/* The gradients stay scaled: one reading pass checks them and adds up their norm, and the optimizer multiplies each
 * gradient where it uses it. */
static gsc_status step_fused(gsc__step_attempt *attempt)
{
    gsc_scaler *scaler = attempt->scaler;
    double p = attempt->p;
    bool same_pass = attempt->clips && (p == 1.0 || p == 2.0 || isinf(p));
    gsc__norm_sums sums = {0};
    const gsc__check_request request = {
        .api = attempt->api, .want_norm = attempt->clips, .p = same_pass ? p : 0.0, .sums = &sums};
    GSC_TRY(gsc__check_gradients(scaler, attempt->record, &request));
    attempt->result.max_abs = attempt->record->max_abs;
    attempt->result.scale = attempt->record->scale;
    if (gsc__step_must_skip(attempt->record))
        return skip_overflow(attempt);

    gsc__env_enter(scaler);
    double r = gsc__inverse_scale(scaler), coefficient = 1.0;
    if (attempt->clips) {
        double *norm = &attempt->result.grad_norm;
        GSC_TRY(gsc__ranks_norm(scaler, attempt->record, r, p, same_pass ? &sums : NULL, norm));
        coefficient = gsc__clip_coefficient(attempt->args->clip_norm, *norm);
    }
    if (!attempt->record->has_grads) {
        gsc__record_set_stage(scaler, attempt->record, GSC_STAGE_UNSCALED);
        return step_plain(attempt);
    }
    const gsc_grad_scaling scaling = {.multiplier = gsc__fpenv_pin(r * coefficient)};
    GSC_TRY(gsc__step_call(attempt, &scaling));
    finish(attempt, GSC_STEPPED);
    return GSC_OK;
}

static gsc_status step_disabled(gsc__step_attempt *attempt)
{
    gsc_scaler *scaler = attempt->scaler;
    attempt->result.scale = 1.0;
    if (attempt->clips)
        GSC_TRY(gsc__clip_unscaled(scaler, attempt->record, attempt->args->clip_norm, attempt->p, attempt->api,
                                   &attempt->result.grad_norm));
    GSC_TRY(gsc__step_call(attempt, NULL));
    scaler->stats.steps++;
    return GSC_OK;
}

static gsc_status step_enabled(gsc__step_attempt *attempt)
{
    if (attempt->scaler->device)
        return gsc__device_step(attempt);
    if (attempt->record->stage == GSC_STAGE_UNSCALED)
        return step_unscaled(attempt, false);
    return attempt->optimizer->step_scaled ? step_fused(attempt) : step_ready(attempt);
}

/* Whether an enabled scaler may make this step now. */
static gsc_status check_turn(const gsc__step_attempt *attempt)
{
    if (attempt->args->closure)
        return gsc_fail(
            GSC_ERR_STATE,
            "%s: args.closure is set, but gradients of a re-evaluation would never be unscaled; pass NULL or "
            "use a disabled scaler",
            attempt->api);
    if (attempt->record && attempt->record->stage == GSC_STAGE_UNSCALED)
        return gsc__require_whole(attempt->record, attempt->api);
    return gsc__require_ready(attempt->record, attempt->api);
}

/* Finds or makes the record; without memory for it the other ranks must not wait for this one. */
static gsc_status open_record(gsc__step_attempt *attempt, const gsc__user *user)
{
    gsc_scaler *scaler = attempt->scaler;
    bool is_ready = !attempt->record || attempt->record->stage == GSC_STAGE_READY;
    gsc_status status = gsc__record_open(scaler, user, &attempt->record);
    if (status != GSC_OK && scaler->options.enabled && is_ready)
        gsc__ranks_refuse(scaler, attempt->record);
    else if (status != GSC_OK && attempt->clips)
        gsc__ranks_norm_refused(scaler, scaler->options.enabled ? attempt->record : NULL, attempt->p);
    return status;
}

static gsc_status step(gsc__step_attempt *attempt, const gsc__user *user, const gsc_step_args *args)
{
    bool enabled = attempt->scaler->options.enabled;
    GSC_TRY(gsc__check_step_callback(attempt->optimizer, attempt->api));
    if (args)
        GSC_TRY(read_args(attempt, args));
    if (enabled)
        GSC_TRY(check_turn(attempt));
    GSC_TRY(open_record(attempt, user));
    return enabled ? step_enabled(attempt) : step_disabled(attempt);
}

gsc_status gsc__step(gsc_scaler *scaler, const gsc__user *user, gsc__record *record, const gsc_step_args *args,
                     gsc_step_result *result)
{
    static const gsc_step_args plain;
    gsc__step_attempt attempt = {.api = user->api,
                                 .scaler = scaler,
                                 .optimizer = user->optimizer,
                                 .record = record,
                                 .args = &plain,
                                 .result.grad_norm = (double)NAN};
    GSC_CALL_SCOPE(scaler);
    GSC_TRY(step(&attempt, user, args));
    if (!attempt.result.has_value)
        attempt.result.value = 0.0;
    /* The step of a disabled scaler may have had its optimizer forgotten. */
    record = scaler->options.enabled ? attempt.record : gsc__record_find(scaler, user->key);
    if (record) {
        record->result = attempt.result;
        record->has_result = true;
    }
    if (result)
        *result = attempt.result;
    return GSC_OK;
}

gsc_status gsc_scaler_step(gsc_scaler *scaler, const gsc_optimizer *optimizer, const gsc_step_args *args,
                           gsc_step_result *result)
{
    const gsc__user user = gsc__optimizer_user(optimizer, "gsc_scaler_step");
    gsc__record *record;
    GSC_TRY(gsc__check_call(scaler, optimizer, user.api, &record));
    return gsc__step(scaler, &user, record, args, result);
}

gsc_status gsc_scaler_result(const gsc_scaler *scaler, const gsc_optimizer *optimizer, gsc_step_result *result)
{
    const char *api = "gsc_scaler_result";
    GSC_TRY(gsc__check_not_null(scaler, api, "scaler"));
    GSC_TRY(gsc__check_not_null(optimizer, api, "optimizer"));
    GSC_TRY(gsc__check_not_null(result, api, "result"));
    if (scaler->device && scaler->options.enabled)
        GSC_TRY(gsc__device_catch_up(scaler, api));
    const gsc__record *record = gsc__record_find(scaler, optimizer);
    if (!record || !record->has_result)
        return gsc_fail(GSC_ERR_STATE, "%s: this optimizer has not stepped with this scaler", api);
    *result = record->result;
    if (scaler->device)
        gsc__device_resolve(scaler, record, result);
    return GSC_OK;
}

gsc_status gsc_scaler_skip(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    const char *api = "gsc_scaler_skip";
    gsc__record *record;
    GSC_TRY(gsc__check_known(scaler, optimizer, api, &record));
    if (!scaler->options.enabled)
        return GSC_OK;
    if (!record || record->stage != GSC_STAGE_UNSCALED)
        GSC_TRY(gsc__require_ready(record, api));
    GSC_TRY(gsc__record_get(scaler, optimizer, &record));
    gsc__record_set_stage(scaler, record, GSC_STAGE_STEPPED);
    scaler->pending.recorded = true;
    return GSC_OK;
}

gsc_status gsc_scaler_rearm(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    gsc__record *record;
    GSC_TRY(gsc__check_known(scaler, optimizer, "gsc_scaler_rearm", &record));
    if (record) {
        gsc__record_set_stage(scaler, record, GSC_STAGE_READY);
        record->partly_written = false;
        record->claim = 0;
        record->step_failed = false;
    }
    return GSC_OK;
}
