/* SPDX-License-Identifier: Apache-2.0 */
#include "train/command.h"
#include "common/clock.h"
#include "common/interrupt.h"
#include "common/message.h"
#include "train/checkpoint.h"
#include "train/evaluate.h"
#include "train/loop.h"
#include "train/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static int failed(void)
{
    say("%s", gsc_last_error());
    return EXIT_FAILED;
}

/* Whether the run goes on in the folder that it was resumed from. */
static bool stays(const train_options *options)
{
    return options->resume && (!options->out || output_is_same(options->out, options->resume));
}

static gsc_status go_on(const train_run *r, run_state *state)
{
    const char *dir = r->options->resume;
    const int64_t steps = run_steps(r);
    int64_t last;
    gsc_status status = checkpoint_load(dir, r, &r->output->data, state);
    if (status != GSC_OK)
        return status;
    if (state->step > steps)
        return gsc_fail(GSC_ERR_VALUE,
                        "the run in %s has made %" PRId64 " steps already, more than %" PRId64
                        ": give more --steps or --epochs, or leave them out",
                        dir, state->step, steps);
    status = metrics_resume(&r->output->metrics, dir, state->step, &last);
    if (status == GSC_OK && last < state->step)
        say("warning: metrics.jsonl in %s ends at step %" PRId64 ", the checkpoint is of step %" PRId64
            ": the lines between are lost",
            dir, last, state->step);
    if (status == GSC_OK && state->step == steps)
        say("the run in %s is finished: all %" PRId64 " steps are made", dir, steps);
    return status;
}

/* Also of a run that goes on, where it was stopped before its loss was known. */
static gsc_status measure_before(const train_run *r, run_state *state)
{
    evaluation before;
    gsc_status status = evaluate(r->task, r->model, r->tape, r->task->train, &before);
    if (status == GSC_OK && interrupt_signal() == 0)
        status = check_loss(r, before.loss, "before the first step");
    state->initial_loss = before.loss;
    return status;
}

static gsc_status begin_or_go_on(const train_run *r, run_state *state)
{
    gsc_status status = GSC_OK;
    if (r->options->resume)
        status = go_on(r, state);
    else
        *state = run_begin(r);
    return status == GSC_OK && isnan(state->initial_loss) ? measure_before(r, state) : status;
}

static int failed_in_loop(const train_run *r, gsc_status status)
{
    failed();
    const int64_t step = r->output ? checkpoint_step(r->output->dir) : -1;
    if (step >= 0 && status != GSC_ERR_DIVERGED) /* which would only happen again */
        say("the checkpoint of step %" PRId64 " is intact; go on from there with: gradscaler train --resume %s", step,
            r->output->dir);
    return EXIT_FAILED;
}

static int stopped(const train_run *r, const run_state *state)
{
    const int64_t steps = run_steps(r);
    char place[80];
    if (state->step == 0)
        snprintf(place, sizeof place, "before the first of %" PRId64 " steps", steps);
    else
        snprintf(place, sizeof place, "after step %" PRId64 " of %" PRId64, state->step, steps);
    if (r->output)
        say("stopped by %s %s; go on with: gradscaler train --resume %s", interrupt_name(), place, r->output->dir);
    else
        say("stopped by %s %s; nothing is kept without --out", interrupt_name(), place);
    return EXIT_DONE;
}

static gsc_status measure_after(const train_run *r, summary *s)
{
    const train_task *task = r->task;
    gsc_status status = evaluate(task, r->model, r->tape, task->train, &s->after);
    if (status == GSC_OK && interrupt_signal() == 0)
        status = check_loss(r, s->after.loss, "after the last step");
    s->test_accuracy = (double)NAN;
    if (status != GSC_OK || !task->test)
        return status;
    evaluation test;
    status = evaluate(task, r->model, r->tape, task->test, &test);
    s->test_accuracy = test.accuracy;
    return status;
}

static int finished(const train_run *r, const summary *s)
{
    if (s->state.made == 0)
        say("warning: no step was made, since every one of %" PRId64 " overflowed; %s", s->state.skipped,
            r->options->scaler == SCALER_STATIC ? "lower --init-scale" : "lower --init-scale or train longer");
    if (r->options->json)
        return summary_print_json(r, s) ? EXIT_DONE : EXIT_FAILED;
    summary_print(r, s);
    return EXIT_DONE;
}

