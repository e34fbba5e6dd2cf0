/* SPDX-License-Identifier: Apache-2.0 */
/* device_events.c: what a device has noted and the caller is told of later: events, and why it halted. */
#include <stdio.h>
#include <string.h>

#include "core/internal.h"

/* NULL: it is forgotten by now. */
static const gsc_optimizer *find_optimizer(const gsc_scaler *scaler, uint64_t number)
{
    for (size_t i = 0; i < scaler->records.slot_count && number > 0; i++) {
        const gsc__record *record = scaler->records.slots[i];
        if (record && record->device.number == number)
            return record->key;
    }
    return NULL;
}

void gsc__device_tell(gsc_scaler *scaler)
{
    gsc__device_part *part = scaler->device;
    if (!scaler->options.observer || part->is_telling)
        return;
    GSC_CALL_SCOPE(scaler);
    const bool closed = scaler->closed;
    part->is_telling = true;
    while (part->told < part->seen.happenings) { /* a getter that the observer calls may bring more */
        const gsc__device_happening *happening = gsc__device_happening_at(part, part->told++);
        if (!happening)
            continue;
        const gsc_event event = {.kind = happening->kind,
                                 .scale = happening->scale,
                                 .update = happening->update,
                                 .optimizer = find_optimizer(scaler, happening->record),
                                 .scaler = scaler,
                                 .scale_before = happening->scale_before};
        gsc__tell_observer(scaler, &event);
    }
    part->is_telling = false;
    scaler->closed = closed;
}

/* The numbers in the message are the device's when it halted; the gradients are those of the last overflow. */
static gsc_status diverged(gsc_scaler *scaler, const char *api)
{
    const gsc__device_snapshot halted = scaler->device->seen;
    GSC_TRY(gsc__device_describe_overflows(scaler, api));
    memcpy(scaler->last_overflow_text, scaler->overflow_text, sizeof scaler->last_overflow_text);
    scaler->overflow_text[0] = '\0';
    if (halted.repeats > scaler->last_repeats)
        scaler->last_repeats = halted.repeats;
    return halted.halted_in_window ? gsc__diverged_in_window(scaler, halted.window_overflows, halted.window_filled)
                                   : gsc__diverged_in_a_row(scaler, halted.schedule.consecutive_skips);
}

static gsc_status halt_message(gsc_scaler *scaler, const char *api)
{
    const gsc__device_snapshot *seen = &scaler->device->seen;
    switch (seen->halt) {
    case GSC_HALT_REFUSED_ELSEWHERE: return gsc__refused_elsewhere();
    case GSC_HALT_SCALES_DIFFER:
        return gsc__scales_differ(seen->schedule.scale, seen->least_scale, seen->greatest_scale);
    default: return diverged(scaler, api);
    }
}

gsc_status gsc__device_halted(gsc_scaler *scaler, const char *api)
{
    gsc__device_part *part = scaler->device;
    const uint64_t halts = part->seen.halts;
    if (part->seen.halt == GSC_HALT_NONE || halts <= part->halts)
        return GSC_OK;
    gsc_status message = halt_message(scaler, api);
    if (message == GSC_ERR_DEVICE)
        return message;
    char text[GSC_MESSAGE_SIZE];
    snprintf(text, sizeof text, "%s", gsc_last_error());
    GSC_TRY(gsc__device_status(part->backend->acknowledge(part->device), api));
    part->halts = halts;
    return gsc_fail_message(message, text);
}

gsc_status gsc__device_catch_up(const gsc_scaler *scaler, const char *api)
{
    gsc_scaler *own = scaler->device->scaler;
    GSC_TRY(gsc__device_settle(scaler, api));
    gsc__device_tell(own);
    return gsc__device_halted(own, api);
}

gsc_status gsc__device_know(gsc_scaler *scaler, gsc__record *record, const gsc_optimizer *optimizer, const char *api)
{
    GSC_TRY(gsc__device_settle(scaler, api));
    if (!scaler->options.enabled)
        return GSC_OK;
    gsc__device_learn(scaler, record);
    if (record->found_inf && optimizer)
        (void)gsc__device_fetch_report(scaler, record, optimizer, api);
    gsc__device_tell(scaler);
    return record->comm_failure == GSC_COMM_FINE ? GSC_OK : gsc__device_halted(scaler, api);
}
