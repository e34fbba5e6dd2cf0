/* SPDX-License-Identifier: Apache-2.0 */
/* state.c: the state dict: what a scaler has to know to go on where it was saved. */
#include <float.h>
#include <inttypes.h>

#include "base/scaler_state.h"
#include "core/entry.h"

gsc_status gsc_scaler_state_dict(const gsc_scaler *scaler, gsc_scaler_state *out)
{
    const char *api = "gsc_scaler_state_dict";
    GSC_TRY(gsc__check_not_null(scaler, api, "scaler"));
    GSC_TRY(gsc__check_not_null(out, api, "out"));
    *out = (gsc_scaler_state){0};
    if (!scaler->options.enabled)
        return GSC_OK;
    if (scaler->device)
        GSC_TRY(gsc__device_settle(scaler, api));
    const gsc_scaler_options *options = &scaler->options;
    out->scale = (double)scaler->schedule.scale;
    out->growth_factor = options->growth_factor;
    out->backoff_factor = options->backoff_factor;
    out->growth_interval = options->growth_interval;
    out->growth_tracker = scaler->schedule.growth_tracker;
    out->min_scale = options->min_scale;
    out->max_scale = options->max_scale;
    out->hysteresis = options->hysteresis;
    out->hysteresis_tracker = scaler->schedule.hysteresis_tracker;
    out->consecutive_skips = scaler->schedule.consecutive_skips;
    return GSC_OK;
}

static const char load_api[] = "gsc_scaler_load_state_dict"; /* for messages */

static gsc_status check_count(const char *field, int64_t value)
{
    if (value >= 0)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "gsc_scaler_load_state_dict: %s is %" PRId64 ", allowed are 0 and more", field,
                    value);
}

/* A limit of zero becomes the scaler's own. */
static gsc_status check_limits(const gsc_scaler *scaler, gsc_scaler_state *state)
{
    const double least = (double)FLT_MIN, greatest = (double)FLT_MAX;
    if (state->min_scale == 0.0)
        state->min_scale = scaler->options.min_scale;
    if (state->max_scale == 0.0)
        state->max_scale = scaler->options.max_scale;
    GSC_TRY(gsc__round_scale(&state->min_scale, least, greatest, "gsc_scaler_load_state_dict: min_scale"));
    GSC_TRY(gsc__round_scale(&state->max_scale, least, greatest, "gsc_scaler_load_state_dict: max_scale"));
    if (state->min_scale > state->max_scale)
        return gsc_fail(GSC_ERR_VALUE, "gsc_scaler_load_state_dict: min_scale is %.9g, above max_scale %.9g",
                        state->min_scale, state->max_scale);
    return gsc__round_scale(&state->scale, state->min_scale, state->max_scale, "gsc_scaler_load_state_dict: scale");
}

/* Both zero become the scaler's own. */
static gsc_status check_hysteresis(const gsc_scaler *scaler, gsc_scaler_state *state)
{
    if (state->hysteresis == 0 && state->hysteresis_tracker == 0) {
        state->hysteresis = scaler->options.hysteresis;
        state->hysteresis_tracker = scaler->schedule.hysteresis_tracker;
    }
    if (state->hysteresis < 1)
        return gsc_fail(GSC_ERR_VALUE,
                        "gsc_scaler_load_state_dict: hysteresis is %d, allowed are integers >= 1, or 0 "
                        "together with hysteresis_tracker 0 to keep the scaler's own",
                        (int)state->hysteresis);
    if (state->hysteresis_tracker < 0 || state->hysteresis_tracker > state->hysteresis)
        return gsc_fail(GSC_ERR_VALUE,
                        "gsc_scaler_load_state_dict: hysteresis_tracker is %d, allowed are 0 to "
                        "hysteresis, which is %d",
                        (int)state->hysteresis_tracker, (int)state->hysteresis);
    return GSC_OK;
}

/* Also fills in what the state leaves to the scaler. */
static gsc_status check_state(const gsc_scaler *scaler, gsc_scaler_state *state)
{
    GSC_TRY(gsc__check_growth_factor(state->growth_factor, load_api));
    GSC_TRY(gsc__check_backoff_factor(state->backoff_factor, load_api));
    GSC_TRY(gsc__check_growth_interval(state->growth_interval, load_api));
    GSC_TRY(check_count("growth_tracker", state->growth_tracker));
    GSC_TRY(check_count("consecutive_skips", state->consecutive_skips));
    GSC_TRY(check_hysteresis(scaler, state));
    return check_limits(scaler, state);
}

static gsc_status apply_state(gsc_scaler *scaler, const gsc_scaler_state *state)
{
    gsc_scaler_options options = scaler->options;
    options.growth_factor = state->growth_factor;
    options.backoff_factor = state->backoff_factor;
    options.growth_interval = state->growth_interval;
    options.min_scale = state->min_scale;
    options.max_scale = state->max_scale;
    options.hysteresis = state->hysteresis;
    const gsc__schedule schedule = {.scale = (float)state->scale,
                                    .hysteresis_tracker = state->hysteresis_tracker,
                                    .growth_tracker = state->growth_tracker,
                                    .consecutive_skips = state->consecutive_skips};
    if (scaler->device)
        GSC_TRY(gsc__device_load(scaler, &options, &schedule, load_api));
    gsc__set_options(scaler, &options);
    scaler->schedule = schedule;
    gsc__skip_window_empty(&scaler->window);
    gsc__records_reset(scaler);
    return GSC_OK;
}

static gsc_status load_state(gsc_scaler *scaler, const gsc_scaler_state *in)
{
    bool enabled = scaler->options.enabled;
    gsc_scaler_state state = *in;
    GSC_TRY(GSC_CHECK_RESERVED(in, load_api, "state"));
    if (gsc__scaler_state_is_empty(in)) {
        if (!enabled)
            return GSC_OK;
        return gsc_fail(GSC_ERR_STATE, "gsc_scaler_load_state_dict: the state is empty; it may come from a disabled "
                                       "scaler. Keep this scaler as it is, or save with an enabled one");
    }
    if (scaler->device && enabled)
        GSC_TRY(gsc__device_settle(scaler, load_api)); /* for what the state leaves to the scaler */
    GSC_TRY(check_state(scaler, &state));
    if (!enabled)
        return GSC_OK;
    if (!gsc__records_all_ready(scaler))
        return gsc_fail(GSC_ERR_STATE,
                        "gsc_scaler_load_state_dict: an iteration is under way; load after " GSC_WORDS_UPDATE);
    return apply_state(scaler, &state);
}

gsc_status gsc_scaler_load_state_dict(gsc_scaler *scaler, const gsc_scaler_state *in)
{
    GSC_TRY(gsc__check_scaler(scaler, load_api));
    GSC_TRY(gsc__check_not_null(in, load_api, "in"));
    gsc__env_enter(scaler);
    return gsc__env_leave(scaler, load_state(scaler, in));
}
