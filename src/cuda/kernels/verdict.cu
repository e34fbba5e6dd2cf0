/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.cu: a check from its beginning to the verdict and the report, and the counting of the step. */
#include "cuda/kernels/norm_math.h"
#include "cuda/kernels/state.h"

GSC_CUDA_KERNEL(begin)
{
    gsc__cuda_slot *slot = args.slot;
    if (gsc__thread() != 0)
        return;
    slot->scale = (double)args.state->schedule.scale;
    slot->r = args.state->enabled ? gsc__divide(1.0, slot->scale) : 1.0;
    slot->host_max_abs = args.host_max_abs;
    slot->host_found_inf = args.host_found_inf;
    slot->checked_here = args.checked;
    slot->failed_here = args.failed;
    slot->unscales = args.unscales;
    gsc__pass_begin(&slot->passes[GSC_CUDA_CHECK], slot->r, args.unscales != 0);
}

GSC_CUDA_KERNEL(gather)
{
    for (uint32_t i = gsc__block() * gsc__block_threads() + gsc__thread(); i < args.count && args.counts_into;
         i += gsc__grid_blocks() * gsc__block_threads()) {
        const gsc__cuda_count from = args.counts_from[i];
        if (from.infs + from.nans > 0) /* a gradient is on one device */
            args.counts_into[i] = from;
    }
    if (gsc__block() != 0 || gsc__thread() != 0)
        return;
    for (int kind = 0; kind < GSC_KINDS; kind++)
        if (args.from->max_bits[kind] > args.into->max_bits[kind])
            args.into->max_bits[kind] = args.from->max_bits[kind];
    for (int bin = 0; bin < 3; bin++)
        args.into->sums[bin] += args.from->sums[bin];
}

GSC_DEVICE bool found_inf_here(const gsc__cuda_slot *slot)
{
    bool found = slot->host_found_inf != 0;
    for (int kind = 0; kind < GSC_KINDS; kind++)
        found = found || slot->passes[GSC_CUDA_CHECK].max_bits[kind] >= gsc__kind_infinity((gsc__kind)kind);
    return found;
}

GSC_CUDA_KERNEL(pack)
{
    gsc__cuda_slot *slot = args.slot;
    if (gsc__thread() != 0)
        return;
    slot->agreement[GSC_CUDA_FOUND_INF] = found_inf_here(slot) ? 1.0f : 0.0f;
    slot->agreement[GSC_CUDA_CHECKED] = slot->checked_here ? 1.0f : 0.0f;
    slot->agreement[GSC_CUDA_FAILED] = slot->failed_here ? 1.0f : 0.0f;
    slot->agreement[GSC_CUDA_SCALE] = (float)slot->scale;
    slot->agreement[GSC_CUDA_MINUS_SCALE] = -(float)slot->scale;
}

/* What the ranks have agreed on, or this rank alone. */
struct agreed {
    bool failed, refused, scales_differ, found_inf, checked;
};

GSC_DEVICE agreed read_agreement(const gsc__cuda_decide_args *args)
{
    const gsc__cuda_slot *slot = args->slot;
    agreed out = {args->collective_failed != 0, false, false, false, false};
    if (out.failed)
        return out;
    out.found_inf = found_inf_here(slot);
    out.checked = slot->checked_here != 0;
    if (!args->agreed)
        return out;
    out.refused = slot->agreement[GSC_CUDA_FAILED] > 0.0f;
    out.scales_differ = slot->agreement[GSC_CUDA_SCALE] != -slot->agreement[GSC_CUDA_MINUS_SCALE];
    out.failed = out.refused || out.scales_differ;
    out.found_inf = slot->agreement[GSC_CUDA_FOUND_INF] > 0.0f;
    out.checked = slot->agreement[GSC_CUDA_CHECKED] > 0.0f;
    return out;
}

/* Moves what scan has counted of a gradient into its entry of the report. */
GSC_DEVICE void report_gradient(const gsc__cuda_decide_args *args, bool reports, uint32_t index)
{
    gsc__cuda_count *count = &args->counts[index];
    const gsc__cuda_count found = *count;
    if (found.infs + found.nans == 0)
        return;
    count->infs = count->nans = count->first_inverted = 0; /* for the next check */
    if (!reports)
        return;
    gsc__cuda_entry *entry = &args->entries[index];
    const uint64_t check = args->slot->checks + 1, first = ~found.first_inverted;
    bool same =
        entry->check + 1 == check && entry->infs == found.infs && entry->nans == found.nans && entry->first == first;
    entry->repeats = same ? entry->repeats + 1 : 1;
    entry->infs = found.infs;
    entry->nans = found.nans;
    entry->first = first;
    entry->check = check;
    gsc__atomic_add_u64(&args->slot->counted, 1);
    gsc__atomic_max_u64(&args->state->pending_repeats, entry->repeats);
}

