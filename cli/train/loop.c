/* SPDX-License-Identifier: Apache-2.0 */
#include "train/loop.h"
#include "common/clock.h"
#include "common/interrupt.h"
#include "common/message.h"
#include "train/checkpoint.h"
#include "train/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A run of skipped steps at least as long is told on stderr; single ones are how a dynamic scale finds its limit. */
#define SKIPS_WORTH_TELLING 3

#define MAX_OVERFLOWS 8

typedef struct loop {
    const train_run *run;
    run_state *state;
    progress bar;
    int64_t steps; /* in all */
    double loss;   /* of the last batch */
    double begin;  /* when the training would have begun, had it not been stopped */
    int64_t growths_before, backoffs_before;
} loop;

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
static double lr_of_optimizer(const loop *l)
{
    return l->run->options->optimizer == OPTIMIZER_SGD ? l->state->lr / l->run->task->loss_factor : l->state->lr;
}

/* After a step was made, the rate moves along the straight line from where it is to 0 at the end of the run. A skipped
 * step leaves it, so the schedule counts the steps that were made and still ends at 0. */
static void advance_lr(loop *l)
{
    const double left = (double)(l->steps - l->state->step);
    if (l->run->options->lr_schedule == SCHEDULE_LINEAR)
        l->state->lr *= (left - 1) / left;
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
    l->loss = gsc_tensor_item(loss);
    if (!gsc_scaler_is_enabled(r->scaler)) {
        char when[64];
        snprintf(when, sizeof when, "at step %" PRId64 " of epoch %" PRIu64, l->state->step + 1,
                 gsc_loader_epoch(r->loader) + 1);
        gsc_status status = check_loss(r, l->loss, when);
        if (status != GSC_OK)
            return status;
    }
    gsc_optim_zero_grad(r->optim);
    return gsc_tape_backward(r->tape, gsc_scale_loss(r->scaler, task_weigh(r->task, r->tape, loss)));
}

static void tell_skips(loop *l, double scale)
{
    const run_state *s = l->state;
    if (s->skips_in_a_row >= SKIPS_WORTH_TELLING && scale < s->scale_before_skips) {
        progress_clear(&l->bar);
        say("step %" PRId64 ": the scale came down from %g to %g in %" PRId64 " skipped steps", s->step,
            s->scale_before_skips, scale, s->skips_in_a_row);
    }
}

static void note_overflow(loop *l)
{
    gsc_overflow list[MAX_OVERFLOWS];
    const size_t n = gsc_scaler_overflows(l->run->scaler, gsc_optim_optimizer(l->run->optim), list, MAX_OVERFLOWS);
    char *text = l->state->last_overflow, *end = text + RUN_OVERFLOW_SIZE;
    snprintf(text, RUN_OVERFLOW_SIZE, "step %" PRId64 ":", l->state->step + 1);
    for (size_t i = 0; i < n && i < MAX_OVERFLOWS; i++) {
        text += strlen(text);
        snprintf(text, (size_t)(end - text), "%s %s (%" PRIu64 " inf, %" PRIu64 " nan)", i > 0 ? "," : "",
                 list[i].name ? list[i].name : "?", list[i].inf_count, list[i].nan_count);
    }
    text += strlen(text);
    if (n > MAX_OVERFLOWS)
        snprintf(text, (size_t)(end - text), ", and %zu more", n - MAX_OVERFLOWS);
}

static void count(loop *l, gsc_outcome outcome, double scale)
{
    run_state *s = l->state;
    if (outcome == GSC_SKIPPED_OVERFLOW) {
        if (s->skips_in_a_row++ == 0)
            s->scale_before_skips = scale;
        s->skipped++;
        note_overflow(l);
    } else {
        s->made++;
        tell_skips(l, scale);
        s->skips_in_a_row = 0;
        advance_lr(l);
    }
    s->step++;
    s->seconds = clock_seconds() - l->begin;
}

/* The scaler counts from its creation, the state from the begin of the run. */
static void count_scale_changes(loop *l)
{
    gsc_scaler_stats stats;
    gsc_scaler_get_stats(l->run->scaler, &stats);
    l->state->growths = l->growths_before + stats.growths;
    l->state->backoffs = l->backoffs_before + stats.backoffs;
}

