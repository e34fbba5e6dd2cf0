/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c: the training loop: one step after another, with checkpoints, metrics and the progress bar. */
#include "train/loop.h"
#include "base/try.h"
#include "common/clock.h"
#include "common/interrupt.h"
#include "common/message.h"
#include "train/checkpoint.h"
#include "train/divergence.h"
#include "train/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* That many skipped steps in a row are reported on stderr. Fewer are normal: a dynamic scale grows until it overflows.
 */
#define MIN_SKIPS_TO_REPORT 3

typedef struct loop {
    const train_run *run;
    run_state *state;
    progress bar;
    int64_t steps; /* in all */
    double loss;   /* of the last batch */
    double begin;  /* the run's training time so far is the clock minus this */
    int64_t growths_before, backoffs_before;
    divergence divergence;
} loop;

/* SGD's steps are proportional to the loss factor, Adam's do not depend on it. */
static double optimizer_lr(const loop *l)
{
    return l->run->options->optimizer == OPTIMIZER_SGD ? l->state->lr / l->run->task->loss_factor : l->state->lr;
}

/* Called after a step that was not skipped: moves the rate along the straight line from its value to 0 at the end of
 * the run. A skipped step does not change it, so the schedule counts the other steps and still ends at 0. */
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
    gsc_tensor *outputs;
    gsc_tape_clear(r->tape);
    gsc_tensor *loss = task_loss(r->task, r->model, r->tape, x, y, &outputs);
    if (!loss)
        return GSC_ERR_VALUE; /* with the message of the op that failed */
    l->loss = gsc_tensor_item(loss);
    if (!gsc_scaler_is_enabled(r->scaler)) {
        char when[64];
        snprintf(when, sizeof when, "at step %" PRId64 " of epoch %" PRIu64, l->state->step + 1,
                 gsc_loader_epoch(r->loader) + 1);
        GSC_TRY(run_check_loss(r, l->loss, when));
    }
    gsc_optim_zero_grad(r->optim);
    return gsc_tape_backward(r->tape, gsc_scale_loss(r->scaler, task_multiply_loss(r->task, r->tape, loss)));
}

static void report_skips(loop *l, double scale)
{
    const run_state *s = l->state;
    if (s->skips_in_a_row >= MIN_SKIPS_TO_REPORT && scale < s->scale_before_skips) {
        progress_clear(&l->bar);
        say("step %" PRId64 ": the scale came down from %g to %g in %" PRId64 " skipped steps", s->step,
            s->scale_before_skips, scale, s->skips_in_a_row);
    }
}

static void count(loop *l, gsc_outcome outcome, double scale)
{
    run_state *s = l->state;
    if (outcome == GSC_SKIPPED_OVERFLOW) {
        if (s->skips_in_a_row++ == 0)
            s->scale_before_skips = scale;
        s->skipped++;
        s->last_overflow = overflow_collect(l->run->scaler, gsc_optim_optimizer(l->run->optim), s->step + 1);
    } else {
        s->made++;
        report_skips(l, scale);
        s->skips_in_a_row = 0;
        advance_lr(l);
    }
    s->step++;
    s->seconds = clock_seconds() - l->begin;
}

/* The scaler counts from its creation, the state from the beginning of the run. */
static void count_scale_changes(loop *l)
{
    gsc_scaler_stats stats;
    gsc_scaler_get_stats(l->run->scaler, &stats);
    l->state->growths = l->growths_before + stats.growths;
    l->state->backoffs = l->backoffs_before + stats.backoffs;
}

/* The metrics and the warnings need the norm of the gradients, which a step computes if it clips: clipping to infinity
 * changes nothing. */
static gsc_status make_step(loop *l, gsc_step_result *result)
{
    const train_run *r = l->run;
    const double clip_norm = r->options->clip_norm;
    const gsc_step_args args = {.clip_norm = clip_norm > 0 ? clip_norm : (double)INFINITY};
    return gsc_scaler_step(r->scaler, gsc_optim_optimizer(r->optim), &args, result);
}

