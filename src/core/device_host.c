/* SPDX-License-Identifier: Apache-2.0 */
/* device_host.c: gradients on the CPU of a scaler on a device. The CPU's loops sweep them, so the scale must be known
 * here: the device is waited for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/internal.h"
#include "gradients/nonfinite.h"

gsc_status gsc__device_take_host(gsc_scaler *scaler, const char *api, bool want_norm)
{
    const gsc__list *all = &scaler->list;
    gsc__list *host = &scaler->device->host;
    const gsc__list_rules rules = {.writes = true, .allow_fp16 = true, .distinct = true, .api = api};
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++)
        count += gsc__is_on_cpu(all->views[i].tensor);
    GSC_TRY(gsc__list_begin(host, count));
    for (size_t i = 0; i < all->count; i++)
        if (gsc__is_on_cpu(all->views[i].tensor))
            GSC_TRY(gsc__list_add(host, all->views[i].tensor, all->views[i].index, &rules));
    return gsc__list_finish(host, NULL, &rules, want_norm);
}

/* Room for two reports: this overflow's, and behind it the one before. What is there stays. */
static gsc_status reserve_entries(gsc__device_use *use, size_t count, const char *api)
{
    if (count <= use->host_capacity)
        return GSC_OK;
    gsc_overflow *entries = count <= SIZE_MAX / sizeof *entries / 2 ? malloc(2 * count * sizeof *entries) : NULL;
    if (!entries)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for an overflow report on %zu gradients", api, count);
    if (use->host_count > 0)
        memcpy(entries, use->host_entries, use->host_count * sizeof *entries);
    free(use->host_entries);
    use->host_entries = entries;
    use->host_capacity = count;
    return GSC_OK;
}

/* After settle. Copies what the last check reported, if it found an overflow, to where the report before stands: of
 * gradients on devices, too, which may be on the CPU by now. */
static gsc_status take_report_before(gsc_scaler *scaler, gsc__record *record, const gsc__device_verdict *verdict,
                                     const char *api)
{
    gsc__device_use *use = &record->device;
    gsc_overflow *before = use->host_entries + use->host_capacity;
    use->before_count = 0;
    if (verdict->reported_check != verdict->checks)
        return GSC_OK;
    const size_t on_cpu = use->host_check == verdict->checks ? use->host_count : 0, room = use->host_capacity - on_cpu;
    const size_t on_devices = verdict->report_count < room ? verdict->report_count : room;
    if (on_cpu > 0)
        memcpy(before, use->host_entries, on_cpu * sizeof *before);
    if (on_devices > 0)
        GSC_TRY(gsc__device_status(scaler->device->backend->report(use->record, before + on_cpu, on_devices), api));
    use->before_count = on_cpu + on_devices;
    return GSC_OK;
}

/* How often in a row this gradient has overflowed in just this way. */
static uint64_t count_repeats(const gsc_overflow *before, size_t count, const gsc_overflow *entry)
{
    for (size_t i = 0; i < count; i++)
        if (before[i].index == entry->index && before[i].inf_count == entry->inf_count &&
            before[i].nan_count == entry->nan_count && before[i].first_index == entry->first_index)
            return before[i].repeats + 1;
    return 1;
}

/* check: the number of this one. */
static void note_nonfinite(gsc_scaler *scaler, gsc__device_use *use, uint64_t check)
{
    const gsc__list *host = &scaler->device->host;
    const gsc_overflow *before = use->host_entries + use->host_capacity;
    use->host_count = 0;
    use->host_check = check;
    for (size_t first = 0; first < host->count; first += GSC_NONFINITE_BATCH) {
        gsc__nonfinite found[GSC_NONFINITE_BATCH];
        const size_t left = host->count - first, count = left < GSC_NONFINITE_BATCH ? left : GSC_NONFINITE_BATCH;
        (void)gsc__count_nonfinite(host->views + first, count, 1.0, true, found);
        for (size_t i = 0; i < count; i++) {
            if (found[i].inf_count + found[i].nan_count == 0)
                continue;
            gsc_overflow *entry = &use->host_entries[use->host_count++];
            *entry = (gsc_overflow){.index = host->views[first + i].index,
                                    .inf_count = found[i].inf_count,
                                    .nan_count = found[i].nan_count,
                                    .first_index = found[i].first_index};
            entry->repeats = count_repeats(before, use->before_count, entry);
            if (entry->repeats > scaler->pending.repeats)
                scaler->pending.repeats = entry->repeats;
        }
    }
}

gsc_status gsc__device_sweep_host(gsc_scaler *scaler, gsc__record *record, gsc__device_scan *scan, const char *api)
{
    const gsc__list *host = &scaler->device->host;
    if (host->count == 0)
        return GSC_OK;
    GSC_TRY(reserve_entries(&record->device, record->grad_count, api));
    GSC_TRY(gsc__device_settle(scaler, api));
    const gsc__device_verdict verdict = gsc__device_verdict_of(scaler, record);
    GSC_TRY(take_report_before(scaler, record, &verdict, api));
    gsc__env_enter(scaler);
    scaler->progress.activity = GSC_UNSCALING;
    const gsc__check_result result = gsc__sweep_unscale(host, gsc__inverse_scale(scaler));
    scaler->progress.activity = GSC_COLLECTING;
    scan->host_found_inf = result.found_inf;
    scan->host_max_abs = result.max_abs;
    if (result.found_inf)
        note_nonfinite(scaler, &record->device, verdict.checks + 1);
    (void)gsc__env_leave(scaler, GSC_OK);
    return GSC_OK;
}

/* (a^p + b^p)^(1/p) for norms >= 0, without over- or underflow on the way; the larger one where p is infinite. */
static double combine(double a, double b, double p)
{
    if (isnan(a) || isnan(b))
        return (double)NAN;
    const double larger = a > b ? a : b, smaller = a > b ? b : a;
    if (isinf(p) || isinf(larger) || smaller == 0.0)
        return larger;
    return larger * pow(1.0 + pow(smaller / larger, p), 1.0 / p);
}

double gsc__device_total_norm(gsc_scaler *scaler, double p, double device)
{
    const gsc__list *host = &scaler->device->host;
    gsc__norm_sums sums = {.p = p};
    sums.exponent = gsc__norm_exponent(host, 1.0, p);
    gsc__norm_sum(host, 1.0, p, &sums, NULL);
    return combine(gsc__norm_from_sums(&sums), device, p);
}
