/* SPDX-License-Identifier: Apache-2.0 */
/* divergence.c: weights and losses that are not finite, too many skipped steps, and gradients that are all zero. */
#include "train/divergence.h"
#include "base/try.h"
#include "common/message.h"

#include "gradscaler/gradients.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

void divergence_note(divergence *d, int64_t step, double loss, gsc_outcome outcome)
{
    if (isfinite(loss))
        d->loss_since = 0;
    else if (d->loss_since == 0)
        d->loss_since = step;
    if (outcome != GSC_SKIPPED_OVERFLOW)
        d->last_made = step;
}

/* "; the loss is not finite since step 5"; empty: it is finite. */
typedef struct loss_text {
    char text[64];
} loss_text;

static loss_text print_loss_since(const divergence *d)
{
    loss_text out = {""};
    if (d->loss_since > 0)
        snprintf(out.text, sizeof out.text, "; the loss is infinite or NaN since step %" PRId64, d->loss_since);
    return out;
}

/* *first: the first parameter with an element that is not finite. Returns how many have one; 0: none. */
static gsc_status count_broken(const train_run *run, size_t *count, const gsc_tensor **first)
{
    *count = 0;
    for (size_t i = 0; i < gsc_module_param_count(run->model); i++) {
        gsc_tensor *param = gsc_module_param(run->model, i);
        DLTensor *data = gsc_tensor_data(param);
        bool found;
        GSC_TRY(gsc_check_grads(&data, 1, &found));
        if (found && (*count)++ == 0)
            *first = param;
    }
    return GSC_OK;
}

gsc_status divergence_check_weights(const divergence *d, const train_run *run, const run_state *state)
{
    size_t count;
    const gsc_tensor *first = NULL;
    char when[64], others[64] = "";
    GSC_TRY(count_broken(run, &count, &first));
    if (count == 0)
        return GSC_OK;
    if (d->last_made > 0)
        snprintf(when, sizeof when, "since step %" PRId64, d->last_made);
    else
        snprintf(when, sizeof when, "in the checkpoint of step %" PRId64, state->step);
    if (count > 1)
        snprintf(others, sizeof others, " (and %zu other parameters)", count - 1);
    return fail_with(GSC_ERR_DIVERGED,
                     "%s%s has weights that are infinite or NaN %s: training has diverged%s; lower --lr",
                     gsc_tensor_get_name(first), others, when, print_loss_since(d).text);
}

static const char *skip_advice(const divergence *d, const train_options *options)
{
    if (d->loss_since > 0)
        return options->precision == PRECISION_FP16 ? ", which no scale mends: lower --lr, or use --precision bf16"
                                                    : ", which no scale mends: lower --lr";
    return options->scaler == SCALER_STATIC ? "; lower --init-scale or --lr, or use --scaler dynamic"
                                            : "; lower --init-scale or --lr";
}

gsc_status divergence_fail_skips(const divergence *d, const train_run *run, const run_state *state)
{
    const train_options *o = run->options;
    const bool in_a_row = o->max_consecutive_skips > 0 && state->skips_in_a_row >= o->max_consecutive_skips;
    char gradients[OVERFLOW_TEXT_SIZE], what[256];
    overflow_print(&state->last_overflow, gradients);
    if (in_a_row)
        snprintf(what, sizeof what,
                 "%" PRId64 " steps in a row were skipped, since step %" PRId64 " (--max-consecutive-skips %" PRId64
                 "), while the scale went from %g to %g",
                 state->skips_in_a_row, state->step - state->skips_in_a_row + 1, o->max_consecutive_skips,
                 state->scale_before_skips, gsc_scaler_get_scale(run->scaler));
    else
        snprintf(what, sizeof what,
                 "more than %g of the last %" PRId64 " steps were skipped (--max-skip-share of --skip-window)",
                 o->max_skip_share, o->skip_window);
    return fail_with(GSC_ERR_DIVERGED, "gave up after step %" PRId64 ": %s; gradients that overflowed last: %s%s%s",
                     state->step, what, gradients, print_loss_since(d).text, skip_advice(d, o));
}

bool divergence_is_zero(divergence *d, double loss, const gsc_step_result *result)
{
    enum { MIN_TO_REPEAT = 100 };
    const bool is_zero =
        result->outcome == GSC_STEPPED && result->grad_norm == 0 && loss != 0; /* a loss of 0 has no gradient */
    d->zero_in_a_row = is_zero ? d->zero_in_a_row + 1 : 0;
    int64_t power = MIN_TO_REPEAT;
    while (power < d->zero_in_a_row && power <= INT64_MAX / 10)
        power *= 10;
    const bool is_due = is_zero && (!d->zero_warned || power == d->zero_in_a_row);
    d->zero_warned = d->zero_warned || is_due;
    return is_due;
}

static const char *zero_advice(const train_options *options)
{
    if (options->precision != PRECISION_FP16)
        return "the network does not react to its inputs any more: lower --lr";
    switch (options->scaler) {
    case SCALER_OFF: return "they underflow in float16: use --scaler dynamic, or --precision bf16";
    case SCALER_STATIC: return "they underflow in float16: raise --init-scale, or use --scaler dynamic";
    default: return "they underflow in float16 until the scale has grown: raise --init-scale";
    }
}

void divergence_warn_zero(const divergence *d, const train_run *run, int64_t step)
{
    char since[64] = "";
    if (d->zero_in_a_row > 1)
        snprintf(since, sizeof since, ", for %" PRId64 " steps in a row", d->zero_in_a_row);
    say("warning: step %" PRId64 ": every gradient is zero although the loss is not%s, so nothing is learned; %s", step,
        since, zero_advice(run->options));
}
