/* SPDX-License-Identifier: Apache-2.0 */
#include "loop.h"
#include "clock.h"
#include "message.h"
#include "progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* A run of skipped steps at least as long is told on stderr; single ones are how a dynamic scale finds its limit. */
#define SKIPS_WORTH_TELLING 3

typedef struct loop {
    const train_run *run;
    progress bar;
    progress_state state;
    double lr;
    int64_t skips_in_a_row;
    double scale_before_skips;
} loop;

int64_t loop_steps(const train_run *run)
{
    const int64_t epochs = run->options->epochs, steps = run->options->steps;
    const int64_t by_epochs = epochs * (int64_t)gsc_loader_batches(run->loader);
    if (epochs == 0)
        return steps;
    return steps == 0 || by_epochs < steps ? by_epochs : steps;
}

gsc_status check_loss(const train_run *run, double loss, const char *when)
{
    if (isfinite(loss))
        return GSC_OK;
    const bool unscaled_fp16 = run->options->precision == PRECISION_FP16 && run->options->scaler == SCALER_OFF;
    return gsc_fail(GSC_ERR_DIVERGED, "the loss %s is %s: training has diverged; lower --lr%s", when,
                    isnan(loss) ? "NaN" : "infinite",
                    unscaled_fp16 ? " or guard the parameters with --scaler dynamic" : "");
}

/* With SGD the learning rate makes up for the loss factor; Adam's steps do not depend on it. */
static double first_lr(const train_run *run)
{
    const double lr = run->options->lr;
    return run->options->optimizer == OPTIMIZER_SGD ? lr / run->task->loss_factor : lr;
}

/* After a step was made, the rate moves along the straight line from where it is to 0 at the end of the run. A skipped
 * step leaves it, so the schedule counts the steps that were made and still ends at 0. */
static void advance_lr(loop *l)
{
    const double left = (double)(l->state.steps - l->state.step);
    if (l->run->options->lr_schedule == SCHEDULE_LINEAR)
        l->lr *= (left - 1) / left;
}

/* One forward and backward pass; gradients are left scaled. */
static gsc_status compute_gradients(loop *l, const DLTensor *x, const DLTensor *y)
{
    const train_run *r = l->run;
    gsc_tensor *logits;
    gsc_tape_clear(r->tape);
    gsc_tensor *loss = task_loss(r->task, r->model, r->tape, x, y, &logits);
    if (!loss)
        return GSC_ERR_VALUE; /* with the message of the op that failed */
    l->state.loss = gsc_tensor_item(loss);
    if (!gsc_scaler_is_enabled(r->scaler)) {
        char when[64];
        snprintf(when, sizeof when, "at step %" PRId64 " of epoch %" PRId64, l->state.step + 1, l->state.epoch);
        gsc_status status = check_loss(r, l->state.loss, when);
        if (status != GSC_OK)
            return status;
    }
    gsc_optim_zero_grad(r->optim);
    return gsc_tape_backward(r->tape, gsc_scale_loss(r->scaler, task_weigh(r->task, r->tape, loss)));
}

static void tell_skips(loop *l, double scale)
{
    if (l->skips_in_a_row >= SKIPS_WORTH_TELLING && scale < l->scale_before_skips) {
        progress_clear(&l->bar);
        say("step %" PRId64 ": the scale came down from %g to %g in %" PRId64 " skipped steps", l->state.step,
            l->scale_before_skips, scale, l->skips_in_a_row);
    }
}

static void count(loop *l, gsc_outcome outcome, double scale_before, loop_result *out)
{
    if (outcome == GSC_SKIPPED_OVERFLOW) {
        if (l->skips_in_a_row++ == 0)
            l->scale_before_skips = scale_before;
        out->skipped++;
        out->last_overflow = l->state.step + 1;
        return;
    }
    out->steps++;
    tell_skips(l, scale_before);
    l->skips_in_a_row = 0;
    advance_lr(l);
}

static gsc_status iterate(loop *l, const DLTensor *x, const DLTensor *y, loop_result *out)
{
    const train_run *r = l->run;
    const gsc_optimizer *optimizer = gsc_optim_optimizer(r->optim);
    const gsc_step_args args = {.clip_norm = r->options->clip_norm};
    const double scale = gsc_scaler_get_scale(r->scaler);
    gsc_step_result result;
    gsc_status status = gsc_optim_set_lr(r->optim, 0, l->lr);
    if (status == GSC_OK)
        status = compute_gradients(l, x, y);
    if (status == GSC_OK)
        status = gsc_scaler_step(r->scaler, optimizer, &args, &result);
    if (status != GSC_OK)
        return status;
    count(l, result.outcome, scale, out);
    l->state.step++;
    status = gsc_scaler_update(r->scaler);
    if (status == GSC_ERR_DIVERGED)
        return gsc_fail(status, "%s; lower --init-scale or --lr", gsc_last_error());
    return status;
}

/* The next batch, from a new epoch where this one is used up. */
static size_t next_batch(loop *l, const DLTensor **x, const DLTensor **y)
{
    size_t n = l->state.epoch > 0 ? gsc_loader_next(l->run->loader, x, y) : 0;
    if (n == 0) {
        gsc_loader_start(l->run->loader, (uint64_t)l->state.epoch++);
        n = gsc_loader_next(l->run->loader, x, y);
    }
    return n;
}

gsc_status loop_run(const train_run *run, loop_result *out)
{
    loop l = {.run = run, .lr = first_lr(run), .state = {.steps = loop_steps(run), .rate_unit = run->task->rate_unit}};
    *out = (loop_result){0};
    progress_begin(&l.bar);
    gsc_status status = GSC_OK;
    while (status == GSC_OK && l.state.step < l.state.steps) {
        const DLTensor *x, *y;
        const size_t n = next_batch(&l, &x, &y);
        status = iterate(&l, x, y, out);
        l.state.examples += (int64_t)n;
        l.state.skipped = out->skipped;
        l.state.scale = gsc_scaler_get_scale(run->scaler);
        if (status == GSC_OK)
            progress_update(&l.bar, &l.state);
    }
    if (status == GSC_OK)
        tell_skips(&l, l.state.scale);
    progress_clear(&l.bar);
    out->epochs = l.state.epoch;
    out->examples_per_s = (double)l.state.examples / (clock_seconds() - l.bar.begin);
    return status;
}
