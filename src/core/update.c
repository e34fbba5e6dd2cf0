/* SPDX-License-Identifier: Apache-2.0 */
/* update.c: the end of an iteration: the scale's schedule, what the observer hears of it, and divergence. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/entry.h"

/* An update that may change the scale, which nearly none does; so noinline. The observer is called later, when the
 * scaler is in its new state. */
__attribute__((noinline)) static gsc__schedule_change change_scale(gsc_scaler *scaler, bool overflow)
{
    gsc__schedule_change change = {0};
    gsc__env_enter(scaler);
    if (overflow)
        gsc__schedule_after_overflow(&scaler->schedule, &scaler->rules, &change);
    else
        gsc__schedule_after_clean(&scaler->schedule, &scaler->rules, &change);
    scaler->stats.backoffs += change.backed_off;
    scaler->stats.growths += change.grew;
    return change;
}

/* noinline, so that the updates without an event, which are nearly all, need no scope. */
__attribute__((noinline)) static void emit_events(gsc_scaler *scaler, const gsc__schedule_change *change,
                                                  double scale_before, int64_t update)
{
    GSC_CALL_SCOPE(scaler);
    if (change->backed_off)
        gsc__emit(scaler, GSC_EVENT_BACKOFF, update, NULL, scale_before);
    if (change->at_min_scale)
        gsc__emit(scaler, GSC_EVENT_AT_MIN_SCALE, update, NULL, scale_before);
    if (change->grew)
        gsc__emit(scaler, GSC_EVENT_GROWTH, update, NULL, scale_before);
}

static gsc_status check_divergence(gsc_scaler *scaler, bool overflow)
{
    int64_t limit = scaler->options.max_consecutive_skips;
    bool in_a_row = overflow && limit > 0 && scaler->schedule.consecutive_skips >= limit;
    bool in_window = scaler->window_words &&
                     gsc__skip_window_exceeds(&scaler->window, scaler->options.skip_window, scaler->window_most);
    if (!in_a_row && !in_window)
        return GSC_OK;
    gsc__env_enter(scaler);
    return in_a_row ? gsc__diverged_in_a_row(scaler, scaler->schedule.consecutive_skips)
                    : gsc__diverged_in_window(scaler, scaler->window.overflows, scaler->window.filled);
}

static gsc_status check_recorded(const gsc_scaler *scaler)
{
    if (scaler->pending.recorded || scaler->pending.comm_failed)
        return GSC_OK;
    return gsc_fail(GSC_ERR_STATE, "gsc_scaler_update: nothing was checked since the last update; %s",
                    GSC_WORDS("unscale, record, step or skip an optimizer first",
                              "call unscale_, step or skip with an optimizer first"));
}

static gsc_status update(gsc_scaler *scaler)
{
    GSC_TRY(check_recorded(scaler));
    const double scale_before = (double)scaler->schedule.scale;
    bool counts = !scaler->pending.comm_failed;
    bool overflow = counts && scaler->pending.overflow;
    gsc__schedule_change change = {0};
    if (overflow || (counts && scaler->pending.checked)) {
        if (overflow || gsc__schedule_growth_is_due(&scaler->schedule, &scaler->rules))
            change = change_scale(scaler, overflow);
        else
            gsc__schedule_after_clean(&scaler->schedule, &scaler->rules, &change);
        if (scaler->window_words)
            gsc__skip_window_add(&scaler->window, scaler->window_words, scaler->options.skip_window, overflow);
    }
    if (overflow) {
        memcpy(scaler->last_overflow_text, scaler->overflow_text, sizeof scaler->last_overflow_text);
        scaler->last_repeats = scaler->pending.repeats;
    }
    gsc__records_reset(scaler);
    int64_t before = scaler->stats.updates++;
    if (change.backed_off || change.at_min_scale || change.grew)
        emit_events(scaler, &change, scale_before, before);
    return check_divergence(scaler, overflow);
}

/* Events and a halt of earlier updates may have arrived by now. noinline: the CPU's updates need no scope. */
__attribute__((noinline)) static gsc_status update_on_device(gsc_scaler *scaler, const char *api)
{
    const gsc__device_part *part = scaler->device;
    GSC_TRY(check_recorded(scaler));
    GSC_TRY(gsc__device_status(part->backend->update(part->device, !scaler->pending.comm_failed), api));
    scaler->last_repeats = scaler->pending.repeats;
    gsc__records_reset(scaler);
    gsc__device_peek(scaler);
    gsc__device_tell(scaler);
    GSC_CALL_SCOPE(scaler); /* names of gradients are asked for */
    return gsc__device_halted(scaler, api);
}

gsc_status gsc_scaler_update(gsc_scaler *scaler)
{
    GSC_TRY(gsc__check_scaler(scaler, "gsc_scaler_update"));
    if (!scaler->options.enabled)
        return GSC_OK;
    if (scaler->device)
        return update_on_device(scaler, "gsc_scaler_update");
    return gsc__env_leave(scaler, update(scaler));
}

static gsc_status end_with(gsc_scaler *scaler, float new_scale, const char *api)
{
    if (scaler->device) {
        GSC_TRY(gsc__device_update_to(scaler, new_scale, api));
    } else {
        scaler->schedule.scale = new_scale;
        scaler->stats.updates++;
    }
    gsc__skip_window_empty(&scaler->window);
    gsc__records_reset(scaler);
    return GSC_OK;
}

static gsc_status update_to(gsc_scaler *scaler, double new_scale, const char *api)
{
    GSC_TRY(gsc__round_scale(&new_scale, scaler->options.min_scale, scaler->options.max_scale,
                             "gsc_scaler_update_to: new_scale"));
    return scaler->options.enabled ? end_with(scaler, (float)new_scale, api) : GSC_OK;
}

gsc_status gsc_scaler_update_to(gsc_scaler *scaler, double new_scale)
{
    const char *api = "gsc_scaler_update_to";
    GSC_TRY(gsc__check_scaler(scaler, api));
    gsc__env_enter(scaler);
    return gsc__env_leave(scaler, update_to(scaler, new_scale, api));
}

static gsc_status update_to_tensor(gsc_scaler *scaler, const DLTensor *new_scale, const char *api)
{
    const gsc__message_subject subject = {.api = api, .what = "new_scale"};
    const gsc__view_rules rules = {.allow_fp16 = true, .served = scaler->served};
    gsc__view view;
    GSC_TRY(gsc__view_check(new_scale, &rules, &subject, &view));
    if (view.count != 1)
        return gsc_fail(GSC_ERR_VALUE, "%s: new_scale has %zu elements; allowed is exactly one", api, view.count);
    double value;
    if (gsc__is_on_cpu(new_scale))
        value = gsc__element(view.kind, view.start, 0);
    else
        GSC_TRY(gsc__device_read_element(scaler, &view, &value, api));
    return update_to(scaler, value, api);
}

gsc_status gsc_scaler_update_to_tensor(gsc_scaler *scaler, const DLTensor *new_scale)
{
    const char *api = "gsc_scaler_update_to_tensor";
    GSC_TRY(gsc__check_scaler(scaler, api));
    GSC_TRY(gsc__check_not_null(new_scale, api, "new_scale"));
    gsc__env_enter(scaler);
    return gsc__env_leave(scaler, update_to_tensor(scaler, new_scale, api));
}
