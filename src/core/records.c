/* SPDX-License-Identifier: Apache-2.0 */
/* records.c: what a scaler knows about each optimizer, found by its address. There are few: a loop finds one. */
#include <stdlib.h>

#include "core/entry.h"

gsc__record *gsc__record_find(const gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    for (size_t i = 0; i < scaler->record_count; i++) {
        if (scaler->records[i]->optimizer == optimizer)
            return scaler->records[i];
    }
    return NULL;
}

static gsc_status reserve_one(gsc_scaler *scaler)
{
    if (scaler->record_count < scaler->record_capacity)
        return GSC_OK;
    size_t capacity = scaler->record_capacity ? 2 * scaler->record_capacity : 4;
    gsc__record **records = realloc(scaler->records, capacity * sizeof *records);
    if (!records)
        return gsc_fail(GSC_ERR_MEMORY, "no memory to keep track of %zu optimizers", scaler->record_count + 1);
    scaler->records = records;
    scaler->record_capacity = capacity;
    return GSC_OK;
}

gsc_status gsc__record_get(gsc_scaler *scaler, const gsc_optimizer *optimizer, gsc__record **out)
{
    *out = gsc__record_find(scaler, optimizer);
    if (*out)
        return GSC_OK;
    GSC_TRY(reserve_one(scaler));
    gsc__record *record = calloc(1, sizeof *record);
    if (!record)
        return gsc_fail(GSC_ERR_MEMORY, "no memory to keep track of an optimizer");
    record->optimizer = optimizer;
    scaler->records[scaler->record_count++] = record;
    *out = record;
    return GSC_OK;
}

static void record_free(gsc_scaler *scaler, gsc__record *record)
{
    gsc__report_free(scaler, &record->report);
    free(record);
}

gsc_status gsc_scaler_forget(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    const char *api = "gsc_scaler_forget";
    GSC_TRY(gsc__check_scaler(scaler, api));
    GSC_TRY(gsc__check_not_null(optimizer, api, "optimizer"));
    for (size_t i = 0; i < scaler->record_count; i++) {
        if (scaler->records[i]->optimizer == optimizer) {
            record_free(scaler, scaler->records[i]);
            scaler->records[i] = scaler->records[--scaler->record_count];
            break;
        }
    }
    return GSC_OK;
}

void gsc__records_free(gsc_scaler *scaler)
{
    for (size_t i = 0; i < scaler->record_count; i++)
        record_free(scaler, scaler->records[i]);
    free(scaler->records);
    gsc__retired_names_free(scaler);
}

bool gsc__records_all_ready(const gsc_scaler *scaler)
{
    for (size_t i = 0; i < scaler->record_count; i++) {
        if (scaler->records[i]->stage != GSC_STAGE_READY)
            return false;
    }
    return true;
}

void gsc__records_reset(gsc_scaler *scaler)
{
    for (size_t i = 0; i < scaler->record_count; i++) {
        gsc__record *record = scaler->records[i];
        record->stage = GSC_STAGE_READY;
        record->found_inf = record->overflowed = record->comm_failed = false;
    }
    scaler->pending = (gsc__pending){0};
    scaler->overflow_text[0] = '\0';
}
