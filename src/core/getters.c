/* SPDX-License-Identifier: Apache-2.0 */
/* getters.c: a scaler's numbers, stages and reports, for callbacks too. A NULL scaler gives NaN, 0, false or READY, and
 * a message. */
#include <math.h>
#include <string.h>

#include "core/entry.h"

static bool is_null(const gsc_scaler *scaler, const char *api)
{
    return gsc__check_not_null(scaler, api, "scaler") != GSC_OK;
}

double gsc_scaler_get_scale(const gsc_scaler *scaler)
{
    if (is_null(scaler, "gsc_scaler_get_scale"))
        return (double)NAN;
    if (scaler->device)
        gsc__device_peek(scaler);
    return (double)scaler->schedule.scale;
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
    if (record && scaler->device)
        return gsc__device_overflowed(scaler, record, "gsc_scaler_found_inf");
    return record && record->overflowed;
}

void gsc_scaler_get_stats(const gsc_scaler *scaler, gsc_scaler_stats *out)
{
    const char *api = "gsc_scaler_get_stats";
    if (gsc__check_not_null(out, api, "out") != GSC_OK)
        return;
    *out = (gsc_scaler_stats){0};
    if (is_null(scaler, api))
        return;
    if (scaler->device)
        gsc__device_peek(scaler);
    *out = scaler->stats;
    out->consecutive_skips = scaler->schedule.consecutive_skips;
}

size_t gsc_scaler_overflows(const gsc_scaler *scaler, const gsc_optimizer *optimizer, gsc_overflow *out,
                            size_t capacity)
{
    if (is_null(scaler, "gsc_scaler_overflows"))
        return 0;
    gsc__record *record = gsc__record_find(scaler, optimizer);
    if (!record)
        return 0;
    if (scaler->device && scaler->options.enabled)
        gsc__device_bring_report(scaler, record, "gsc_scaler_overflows");
    const gsc__report *report = &record->report;
    size_t count = report->count < capacity ? report->count : capacity;
    if (out && count > 0)
        memcpy(out, report->entries, count * sizeof *out);
    return report->count;
}
