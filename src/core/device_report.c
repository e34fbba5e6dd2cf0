/* SPDX-License-Identifier: Apache-2.0 */
/* device_report.c: an overflow's report, fetched from the device when somebody asks for it. */
#include "core/internal.h"

/* Both are in the order of the indices, and report->entries has room for all. */
static void add_host_entries(gsc__report *report, const gsc_overflow *host, size_t host_count)
{
    size_t from = report->count, to = from + host_count;
    report->count = to;
    while (host_count > 0) {
        bool takes_host = from == 0 || host[host_count - 1].index > report->entries[from - 1].index;
        report->entries[--to] = takes_host ? host[--host_count] : report->entries[--from];
    }
}

/* A getter may be called from a callback, which stays the one that is running. */
static void add_names(gsc_scaler *scaler, gsc__report *report, const gsc_optimizer *optimizer)
{
    if (!optimizer || !optimizer->name)
        return;
    const bool closed = scaler->closed;
    gsc__callback_begin(scaler);
    for (size_t i = 0; i < report->count; i++) {
        gsc_overflow *entry = &report->entries[i];
        entry->name = gsc__report_keep_name(scaler, report, optimizer->name(optimizer->self, entry->index));
    }
    gsc__callback_end(scaler);
    scaler->closed = closed;
}

static gsc_status fetch(gsc_scaler *scaler, gsc__record *record, const gsc__device_verdict *verdict,
                        const gsc_optimizer *optimizer)
{
    const gsc__device_use *use = &record->device;
    gsc__report *report = &record->report;
    const size_t host_count = use->host_check == verdict->reported_check ? use->host_count : 0;
    const size_t room = report->capacity - host_count;
    const size_t count = verdict->report_count < room ? verdict->report_count : room;
    GSC_CALL_SCOPE(scaler);
    gsc__report_begin(scaler, report);
    report->check = 0;
    if (count > 0)
        GSC_TRY(scaler->device->backend->report(use->record, report->entries, count));
    report->count = count;
    add_host_entries(report, use->host_entries, host_count);
    report->check = verdict->reported_check;
    add_names(scaler, report, optimizer);
    return GSC_OK;
}

gsc_status gsc__device_fetch_report(const gsc_scaler *scaler, gsc__record *record, const gsc_optimizer *optimizer,
                                    const char *api)
{
    const gsc__device_verdict verdict = gsc__device_verdict_of(scaler, record);
    if (verdict.reported_check == record->report.check)
        return GSC_OK; /* it is here already, or there is none */
    return gsc__device_status(fetch(scaler->device->scaler, record, &verdict, optimizer), api);
}

/* An optimizer does not move while the scaler knows it; of arrays only the address of a key is left. */
static const gsc_optimizer *optimizer_of(const gsc__record *record)
{
    return record->use == GSC_USED_AS_OPTIMIZER ? record->key : NULL;
}

void gsc__device_bring_report(const gsc_scaler *scaler, gsc__record *record, const char *api)
{
    if (gsc__device_settle(scaler, api) == GSC_OK)
        (void)gsc__device_fetch_report(scaler, record, optimizer_of(record), api);
}

bool gsc__device_overflowed(const gsc_scaler *scaler, const gsc__record *record, const char *api)
{
    return gsc__device_settle(scaler, api) != GSC_OK || gsc__device_verdict_of(scaler, record).overflowed;
}

static gsc__record *find_record(const gsc_scaler *scaler, uint64_t number)
{
    for (size_t i = 0; i < scaler->records.slot_count; i++)
        if (scaler->records.slots[i] && scaler->records.slots[i]->device.number == number)
            return scaler->records.slots[i];
    return NULL;
}

static gsc__overflow_source source_of(const gsc_scaler *scaler, const gsc__record *record)
{
    if (!record)
        return GSC_OVERFLOW_FORGOTTEN;
    if (record->report.count > 0)
        return GSC_OVERFLOW_HERE;
    return record->device.is_word || !scaler->options.comm ? GSC_OVERFLOW_RECORDED : GSC_OVERFLOW_ELSEWHERE;
}

static gsc_status describe(gsc_scaler *scaler, uint64_t number, const char *api)
{
    static const gsc__report nothing;
    gsc__record *record = find_record(scaler, number);
    if (record)
        GSC_TRY(gsc__device_fetch_report(scaler, record, optimizer_of(record), api));
    gsc__report_describe(scaler, record ? &record->report : &nothing, source_of(scaler, record));
    return GSC_OK;
}

static bool is_overflow(const gsc__device_happening *happening)
{
    return happening && happening->kind == GSC_EVENT_OVERFLOW;
}

/* The log has the overflows in their order. */
gsc_status gsc__device_describe_overflows(gsc_scaler *scaler, const char *api)
{
    const gsc__device_part *part = scaler->device;
    GSC_TRY(gsc__device_settle(scaler, api));
    const uint64_t end = part->seen.happenings, first = gsc__device_oldest(end);
    int64_t last_update = -1;
    for (uint64_t i = first; i < end; i++)
        if (is_overflow(gsc__device_happening_at(part, i)))
            last_update = gsc__device_happening_at(part, i)->update;
    scaler->overflow_text[0] = '\0';
    for (uint64_t i = first; i < end; i++) {
        const gsc__device_happening *happening = gsc__device_happening_at(part, i);
        if (is_overflow(happening) && happening->update == last_update)
            GSC_TRY(describe(scaler, happening->record, api));
    }
    return GSC_OK;
}