/* `begin`: when the command began. */
static int train(const train_run *r, double begin)
{
    summary s;
    gsc_status status = begin_or_go_on(r, &s.state);
    if (status != GSC_OK)
        return failed();
    const double seconds_before = s.state.seconds;
    if (s.state.step < run_steps(r) || !stays(r->options)) {
        status = loop_run(r, &s.state);
        if (status != GSC_OK)
            return failed_in_loop(r, status);
    }
    if (s.state.step < run_steps(r))
        return stopped(r, &s.state);
    status = measure_after(r, &s);
    if (status != GSC_OK)
        return failed();
    if (interrupt_signal() != 0)
        return stopped(r, &s.state);
    s.seconds = seconds_before + clock_seconds() - begin;
    return finished(r, &s);
}

/* Trains and evaluates in the precision that was asked for. */
static int train_in_precision(const train_run *r, double begin)
{
    const int32_t precision = r->options->precision;
    const DLDataType dtype = precision == PRECISION_BF16 ? GSC_BFLOAT16 : GSC_FLOAT16;
    if (gsc_autocast_begin(dtype, precision != PRECISION_FP32) != GSC_OK)
        return failed();
    const int code = train(r, begin);
    gsc_autocast_end();
    return code;
}

static gsc_status open_output(const train_options *options, const train_task *task, output *out)
{
    gsc_status status = stays(options) ? output_open(options->resume, out) : output_create(options->out, out);
    return status == GSC_OK ? fingerprint_take(task, &out->data) : status;
}

static int with_task(const train_options *options, const train_task *task, double begin)
{
    const size_t examples = gsc_dataset_count(task->train);
    if ((size_t)options->batch > examples) {
        say("--batch is %" PRId64 ", more than the %zu training %s of %s: give --batch 1 to %zu", options->batch,
            examples, task->unit, task->data, examples);
        return EXIT_USAGE;
    }
    train_run r = {0};
    output kept = {0};
    gsc_status status = options->out || options->resume ? open_output(options, task, &kept) : GSC_OK;
    if (status == GSC_OK)
        status = run_create(options, task, &r);
    r.output = kept.dir ? &kept : NULL;
    const int code = status == GSC_OK ? train_in_precision(&r, begin) : failed();
    run_release(&r);
    output_close(&kept);
    return code;
}

static bool check_name(const train_options *options)
{
    if ((!options->json && !options->out && !options->resume) || summary_can_name(options->data))
        return true;
    say("--data: the folder's name is not UTF-8, so JSON could not tell it: rename it%s",
        options->json ? " or leave out --json" : "");
    return false;
}

static int with_options(train_options *options, double begin)
{
    data_source source = {0};
    if (options->data && !check_name(options))
        return EXIT_USAGE;
    if (!data_source_find(options->data, &source))
        return EXIT_FAILED;
    options_set_data(options, source.name);
    if (!options_complete(options, source.folder == NULL))
        return EXIT_USAGE;
    gsc_set_num_threads((int32_t)options->threads);
    train_task task;
    gsc_status status = task_load(&source, &task);
    const int code = status == GSC_OK ? with_task(options, &task, begin) : failed();
    task_release(&task);
    return code;
}

static int resume(train_options *options, double begin)
{
    json_t *record = NULL;
    const json_t *recorded;
    if (checkpoint_read(options->resume, &record, &recorded) != GSC_OK)
        return failed();
    const int code = options_resume(options, recorded) ? with_options(options, begin) : EXIT_USAGE;
    json_decref(record);
    return code;
}

int train_command(int argc, char **argv)
{
    const double begin = clock_seconds();
    train_options options;
    if (!options_parse(argc, argv, &options))
        return EXIT_USAGE;
    if (options.help) {
        options_help(stdout);
        return EXIT_DONE;
    }
    interrupt_begin();
    return options.resume ? resume(&options, begin) : with_options(&options, begin);
}
