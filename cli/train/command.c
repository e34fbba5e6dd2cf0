/* SPDX-License-Identifier: Apache-2.0 */
/* command.c: `gradscaler train`: from the arguments through training and evaluation to the summary. */
#include "train/command.h"
#include "base/try.h"
#include "common/clock.h"
#include "common/escape.h"
#include "common/interrupt.h"
#include "common/message.h"
#include "train/checkpoint.h"
#include "train/command_line.h"
#include "train/data_source.h"
#include "train/evaluate.h"
#include "train/loop.h"
#include "train/metrics_resume.h"
#include "train/options_resume.h"
#include "train/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static int fail(void)
{
    say("%s", last_failure());
    return EXIT_FAILED;
}

/* Whether the run continues in the folder that it is resumed from. */
static bool is_in_place(const train_options *options)
{
    return options->resume && (!options->out || output_is_same(options->out, options->resume));
}

/* Says what is wrong with the metrics, before anything changes. */
static void report_metrics(const train_run *r, const metrics_content *content, int64_t step, bool is_moved)
{
    const char *dir = r->options->resume;
    const char *result = is_in_place(r->options) ? "left in place" : "not copied";
    char others[64] = "";
    if (content->foreign > 1)
        snprintf(others, sizeof others, " and %" PRId64 " more", content->foreign - 1);
    if (content->foreign > 0)
        say("warning: %s/" METRICS_FILE ": line %" PRId64
            "%s: not a line of the run, incomplete or out of order; %s%s%s",
            dir, content->first_foreign, others, is_moved ? "moved to " : result, is_moved ? dir : "",
            is_moved ? "/" METRICS_ASIDE : "");
    if (content->lines < step)
        say("warning: %s/" METRICS_FILE " has the lines of %" PRId64 " of the %" PRId64
            " steps up to the checkpoint; the others are lost",
            dir, content->lines, step);
}

/* *save_failed: why this fails; the checkpoint that was loaded is intact. */
static gsc_status resume_run(const train_run *r, run_state *state, bool *save_failed)
{
    const char *dir = r->options->resume;
    const int64_t steps = run_steps(r);
    metrics_content content;
    GSC_TRY(checkpoint_load(dir, r, &r->output->data, state));
    if (state->step > steps)
        return fail_with(GSC_ERR_VALUE,
                         "the run in %s has made %" PRId64 " steps already, more than %" PRId64
                         ": give more --steps or --epochs, or leave them out",
                         dir, state->step, steps);
    GSC_TRY(metrics_inspect(dir, state->step, &content));
    const bool is_written = state->step < steps || !is_in_place(r->options);
    if (is_written && is_in_place(r->options)) {
        *save_failed = true;
        GSC_TRY(loop_save_first(r, state)); /* a folder that cannot be written fails before its metrics are cut */
        *save_failed = false;
    }
    report_metrics(r, &content, state->step, is_written && is_in_place(r->options));
    if (is_written)
        GSC_TRY(metrics_resume(&r->output->metrics, dir, state->step, &content));
    if (state->step == steps)
        say("the run in %s is finished: all %" PRId64 " steps are made", dir, steps);
    return GSC_OK;
}

static gsc_status measure_before(const train_run *r, run_state *state)
{
    evaluation before;
    GSC_TRY(evaluate(r->task, r->model, r->tape, r->task->train, &before));
    if (interrupt_signal() == 0)
        GSC_TRY(run_check_loss(r, before.loss, "before the first step"));
    state->initial_loss = before.loss;
    return GSC_OK;
}

static gsc_status begin_run(const train_run *r, run_state *state, bool *save_failed)
{
    if (r->options->resume)
        GSC_TRY(resume_run(r, state, save_failed));
    else
        *state = run_begin(r);
    /* A resumed run lacks its initial loss if it was stopped while it measured it. */
    return isnan(state->initial_loss) ? measure_before(r, state) : GSC_OK;
}

static gsc_status measure_after(const train_run *r, summary *s)
{
    const train_task *task = r->task;
    GSC_TRY(evaluate(task, r->model, r->tape, task->train, &s->after));
    if (interrupt_signal() == 0)
        GSC_TRY(run_check_loss(r, s->after.loss, "after the last step"));
    s->test_accuracy = (double)NAN;
    if (!task->test)
        return GSC_OK;
    evaluation test;
    GSC_TRY(evaluate(task, r->model, r->tape, task->test, &test));
    s->test_accuracy = test.accuracy;
    return GSC_OK;
}

static int end_failed(const train_run *r, gsc_status status)
{
    fail();
    const char *dir = r->output ? r->output->dir : NULL;
    const int64_t step = dir ? checkpoint_step(dir) : -1;
    if (step >= 0 && status == GSC_ERR_DIVERGED) /* a diverged run would diverge again */
        say("the checkpoint of step %" PRId64
            " is intact and stays: gradscaler train --resume %s would go on from it with "
            "the same options; for other ones begin a new run",
            step, quote_path(dir).text);
    else if (step >= 0)
        say("the checkpoint of step %" PRId64
            " is intact; once the cause is mended, go on from there with: gradscaler train --resume %s",
            step, quote_path(dir).text);
    return EXIT_FAILED;
}