static gsc_status add_metric(loop *l, metric *line, const gsc_step_result *result)
{
    const train_run *r = l->run;
    metrics_change change;
    line->step = l->state->step;
    line->loss = l->loss;
    line->outcome = result->outcome;
    line->grad_norm = result->grad_norm / r->task->loss_factor;
    line->seconds = l->state->seconds;
    line->overflow = result->outcome == GSC_SKIPPED_OVERFLOW ? &l->state->last_overflow : NULL;
    GSC_TRY(metrics_add(&r->output->metrics, line));
    if (metrics_take_change(&r->output->metrics, &change)) {
        progress_clear(&l->bar);
        say("warning: %s: another program changed the file before step %" PRId64 ": it has %" PRId64 " bytes, %" PRId64
            " were written; the run goes on at its end",
            r->output->metrics.path, line->step, change.after, change.before);
    }
    return GSC_OK;
}

/* After a step: what the loss and the gradients say about the run. */
static gsc_status check_course(loop *l, const gsc_step_result *result)
{
    divergence_note(&l->divergence, l->state->step, l->loss, result->outcome);
    if (divergence_is_zero(&l->divergence, l->loss, result)) {
        progress_clear(&l->bar);
        divergence_warn_zero(&l->divergence, l->run, l->state->step);
    }
    return isfinite(l->loss) ? GSC_OK : divergence_check_weights(&l->divergence, l->run, l->state);
}

static gsc_status iterate(loop *l, const DLTensor *x, const DLTensor *y)
{
    const train_run *r = l->run;
    metric line = {.scale = gsc_scaler_get_scale(r->scaler), .lr = l->state->lr};
    gsc_step_result result;
    GSC_TRY(gsc_optim_set_lr(r->optim, 0, optimizer_lr(l)));
    GSC_TRY(compute_gradients(l, x, y));
    GSC_TRY(make_step(l, &result));
    count(l, result.outcome, line.scale);
    if (r->output)
        GSC_TRY(add_metric(l, &line, &result));
    GSC_TRY(check_course(l, &result));
    gsc_status status = gsc_scaler_update(r->scaler);
    count_scale_changes(l);
    return status == GSC_ERR_DIVERGED ? divergence_fail_skips(&l->divergence, r, l->state) : status;
}

/* The next batch, the first one of the next epoch at the end of an epoch. */
static void next_batch(gsc_loader *loader, const DLTensor **x, const DLTensor **y)
{
    if (gsc_loader_next(loader, x, y) > 0)
        return;
    gsc_loader_start(loader, gsc_loader_epoch(loader) + 1);
    gsc_loader_next(loader, x, y);
}

static void update_bar(loop *l, int64_t examples_before)
{
    const train_run *r = l->run;
    const run_state *s = l->state;
    const progress_state state = {.step = s->step,
                                  .steps = l->steps,
                                  .epoch = run_epochs(r, s->step),
                                  .skipped = s->skipped,
                                  .examples = run_examples(r, s->step) - examples_before,
                                  .rate_unit = r->task->rate_unit,
                                  .loss = l->loss,
                                  .scale = gsc_scaler_get_scale(r->scaler)};
    progress_update(&l->bar, &state);
}

static bool is_checkpoint_due(const loop *l)
{
    const int64_t every = l->run->options->checkpoint_every;
    const int64_t period = every > 0 ? every : (int64_t)gsc_loader_batches(l->run->loader);
    return l->run->output && l->state->step < l->steps && l->state->step % period == 0;
}

/* Weights that are not finite never replace a whole checkpoint. */
static gsc_status save(const loop *l)
{
    if (l->state->saved_step == l->state->step)
        return GSC_OK;
    GSC_TRY(divergence_check_weights(&l->divergence, l->run, l->state));
    GSC_TRY(checkpoint_save(l->run, l->state));
    l->state->saved_step = l->state->step;
    return GSC_OK;
}

gsc_status loop_save_first(const train_run *run, run_state *state)
{
    const loop l = {.run = run, .state = state};
    return save(&l);
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
            update_bar(l, examples_before);
        if (status == GSC_OK && is_checkpoint_due(l))
            status = save(l);
    }
    if (status == GSC_OK && l->state->step == l->steps)
        report_skips(l, gsc_scaler_get_scale(l->run->scaler));
    progress_clear(&l->bar);
    return status;
}

gsc_status loop_run(const train_run *run, run_state *state)
{
    loop l = {.run = run, .state = state, .steps = run_steps(run)};
    l.growths_before = state->growths;
    l.backoffs_before = state->backoffs;
    GSC_TRY(run_seek(run, state));
    if (run->output)
        GSC_TRY(save(&l));
    progress_begin(&l.bar, state->step);
    l.begin = clock_seconds() - state->seconds;
    GSC_TRY(train(&l));
    return run->output ? save(&l) : GSC_OK;
}
