/* SPDX-License-Identifier: Apache-2.0 */
/* device_step.c: the step of a scaler on a device. A scale-aware step is enqueued, and the device skips it after an
 * overflow; any other waits for the verdict. */
#include "core/step_call.h"

/* The stage changes only once a step that was not made is counted as skipped. */
static gsc_status finish_skipped(gsc__step_attempt *attempt)
{
    gsc__record *record = attempt->record;
    const gsc_backend *backend = attempt->scaler->device->backend;
    if (attempt->clips)
        attempt->result.grad_norm = gsc__step_skipped_norm(record->max_abs);
    if (record->device.record)
        GSC_TRY(gsc__device_status(backend->finish(record->device.record, GSC_SKIPPED_OVERFLOW, attempt->clips),
                                   attempt->api));
    attempt->result.outcome = GSC_SKIPPED_OVERFLOW;
    gsc__record_set_stage(attempt->scaler, record, GSC_STAGE_STEPPED);
    return GSC_OK;
}

static gsc_status finish_made(gsc__step_attempt *attempt, gsc_outcome outcome)
{
    gsc__record *record = attempt->record;
    attempt->result.outcome = outcome;
    gsc__record_set_stage(attempt->scaler, record, GSC_STAGE_STEPPED);
    gsc_status status = attempt->scaler->device->backend->finish(record->device.record, outcome, attempt->clips);
    if (status == GSC_OK)
        return GSC_OK;
    return gsc_fail(status, "%s: the step was made, but the device could not count it: %s", attempt->api,
                    gsc_last_error());
}

/* For the arrays of a call, whose names are not kept: the report is fetched while they are there. */
static void fetch_names(const gsc__step_attempt *attempt)
{
    if (attempt->record->use == GSC_USED_WITH_BUFFERS)
        (void)gsc__device_fetch_report(attempt->scaler, attempt->record, attempt->optimizer, attempt->api);
}

/* The plain step. refused: why these gradients cannot be stepped with, unless they overflowed, too. */
static gsc_status step_when_known(gsc__step_attempt *attempt, gsc_status refused)
{
    gsc_scaler *scaler = attempt->scaler;
    gsc__record *record = attempt->record;
    GSC_TRY(gsc__device_settle(scaler, attempt->api));
    gsc__device_learn(scaler, record);
    if (record->found_inf)
        fetch_names(attempt);
    if (refused != GSC_OK && !record->found_inf)
        return refused;
    gsc__device_tell(scaler);
    GSC_TRY(gsc__device_halted(scaler, attempt->api));
    attempt->result.max_abs = record->max_abs;
    attempt->result.scale = record->scale;
    if (gsc__step_must_skip(record))
        return finish_skipped(attempt);
    if (attempt->clips)
        attempt->result.grad_norm = gsc__device_norm(scaler, record);
    GSC_TRY(gsc__step_call(attempt, NULL));
    return finish_made(attempt, record->checked ? GSC_STEPPED : GSC_NO_GRADS);
}

static gsc_status clip(gsc__step_attempt *attempt, gsc__device_clip_use use)
{
    const gsc__device_clip_request request = {.api = attempt->api,
                                              .p = attempt->p,
                                              .max_norm = attempt->clips ? attempt->args->clip_norm : (double)INFINITY,
                                              .use = use};
    return gsc__device_clip(attempt->scaler, attempt->record, &request);
}

/* What the device knows is left open until gsc_scaler_result asks for it. */
static gsc_status step_scaled(gsc__step_attempt *attempt)
{
    gsc_scaler *scaler = attempt->scaler;
    gsc__device_use *use = &attempt->record->device;
    gsc_grad_scaling scaling = {0};
    if (attempt->clips || use->has_coefficient) /* that of a step that failed */
        GSC_TRY(clip(attempt, GSC_CLIP_MULTIPLIER));
    GSC_TRY(gsc__device_status(scaler->device->backend->scaling(use->record, &scaling), attempt->api));
    GSC_TRY(gsc__step_call(attempt, &scaling));
    attempt->result.grad_norm = attempt->result.max_abs = attempt->result.scale = (double)NAN;
    return finish_made(attempt, GSC_PENDING);
}