static int end_stopped(const train_run *r, const run_state *state)
{
    const int64_t steps = run_steps(r);
    char when[80];
    if (state->step == 0)
        snprintf(when, sizeof when, "before the first of %" PRId64 " steps", steps);
    else
        snprintf(when, sizeof when, "after step %" PRId64 " of %" PRId64, state->step, steps);
    if (r->output)
        say("stopped by %s %s; go on with: gradscaler train --resume %s", interrupt_name(), when,
            quote_path(r->output->dir).text);
    else
        say("stopped by %s %s; nothing is kept without --out", interrupt_name(), when);
    return EXIT_DONE;
}

static int end_finished(const train_run *r, const summary *s)
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
    bool save_failed = false;
    const gsc_status begun = begin_run(r, &s.state, &save_failed);
    if (begun != GSC_OK)
        return save_failed ? end_failed(r, begun) : fail();
    const double seconds_before = s.state.seconds;
    if (s.state.step < run_steps(r) || !is_in_place(r->options)) {
        const gsc_status status = loop_run(r, &s.state);
        if (status != GSC_OK)
            return end_failed(r, status);
    }
    if (s.state.step < run_steps(r))
        return end_stopped(r, &s.state);
    if (measure_after(r, &s) != GSC_OK)
        return fail();
    if (interrupt_signal() != 0)
        return end_stopped(r, &s.state);
    s.seconds = seconds_before + clock_seconds() - begin;
    return end_finished(r, &s);
}

/* Trains and evaluates in the precision of --precision. */
static int train_in_precision(const train_run *r, double begin)
{
    const int32_t precision = r->options->precision;
    const DLDataType dtype = precision == PRECISION_BF16 ? GSC_BFLOAT16 : GSC_FLOAT16;
    if (gsc_autocast_begin(dtype, precision != PRECISION_FP32) != GSC_OK)
        return fail();
    const int code = train(r, begin);
    gsc_autocast_end();
    return code;
}

/* run.json and the summary hold the name of --data. */
static bool check_name(const train_options *options)
{
    if ((!options->json && !options->out && !options->resume) || !options->data || summary_can_name(options->data))
        return true;
    say("--data: the folder's name is not UTF-8, so JSON could not tell it: rename it%s",
        options->json ? " or leave out --json" : "");
    return false;
}

static bool check_batch(const train_options *options, const train_task *task)
{
    const size_t examples = gsc_dataset_count(task->train);
    if ((size_t)options->batch <= examples)
        return true;
    say("--batch is %" PRId64 ", more than the %zu training %s of %s: give --batch 1 to %zu", options->batch, examples,
        task->unit, task->data, examples);
    return false;
}

/* What the command holds; zero-initialised. */
typedef struct session {
    train_options options;
    json_t *record; /* of --resume; options borrow texts from it */
    data_source source;
    train_task task;
    output output;
    train_run run;
} session;

static gsc_status open_output(session *s)
{
    const train_options *options = &s->options;
    if (!options->out && !options->resume)
        return GSC_OK;
    GSC_TRY(is_in_place(options) ? output_open(options->resume, &s->output) : output_create(options->out, &s->output));
    return fingerprint_compute(&s->task, &s->output.data);
}

static gsc_status create_run(session *s)
{
    GSC_TRY(open_output(s));
    GSC_TRY(run_create(&s->options, &s->task, &s->run));
    s->run.output = s->output.dir ? &s->output : NULL;
    return GSC_OK;
}

/* Everything before the first computation. Returns EXIT_DONE or, after a line on stderr, another exit code. */
static int prepare(session *s)
{
    train_options *options = &s->options;
    const json_t *recorded;
    if (options->resume && checkpoint_read(options->resume, &s->record, &recorded) != GSC_OK)
        return fail();
    if (options->resume && !options_resume(options, recorded))
        return EXIT_USAGE;
    if (!check_name(options))
        return EXIT_USAGE;
    if (!data_source_find(options->data, &s->source))
        return EXIT_FAILED;
    options->data = s->source.name;
    option_add(&options->known, OPTION_DATA);
    if (!command_line_complete(options, s->source.folder == NULL))
        return EXIT_USAGE;
    gsc_set_num_threads((int32_t)options->threads);
    if (data_source_load(&s->source, &s->task) != GSC_OK)
        return fail();
    if (!check_batch(options, &s->task))
        return EXIT_USAGE;
    return create_run(s) == GSC_OK ? EXIT_DONE : fail();
}

static void release(session *s)
{
    run_release(&s->run);
    output_close(&s->output);
    task_release(&s->task);
    json_decref(s->record);
}

int train_command(int argc, char **argv)
{
    const double begin = clock_seconds();
    session s = {0};
    if (!command_line_parse(argc, argv, &s.options))
        return EXIT_USAGE;
    if (s.options.help) {
        command_line_help(stdout);
        return EXIT_DONE;
    }
    interrupt_begin();
    int code = prepare(&s);
    if (code == EXIT_DONE)
        code = train_in_precision(&s.run, begin);
    release(&s);
    return code;
}