GSC_DEVICE void note_failure(const gsc__cuda_decide_args *args, const agreed *ranks)
{
    gsc__cuda_state *state = args->state;
    gsc__comm_failed(state, args->slot);
    if (ranks->refused) {
        gsc__set_halt(state, GSC_HALT_REFUSED_ELSEWHERE);
    } else if (ranks->scales_differ) {
        if (state->halt == GSC_HALT_NONE) {
            state->least_scale = -args->slot->agreement[GSC_CUDA_MINUS_SCALE];
            state->greatest_scale = args->slot->agreement[GSC_CUDA_SCALE];
        }
        gsc__set_halt(state, GSC_HALT_SCALES_DIFFER);
    }
}

GSC_DEVICE void note_verdict(const gsc__cuda_decide_args *args, const agreed *ranks, uint64_t counted)
{
    gsc__cuda_state *state = args->state;
    gsc__cuda_slot *slot = args->slot;
    slot->checks++;
    slot->found_inf = ranks->found_inf;
    slot->found_inf_here = found_inf_here(slot);
    slot->checked = ranks->checked;
    state->pending_checked |= (uint32_t)ranks->checked;
    if (!ranks->found_inf)
        return;
    state->pending_overflow = 1;
    slot->overflow_epoch = state->epoch;
    slot->reported_check = slot->checks;
    slot->report_count = counted;
    gsc__note_event(state, args->shot, GSC_EVENT_OVERFLOW, slot->scale, slot->number);
}

GSC_DEVICE void decide_all(const gsc__cuda_decide_args *args, const agreed *ranks)
{
    gsc__cuda_slot *slot = args->slot;
    uint64_t counted = gsc__atomic_add_u64(&slot->counted, 0);
    slot->counted = slot->blocks_done = 0;
    double max_abs = gsc__max_abs(&slot->passes[GSC_CUDA_CHECK]);
    if (gsc__is_nan(slot->host_max_abs) || slot->host_max_abs > max_abs)
        max_abs = slot->host_max_abs;
    slot->numbers.max_abs = max_abs;
    slot->numbers.scale = slot->scale;
    if (ranks->failed)
        note_failure(args, ranks);
    else
        note_verdict(args, ranks, counted);
    slot->multiplier64 = slot->unscales ? 1.0 : slot->r;
    slot->multiplier = (float)slot->multiplier64;
    slot->found_inf_dev = gsc__must_skip(args->state, slot) ? 1.0f : 0.0f;
}

/* The gradients of the report are spread over all blocks; the last block to come to its end decides, so that what the
 * others read stays until then. */
GSC_CUDA_KERNEL(decide)
{
    const agreed ranks = read_agreement(&args);
    for (uint32_t i = gsc__block() * gsc__block_threads() + gsc__thread(); i < args.grad_count;
         i += gsc__grid_blocks() * gsc__block_threads())
        report_gradient(&args, ranks.found_inf && !ranks.failed, i);
    gsc__fence();
    gsc__block_barrier();
    if (gsc__thread() != 0 || gsc__atomic_add_u64(&args.slot->blocks_done, 1) + 1 < gsc__grid_blocks())
        return;
    gsc__fence();
    decide_all(&args, &ranks);
}

GSC_CUDA_KERNEL(finish)
{
    gsc__cuda_slot *slot = args.slot;
    if (gsc__thread() != 0)
        return;
    gsc_outcome outcome = args.outcome;
    if (outcome == GSC_PENDING)
        outcome = slot->found_inf_dev != 0.0f ? GSC_SKIPPED_OVERFLOW : GSC_STEPPED;
    args.state->steps += outcome == GSC_STEPPED;
    args.state->skipped_steps += outcome == GSC_SKIPPED_OVERFLOW;
    slot->outcome = outcome;
    slot->clipped = args.clipped;
    slot->finished = slot->numbers;
}
