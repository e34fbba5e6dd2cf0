/* SPDX-License-Identifier: Apache-2.0 */
/* update.c: the end of an iteration: the scale's schedule, what the observer hears of it, and divergence. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/entry.h"

static gsc__schedule_rules rules_of(const gsc_scaler *scaler)
{
    const gsc_scaler_options *options = &scaler->options;
    return (gsc__schedule_rules){.growth_factor = options->growth_factor,
                                 .backoff_factor = options->backoff_factor,
                                 .growth_interval = options->growth_interval,
                                 .init_scale = (float)options->init_scale,
                                 .min_scale = (float)options->min_scale,
                                 .max_scale = (float)options->max_scale,
                                 .hysteresis = options->hysteresis,
                                 .hysteresis_until_growth = options->hysteresis_until_growth};
}

/* The observer is called later, when the scaler is in its new state. */
static gsc__schedule_change change_scale(gsc_scaler *scaler, bool overflow)
{
    const gsc__schedule_rules rules = rules_of(scaler);
    gsc__schedule_change change = {0};
    if (overflow || gsc__schedule_growth_is_due(&scaler->schedule, &rules))
        gsc__env_enter(scaler);
    if (overflow)
        gsc__schedule_after_overflow(&scaler->schedule, &rules, &change);
    else
        gsc__schedule_after_clean(&scaler->schedule, &rules, &change);
    scaler->stats.backoffs += change.backed_off;
    scaler->stats.growths += change.grew;
    if (scaler->window_words)
        gsc__skip_window_add(&scaler->window, scaler->window_words, scaler->options.skip_window, overflow);
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

/* An infinity early in a network has become NaN where the gradients end. */
#define TOO_LARGE "(one that is too large shows as inf or as NaN)"

/* What to say where the same elements of a gradient are not finite time after time. */
typedef struct hint {
    char text[192];
} hint;

static hint repeats_hint(const gsc_scaler *scaler)
{
    enum { SUSPICIOUS = 5 };
    hint out = {""};
    if (scaler->last_repeats >= SUSPICIOUS)
        snprintf(out.text, sizeof out.text,
                 "; are gradients zeroed? A skipped step leaves inf and NaN in them, and these are the same %" PRIu64
                 " times in a row (as with a scale that is far too large, or a NaN in the data)",
                 scaler->last_repeats);
    return out;
}

static gsc_status too_many_in_a_row(const gsc_scaler *scaler)
{
    const int64_t skips = scaler->schedule.consecutive_skips;
    return gsc_fail(GSC_ERR_DIVERGED,
                    "gsc_scaler_update: %" PRId64 " iteration%s in a row overflowed (max_consecutive_skips is %" PRId64
                    "); the scale is %.9g " TOO_LARGE "%s; in the last one, by index: %s",
                    skips, skips == 1 ? "" : "s", scaler->options.max_consecutive_skips, (double)scaler->schedule.scale,
                    repeats_hint(scaler).text, scaler->last_overflow_text);
}

static gsc_status too_many_in_window(const gsc_scaler *scaler)
{
    return gsc_fail(GSC_ERR_DIVERGED,
                    "gsc_scaler_update: %d of the last %d iterations overflowed (skip_window is %d, max_skip_share is "
                    "%.9g); the scale is %.9g " TOO_LARGE "%s; in the last one that did, by index: %s",
                    (int)scaler->window.overflows, (int)scaler->window.filled, (int)scaler->options.skip_window,
                    scaler->options.max_skip_share, (double)scaler->schedule.scale, repeats_hint(scaler).text,
                    scaler->last_overflow_text);
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
    return in_a_row ? too_many_in_a_row(scaler) : too_many_in_window(scaler);
}

static gsc_status update(gsc_scaler *scaler)
{
    if (!scaler->pending.recorded && !scaler->pending.comm_failed)
        return gsc_fail(GSC_ERR_STATE, "gsc_scaler_update: nothing was checked since the last update; %s",
                        GSC_WORDS("unscale, record, step or skip an optimizer first",
                                  "call unscale_, step or skip with an optimizer first"));
    const double scale_before = (double)scaler->schedule.scale;
    bool counts = !scaler->pending.comm_failed;
    bool overflow = counts && scaler->pending.overflow;
    gsc__schedule_change change = {0};
    if (overflow || (counts && scaler->pending.checked))
        change = change_scale(scaler, overflow);
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

gsc_status gsc_scaler_update(gsc_scaler *scaler)
{
    GSC_TRY(gsc__check_scaler(scaler, "gsc_scaler_update"));
    if (!scaler->options.enabled)
        return GSC_OK;
    return gsc__env_leave(scaler, update(scaler));
}

static gsc_status update_to(gsc_scaler *scaler, double new_scale)
{
    GSC_TRY(gsc__round_scale(&new_scale, scaler->options.min_scale, scaler->options.max_scale,
                             "gsc_scaler_update_to: new_scale"));
    if (scaler->options.enabled) {
        scaler->schedule.scale = (float)new_scale;
        gsc__skip_window_empty(&scaler->window);
        gsc__records_reset(scaler);
        scaler->stats.updates++;
    }
    return GSC_OK;
}

gsc_status gsc_scaler_update_to(gsc_scaler *scaler, double new_scale)
{
    GSC_TRY(gsc__check_scaler(scaler, "gsc_scaler_update_to"));
    gsc__env_enter(scaler);
    return gsc__env_leave(scaler, update_to(scaler, new_scale));
}

static gsc_status update_to_tensor(gsc_scaler *scaler, const DLTensor *new_scale, const char *api)
{
    const gsc__message_subject subject = {.api = api, .what = "new_scale"};
    const gsc__view_rules rules = {.writes = false, .allow_fp16 = true};
    gsc__view view;
    GSC_TRY(gsc__view_check(new_scale, &rules, &subject, &view));
    if (view.count != 1)
        return gsc_fail(GSC_ERR_VALUE, "%s: new_scale has %zu elements; allowed is exactly one", api, view.count);
    return update_to(scaler, gsc__element(view.kind, view.start, 0));
}

gsc_status gsc_scaler_update_to_tensor(gsc_scaler *scaler, const DLTensor *new_scale)
{
    const char *api = "gsc_scaler_update_to_tensor";
    GSC_TRY(gsc__check_scaler(scaler, api));
    GSC_TRY(gsc__check_not_null(new_scale, api, "new_scale"));
    gsc__env_enter(scaler);
    return gsc__env_leave(scaler, update_to_tensor(scaler, new_scale, api));
}
