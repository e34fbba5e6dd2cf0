/* SPDX-License-Identifier: Apache-2.0 */
/* getters.c: what a scaler tells of itself, also to callbacks. A NULL scaler gives NaN, 0, false or READY and leaves a
 * message. */
#include <math.h>

#include "core/internal.h"

static bool is_null(const gsc_scaler *scaler, const char *caller)
{
    if (!scaler)
        gsc_fail(GSC_ERR_VALUE, "%s: scaler is NULL", caller);
    return !scaler;
}

double gsc_scaler_get_scale(const gsc_scaler *scaler)
{
    return is_null(scaler, "gsc_scaler_get_scale") ? (double)NAN : (double)scaler->scale;
}

double gsc_scaler_get_growth_factor(const gsc_scaler *scaler)
{
    return is_null(scaler, "gsc_scaler_get_growth_factor") ? (double)NAN : scaler->options.growth_factor;
}

double gsc_scaler_get_backoff_factor(const gsc_scaler *scaler)
{
    return is_null(scaler, "gsc_scaler_get_backoff_factor") ? (double)NAN : scaler->options.backoff_factor;
}

int64_t gsc_scaler_get_growth_interval(const gsc_scaler *scaler)
{
    return is_null(scaler, "gsc_scaler_get_growth_interval") ? 0 : scaler->options.growth_interval;
}

bool gsc_scaler_is_enabled(const gsc_scaler *scaler)
{
    return !is_null(scaler, "gsc_scaler_is_enabled") && scaler->options.enabled;
}

gsc_stage gsc_scaler_get_stage(const gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    if (is_null(scaler, "gsc_scaler_get_stage"))
        return GSC_STAGE_READY;
    const gsc__record *record = gsc__record_find(scaler, optimizer);
    return record ? record->stage : GSC_STAGE_READY;
}

bool gsc_scaler_found_inf(const gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    if (is_null(scaler, "gsc_scaler_found_inf"))
        return false;
    const gsc__record *record = gsc__record_find(scaler, optimizer);
    return record && record->overflowed;
}

void gsc_scaler_get_stats(const gsc_scaler *scaler, gsc_scaler_stats *out)
{
    if (!out)
        gsc_fail(GSC_ERR_VALUE, "gsc_scaler_get_stats: out is NULL");
    else if (is_null(scaler, "gsc_scaler_get_stats"))
        *out = (gsc_scaler_stats){0};
    else
        *out = scaler->stats;
}
