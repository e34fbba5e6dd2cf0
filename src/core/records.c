/* SPDX-License-Identifier: Apache-2.0 */
/* records.c: what a scaler knows about each optimizer, found by its address in a hash table: open addressing, the next
 * free slot after the hashed one. At most half of the slots are taken.
 *
 * Updates do not visit the records: a record of an earlier iteration is READY, and is set so when it is found again. */
#include <stdlib.h>

#include "core/internal.h"

enum { LEAST_SLOTS = 8 }; /* a power of two, as every number of slots */

static size_t home_of(const gsc__records *records, const void *key)
{
    uint64_t bits = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
    return (size_t)(bits >> 32) & (records->slot_count - 1);
}

/* The slot that has this key, or the free one where it belongs. There is at least one slot. */
static size_t find_slot(const gsc__records *records, const void *key)
{
    size_t slot = home_of(records, key);
    while (records->slots[slot] && records->slots[slot]->key != key)
        slot = (slot + 1) & (records->slot_count - 1);
    return slot;
}

static void begin_iteration(const gsc__records *records, gsc__record *record)
{
    record->iteration = records->iteration;
    record->stage = GSC_STAGE_READY;
    record->found_inf = record->overflowed = record->partly_written = false;
    record->comm_failure = GSC_COMM_FINE;
    record->claim = 0;
    record->step_failed = false;
    record->previous_unscaled = record->next_unscaled = NULL;
}

gsc__record *gsc__record_find(const gsc_scaler *scaler, const void *key)
{
    const gsc__records *records = &scaler->records;
    if (records->slot_count == 0)
        return NULL;
    gsc__record *record = records->slots[find_slot(records, key)];
    if (record && record->iteration != records->iteration)
        begin_iteration(records, record);
    return record;
}

/* Returns false without memory; then nothing has changed. */
static bool resize(gsc__records *records, size_t slot_count)
{
    gsc__records resized = *records;
    resized.slot_count = slot_count;
    resized.slots = calloc(slot_count, sizeof *resized.slots);
    if (!resized.slots)
        return false;
    for (size_t i = 0; i < records->slot_count; i++)
        if (records->slots[i])
            resized.slots[find_slot(&resized, records->slots[i]->key)] = records->slots[i];
    free(records->slots);
    *records = resized;
    return true;
}

gsc_status gsc__record_get(gsc_scaler *scaler, const void *key, gsc__record **out)
{
    *out = gsc__record_find(scaler, key);
    if (*out)
        return GSC_OK;
    gsc__records *records = &scaler->records;
    size_t wanted = records->slot_count ? 2 * records->slot_count : LEAST_SLOTS;
    if (2 * (records->count + 1) > records->slot_count && !resize(records, wanted))
        return gsc_fail(GSC_ERR_MEMORY, "no memory to keep track of %zu optimizers", records->count + 1);
    gsc__record *record = calloc(1, sizeof *record);
    if (!record)
        return gsc_fail(GSC_ERR_MEMORY, "no memory to keep track of an optimizer");
    record->key = key;
    begin_iteration(records, record);
    records->slots[find_slot(records, key)] = record;
    records->count++;
    *out = record;
    return GSC_OK;
}

gsc_status gsc__record_open(gsc_scaler *scaler, const gsc__user *user, gsc__record **record)
{
    if (!*record)
        GSC_TRY(gsc__record_get(scaler, user->key, record));
    if (user->use == GSC_USED_WITH_BUFFERS)
        GSC_TRY(gsc__arrays_set(&scaler->arrays, user->buffers, user->count, scaler->options.device, user->api));
    (*record)->use = user->use;
    (*record)->optimizer = user->optimizer;
    return GSC_OK;
}

void gsc__record_set_stage(gsc_scaler *scaler, gsc__record *record, gsc_stage stage)
{
    gsc__records *records = &scaler->records;
    records->busy += (size_t)(stage != GSC_STAGE_READY) - (size_t)(record->stage != GSC_STAGE_READY);
    if (record->stage == GSC_STAGE_UNSCALED && stage != GSC_STAGE_UNSCALED) {
        gsc__record *previous = record->previous_unscaled, *next = record->next_unscaled;
        *(previous ? &previous->next_unscaled : &records->unscaled) = next;
        if (next)
            next->previous_unscaled = previous;
    }
    if (record->stage != GSC_STAGE_UNSCALED && stage == GSC_STAGE_UNSCALED) {
        record->previous_unscaled = NULL;
        record->next_unscaled = records->unscaled;
        if (records->unscaled)
            records->unscaled->previous_unscaled = record;
        records->unscaled = record;
    }
    record->stage = stage;
}

void gsc__note_written(gsc_scaler *scaler, gsc__record *record)
{
    record->partly_written = true;
    gsc__record_set_stage(scaler, record, GSC_STAGE_UNSCALED);
    scaler->pending.recorded = true;
}

static void record_free(gsc_scaler *scaler, gsc__record *record)
{
    gsc__device_close(scaler, record);
    gsc__report_free(scaler, &record->report);
    gsc__extents_free(&record->extents);
    if (scaler->list_record == record)
        scaler->list_record = NULL;
    free(record);
}

/* Frees a slot and moves the records after it up, so that each is found from where it belongs without a gap. */
static void empty_slot(gsc__records *records, size_t hole)
{
    size_t mask = records->slot_count - 1;
    for (size_t slot = (hole + 1) & mask; records->slots[slot]; slot = (slot + 1) & mask) {
        size_t home = home_of(records, records->slots[slot]->key);
        if (((slot - home) & mask) < ((slot - hole) & mask))
            continue; /* it belongs behind the hole */
        records->slots[hole] = records->slots[slot];
        hole = slot;
    }
    records->slots[hole] = NULL;
}

void gsc__record_remove(gsc_scaler *scaler, gsc__record *record)
{
    gsc__records *records = &scaler->records;
    gsc__record_set_stage(scaler, record, GSC_STAGE_READY);
    empty_slot(records, find_slot(records, record->key));
    record_free(scaler, record);
    records->count--;
    if (records->slot_count > LEAST_SLOTS && 8 * records->count < records->slot_count)
        (void)resize(records, records->slot_count / 2); /* without memory for that, it stays as large as it is */
}

void gsc__records_free(gsc_scaler *scaler)
{
    for (size_t i = 0; i < scaler->records.slot_count; i++)
        if (scaler->records.slots[i])
            record_free(scaler, scaler->records.slots[i]);
    free(scaler->records.slots);
    gsc__claims_free(&scaler->claims);
    gsc__retired_names_free(scaler);
}

bool gsc__records_all_ready(const gsc_scaler *scaler) { return scaler->records.busy == 0; }

void gsc__records_reset(gsc_scaler *scaler)
{
    scaler->records.iteration++;
    scaler->records.busy = 0;
    scaler->records.unscaled = NULL;
    scaler->pending = (gsc__pending){0};
    scaler->overflow_text[0] = '\0';
}