/* The step itself. Where the run is kept, the norm is wanted: it comes with a clipping, even one to infinity. */
static gsc_status make_step(loop *l, gsc_step_result *result)
{
    const train_run *r = l->run;
    gsc_step_args args = {.clip_norm = r->options->clip_norm};
    if (r->output && args.clip_norm == 0)
        args.clip_norm = (double)INFINITY;
    return gsc_scaler_step(r->scaler, gsc_optim_optimizer(r->optim), &args, result);
}

static gsc_status iterate(loop *l, const DLTensor *x, const DLTensor *y)
{
    const train_run *r = l->run;
    metric line = {.scale = gsc_scaler_get_scale(r->scaler), .lr = l->state->lr};
    gsc_step_result result;
    gsc_status status = gsc_optim_set_lr(r->optim, 0, lr_of_optimizer(l));
    if (status == GSC_OK)
        status = compute_gradients(l, x, y);
    if (status == GSC_OK)
        status = make_step(l, &result);
    if (status != GSC_OK)
        return status;
    count(l, result.outcome, line.scale);
    if (r->output) {
        line.step = l->state->step;
        line.loss = l->loss;
        line.outcome = result.outcome;
        line.grad_norm = result.grad_norm / r->task->loss_factor;
        line.seconds = l->state->seconds;
        status = metrics_add(&r->output->metrics, &line);
        if (status != GSC_OK)
            return status;
    }
    status = gsc_scaler_update(r->scaler);
    count_scale_changes(l);
    if (status == GSC_ERR_DIVERGED)
        return gsc_fail(status, "%s; lower --init-scale or --lr", gsc_last_error());
    return status;
}

/* The next batch, from a new epoch where this one is used up. */
static void next_batch(gsc_loader *loader, const DLTensor **x, const DLTensor **y)
{
    if (gsc_loader_next(loader, x, y) > 0)
        return;
    gsc_loader_start(loader, gsc_loader_epoch(loader) + 1);
    gsc_loader_next(loader, x, y);
}

static void show(loop *l, int64_t examples_before)
{
    const train_run *r = l->run;
    const run_state *s = l->state;
    progress_update(&l->bar, &(progress_state){.step = s->step,
                                               .steps = l->steps,
                                               .epoch = run_epochs(r, s->step),
                                               .skipped = s->skipped,
                                               .examples = run_examples(r, s->step) - examples_before,
                                               .rate_unit = r->task->rate_unit,
                                               .loss = l->loss,
                                               .scale = gsc_scaler_get_scale(r->scaler)});
}

static bool is_due(const loop *l)
{
    const int64_t every = l->run->options->checkpoint_every;
    const int64_t period = every > 0 ? every : (int64_t)gsc_loader_batches(l->run->loader);
    return l->run->output && l->state->step < l->steps && l->state->step % period == 0;
}

static gsc_status train(loop *l)
{
    const int64_t examples_before = run_examples(l->run, l->state->step);
    gsc_status status = GSC_OK;
    while (status == GSC_OK && l->state->step < l->steps && interrupt_signal() == 0) {
        const DLTensor *x, *y;
        next_batch(l->run->loader, &x, &y);
        status = iterate(l, x, y);
        if (status == GSC_OK)
            show(l, examples_before);
        if (status == GSC_OK && is_due(l))
            status = checkpoint_save(l->run, l->state);
    }
    if (status == GSC_OK && l->state->step == l->steps)
        tell_skips(l, gsc_scaler_get_scale(l->run->scaler));
    progress_clear(&l->bar);
    return status;
}

gsc_status loop_run(const train_run *run, run_state *state)
{
    loop l = {.run = run, .state = state, .steps = run_steps(run)};
    l.growths_before = state->growths;
    l.backoffs_before = state->backoffs;
    gsc_status status = run_seek(run, state);
    if (status == GSC_OK && run->output)
        status = checkpoint_save(run, state); /* what cannot be written is known before the first step */
    if (status != GSC_OK)
        return status;
    progress_begin(&l.bar, state->step);
    l.begin = clock_seconds() - state->seconds;
    const int64_t saved = state->step;
    status = train(&l);
    if (status == GSC_OK && run->output && state->step > saved)
        status = checkpoint_save(run, state);
    return status;
}