/* Without gradients, and without ranks that may have some, there is no verdict to wait for. */
static bool needs_no_verdict(const gsc__step_attempt *attempt)
{
    return attempt->optimizer->step_scaled && !attempt->record->has_grads && !attempt->scaler->options.comm;
}

static gsc_status step_without_grads(gsc__step_attempt *attempt)
{
    if (attempt->clips)
        attempt->result.grad_norm = 0.0;
    attempt->result.scale = (double)NAN; /* the device has it: gsc__device_resolve */
    GSC_TRY(gsc__step_call(attempt, NULL));
    return finish_made(attempt, GSC_NO_GRADS);
}

/* The gradients are not all on the scaler's own device, or the optimizer is not scale-aware. */
static gsc_status step_plain(gsc__step_attempt *attempt)
{
    if (attempt->clips)
        GSC_TRY(clip(attempt, GSC_CLIP_FOR_STEP));
    return needs_no_verdict(attempt) ? step_without_grads(attempt) : step_when_known(attempt, GSC_OK);
}

static gsc_status step_ready(gsc__step_attempt *attempt)
{
    const bool same_pass = attempt->clips && !gsc__norm_needs_exponent(attempt->p);
    const gsc__check_request request = {.api = attempt->api,
                                        .unscales = !attempt->optimizer->step_scaled,
                                        .want_norm = attempt->clips,
                                        .p = same_pass ? attempt->p : 0.0};
    GSC_TRY(gsc__check_gradients(attempt->scaler, attempt->record, &request));
    if (attempt->record->stage == GSC_STAGE_READY)
        return step_scaled(attempt);
    return step_plain(attempt);
}

/* The gradients may be others than those that were checked. */
static gsc_status compare(gsc__step_attempt *attempt)
{
    if (attempt->clips)
        return gsc__clip_collect(attempt->scaler, attempt->record, attempt->p, attempt->api);
    return gsc__check_same_gradients(attempt->scaler, attempt->record, attempt->api);
}

static gsc_status step_unscaled(gsc__step_attempt *attempt)
{
    gsc__record *record = attempt->record;
    if (record->comm_failure != GSC_COMM_FINE)
        return step_when_known(attempt, GSC_OK);
    gsc_status refused = compare(attempt);
    if (refused != GSC_OK)
        return step_when_known(attempt, refused);
    if (attempt->clips)
        GSC_TRY(gsc__clip_hand_over(attempt->scaler, record, attempt->p, attempt->api));
    if (attempt->optimizer->step_scaled && record->device.is_here)
        return step_scaled(attempt);
    return step_plain(attempt);
}

gsc_status gsc__device_step(gsc__step_attempt *attempt)
{
    gsc__device_peek(attempt->scaler);
    gsc__device_tell(attempt->scaler);
    return attempt->record->stage == GSC_STAGE_UNSCALED ? step_unscaled(attempt) : step_ready(attempt);
}

void gsc__device_resolve(const gsc_scaler *scaler, const gsc__record *record, gsc_step_result *result)
{
    const bool is_late = result->outcome == GSC_PENDING || isnan(result->scale);
    if (!is_late)
        return;
    const gsc__device_verdict verdict = gsc__device_verdict_of(scaler, record);
    result->outcome = verdict.outcome;
    result->max_abs = verdict.finished.max_abs;
    result->scale = verdict.finished.scale;
    if (verdict.clipped)
        result->grad_norm = verdict.outcome == GSC_SKIPPED_OVERFLOW ? gsc__step_skipped_norm(verdict.finished.max_abs)
                                                                    : verdict.finished.norm;
}
