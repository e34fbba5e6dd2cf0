/* SPDX-License-Identifier: Apache-2.0 */
/* state.h: what kernels of one thread do with the scaler's state. */
#ifndef GSC_CUDA_KERNELS_STATE_H
#define GSC_CUDA_KERNELS_STATE_H

#include "cuda/device.h"

/* The first halt that is not acknowledged is the one that is told. */
GSC_DEVICE void gsc__set_halt(gsc__cuda_state *state, gsc__halt halt)
{
    if (state->halt != GSC_HALT_NONE)
        return;
    state->halt = halt;
    state->halts++;
}

/* The host may be reading the one that this one overwrites: it drops what has not the number that it expects. */
GSC_DEVICE void gsc__note_event(gsc__cuda_state *state, gsc__cuda_shot *shot, gsc_event_kind kind, double scale_before,
                                uint64_t record)
{
    gsc__device_happening *happening = &shot->log[state->happenings++ % GSC_DEVICE_LOG];
    *(volatile uint64_t *)&happening->number = 0;
    gsc__fence_system();
    happening->kind = kind;
    happening->update = state->updates;
    happening->scale_before = scale_before;
    happening->scale = (double)state->schedule.scale;
    happening->record = record;
    gsc__fence_system();
    *(volatile uint64_t *)&happening->number = state->happenings;
}

/* Whether the record's step has to be skipped. */
GSC_DEVICE bool gsc__must_skip(const gsc__cuda_state *state, const gsc__cuda_slot *slot)
{
    return slot->found_inf || slot->comm_failed_epoch == state->epoch || state->halt != GSC_HALT_NONE;
}

GSC_DEVICE void gsc__comm_failed(gsc__cuda_state *state, gsc__cuda_slot *slot)
{
    slot->comm_failed_epoch = state->epoch;
    state->pending_comm_failed = 1;
}

GSC_DEVICE void gsc__pass_begin(gsc__cuda_pass *pass, double factor, bool stores)
{
    pass->factor = factor;
    pass->stores = stores;
    pass->idle = 0;
    pass->exponent = 0;
    for (int kind = 0; kind < GSC_KINDS; kind++)
        pass->max_bits[kind] = 0;
    for (int bin = 0; bin < 3; bin++)
        pass->sums[bin] = 0.0;
}

/* The host reads a snapshot only where version_begun and version_done are the same. */
GSC_DEVICE void gsc__write_snapshot(gsc__cuda_state *state, gsc__cuda_shot *shot)
{
    gsc__device_snapshot *snapshot = &shot->snapshot;
    *(volatile uint64_t *)&shot->version_begun = ++state->version;
    gsc__fence_system();
    snapshot->schedule = state->schedule;
    snapshot->stats.updates = state->updates;
    snapshot->stats.steps = state->steps;
    snapshot->stats.skipped_steps = state->skipped_steps;
    snapshot->stats.backoffs = state->backoffs;
    snapshot->stats.growths = state->growths;
    snapshot->stats.consecutive_skips = state->schedule.consecutive_skips;
    snapshot->halt = state->halt;
    snapshot->halts = state->halts;
    snapshot->least_scale = state->least_scale;
    snapshot->greatest_scale = state->greatest_scale;
    snapshot->halted_in_window = state->halted_in_window != 0;
    snapshot->window_overflows = state->window.overflows;
    snapshot->window_filled = state->window.filled;
    snapshot->repeats = state->repeats;
    snapshot->happenings = state->happenings;
    shot->epoch = state->epoch;
    shot->fresh_start = state->fresh_start;
    gsc__fence_system();
    *(volatile uint64_t *)&shot->version_done = state->version;
}

#endif
