/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.cu: the end of an iteration, and what the host changes in the scaler's state. */
#include "cuda/kernels/state.h"

/* Begins the next iteration. */
GSC_DEVICE void forget_pending(gsc__cuda_state *state)
{
    state->pending_overflow = state->pending_checked = state->pending_comm_failed = 0;
    state->pending_repeats = 0;
    state->epoch++;
}

/* GSC_ERR_DIVERGED's condition, as core/update.c has it. */
GSC_DEVICE void check_divergence(gsc__cuda_state *state, bool overflow)
{
    const int64_t limit = state->max_consecutive_skips;
    bool in_a_row = overflow && limit > 0 && state->schedule.consecutive_skips >= limit;
    bool in_window =
        state->skip_window > 0 && gsc__skip_window_exceeds(&state->window, state->skip_window, state->most_overflows);
    if (!in_a_row && !in_window)
        return;
    if (state->halt == GSC_HALT_NONE)
        state->halted_in_window = !in_a_row;
    gsc__set_halt(state, GSC_HALT_DIVERGED);
}

GSC_DEVICE void note_changes(gsc__cuda_state *state, gsc__cuda_shot *shot, const gsc__schedule_change *change,
                             double scale_before)
{
    state->backoffs += change->backed_off;
    state->growths += change->grew;
    if (change->backed_off)
        gsc__note_event(state, shot, GSC_EVENT_BACKOFF, scale_before, 0);
    if (change->at_min_scale)
        gsc__note_event(state, shot, GSC_EVENT_AT_MIN_SCALE, scale_before, 0);
    if (change->grew)
        gsc__note_event(state, shot, GSC_EVENT_GROWTH, scale_before, 0);
}

GSC_CUDA_KERNEL(update)
{
    gsc__cuda_state *state = args.state;
    if (gsc__thread() != 0)
        return;
    gsc__schedule_change change = {false, false, false};
    const double scale_before = (double)state->schedule.scale;
    const bool counts = args.counts && !state->pending_comm_failed;
    const bool overflow = counts && state->pending_overflow, checked = counts && state->pending_checked;
    if (overflow)
        gsc__schedule_after_overflow(&state->schedule, &state->rules, &change);
    else if (checked)
        gsc__schedule_after_clean(&state->schedule, &state->rules, &change);
    if ((overflow || checked) && state->skip_window > 0)
        gsc__skip_window_add(&state->window, state->window_words, state->skip_window, overflow);
    if (overflow)
        state->repeats = state->pending_repeats;
    note_changes(state, args.shot, &change, scale_before);
    forget_pending(state);
    state->updates++;
    check_divergence(state, overflow);
    gsc__write_snapshot(state, args.shot);
}

GSC_CUDA_KERNEL(load)
{
    gsc__cuda_state *state = args.state;
    const uint32_t what = args.what;
    if (gsc__thread() != 0)
        return;
    if (what & GSC_CUDA_LOAD_SCHEDULE)
        state->schedule = args.schedule;
    if (what & GSC_CUDA_LOAD_SCALE)
        state->schedule.scale = args.schedule.scale;
    if (what & GSC_CUDA_LOAD_RULES)
        state->rules = args.rules;
    if (what & GSC_CUDA_END_ITERATION) {
        gsc__skip_window_empty(&state->window);
        forget_pending(state);
    }
    if (what & GSC_CUDA_COUNT_UPDATE)
        state->updates++;
    if (what & GSC_CUDA_CLEAR_HALT)
        state->halt = GSC_HALT_NONE;
    if (args.fresh_start > state->fresh_start) /* a graph may replay an old one */
        state->fresh_start = args.fresh_start;
    gsc__write_snapshot(state, args.shot);
}

GSC_CUDA_KERNEL(snapshot)
{
    if (gsc__thread() == 0)
        gsc__write_snapshot(args.state, args.shot);
}
