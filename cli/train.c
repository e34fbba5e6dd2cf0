/* SPDX-License-Identifier: Apache-2.0 */
#include "train.h"
#include "clock.h"
#include "evaluate.h"
#include "loop.h"
#include "message.h"
#include "model.h"
#include "options.h"
#include "summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define MOMENTUM 0.9      /* of --optimizer sgd */
#define WEIGHT_DECAY 0.01 /* of AdamW: torch.optim.AdamW's default */

static gsc_status create_scaler(const train_options *options, gsc_scaler **out)
{
    gsc_scaler_options o = gsc_scaler_options_default();
    o.enabled = options->scaler != SCALER_OFF;
    if (options->scaler != SCALER_OFF) {
        const bool is_static = options->scaler == SCALER_STATIC;
        o.init_scale = options->init_scale;
        o.growth_factor = options->growth_factor;
        o.backoff_factor = options->backoff_factor;
        o.growth_interval = options->growth_interval;
        o.min_scale = is_static ? options->init_scale : options->min_scale;
        o.max_scale = is_static ? options->init_scale : options->max_scale;
        o.hysteresis = (int32_t)options->hysteresis;
        o.max_consecutive_skips = options->max_consecutive_skips;
    }
    return gsc_scaler_create(&o, out);
}

static gsc_status create_from_group(const train_options *options, const train_task *task, gsc_tensor *const *params,
                                    size_t n, gsc_optim **out)
{
    if (options->optimizer == OPTIMIZER_SGD) {
        gsc_param_group group = gsc_sgd_group(params, n, options->lr);
        group.momentum = MOMENTUM;
        return gsc_optim_sgd(&group, 1, out);
    }
    gsc_param_group group = gsc_adam_group(params, n, options->lr);
    group.eps *= task->loss_factor; /* is compared with the size of the gradients */
    if (options->optimizer == OPTIMIZER_ADAM)
        return gsc_optim_adam(&group, 1, out);
    group.weight_decay = WEIGHT_DECAY;
    return gsc_optim_adamw(&group, 1, out);
}

static gsc_status create_optimizer(const train_options *options, const train_task *task, gsc_module *model,
                                   gsc_optim **out)
{
    const size_t n = gsc_module_param_count(model);
    gsc_tensor **params = malloc(n * sizeof *params);
    if (!params)
        return gsc_fail(GSC_ERR_MEMORY, "no memory for a list of %zu parameters", n);
    for (size_t i = 0; i < n; i++)
        params[i] = gsc_module_param(model, i);
    gsc_status status = create_from_group(options, task, params, n, out);
    free(params);
    return status;
}

/* What was created stays in *r also after an error; run_release frees it. */
static gsc_status run_create(const train_options *options, const train_task *task, train_run *r)
{
    const uint64_t seed = (uint64_t)options->seed;
    *r = (train_run){.options = options, .task = task};
    gsc_status status = model_create(options->model, task, seed, &r->model);
    if (status == GSC_OK)
        status = create_optimizer(options, task, r->model, &r->optim);
    if (status == GSC_OK)
        status = create_scaler(options, &r->scaler);
    if (status == GSC_OK)
        status = gsc_loader_create(task->train, (size_t)options->batch, true, seed, &r->loader);
    if (status == GSC_OK)
        status = gsc_tape_create(&r->tape);
    return status;
}

static void run_release(train_run *r)
{
    gsc_tape_destroy(r->tape);
    gsc_loader_free(r->loader);
    gsc_scaler_destroy(r->scaler);
    gsc_optim_free(r->optim);
    gsc_module_free(r->model);
}

static gsc_status measure_and_train(const train_run *r, summary *s)
{
    const train_task *task = r->task;
    gsc_status status = evaluate(task, r->model, r->tape, task->train, &s->before);
    if (status == GSC_OK)
        status = check_loss(r, s->before.loss, "before the first step");
    if (status == GSC_OK)
        status = loop_run(r, &s->loop);
    if (status == GSC_OK)
        status = evaluate(task, r->model, r->tape, task->train, &s->after);
    if (status == GSC_OK)
        status = check_loss(r, s->after.loss, "after the last step");
    s->test_accuracy = (double)NAN;
    if (status != GSC_OK || !task->test)
        return status;
    evaluation test;
    status = evaluate(task, r->model, r->tape, task->test, &test);
    s->test_accuracy = test.accuracy;
    return status;
}

/* Trains and evaluates in the precision that was asked for. */
static gsc_status run_in_precision(const train_run *r, summary *s)
{
    const int32_t precision = r->options->precision;
    const DLDataType dtype = precision == PRECISION_BF16 ? GSC_BFLOAT16 : GSC_FLOAT16;
    gsc_status status = gsc_autocast_begin(dtype, precision != PRECISION_FP32);
    if (status != GSC_OK)
        return status;
    status = measure_and_train(r, s);
    gsc_autocast_end();
    return status;
}

static void warn_of_no_step(const train_run *r, const loop_result *loop)
{
    if (loop->steps == 0)
        say("warning: no step was made, since every one of %" PRId64 " overflowed; %s", loop->skipped,
            r->options->scaler == SCALER_STATIC ? "lower --init-scale" : "lower --init-scale or train longer");
}

static int failed(void)
{
    say("%s", gsc_last_error());
    return EXIT_FAILED;
}

static int train(const train_options *options, const train_task *task, double begin)
{
    const size_t examples = gsc_dataset_count(task->train);
    if ((size_t)options->batch > examples) {
        say("--batch is %" PRId64 ", more than the %zu training %s of %s: give --batch 1 to %zu", options->batch,
            examples, task->unit, task->data, examples);
        return EXIT_USAGE;
    }
    train_run r;
    summary s = {0};
    gsc_status status = run_create(options, task, &r);
    if (status == GSC_OK)
        status = run_in_precision(&r, &s);
    int code = EXIT_DONE;
    if (status != GSC_OK) {
        code = failed();
    } else {
        s.seconds = clock_seconds() - begin;
        warn_of_no_step(&r, &s.loop);
        if (!options->json)
            summary_print(&r, &s);
        else if (!summary_print_json(&r, &s))
            code = EXIT_FAILED;
    }
    run_release(&r);
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
    if (options.json && options.data && !summary_can_name(options.data)) {
        say("--data: the folder's name is not UTF-8, so --json could not tell it: rename it or leave out --json");
        return EXIT_USAGE;
    }
    data_source source = {0};
    if (!data_source_find(options.data, &source))
        return EXIT_FAILED;
    if (!options_complete(&options, source.folder == NULL))
        return EXIT_USAGE;
    gsc_set_num_threads((int32_t)options.threads);
    train_task task;
    gsc_status status = task_load(&source, &task);
    int code = status == GSC_OK ? train(&options, &task, begin) : failed();
    task_release(&task);
    return code;
}
