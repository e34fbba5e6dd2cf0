/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: creates the objects of a run from its options, and counts its steps. */
#include "train/run.h"
#include "base/try.h"
#include "common/message.h"
#include "train/model.h"

#include <math.h>
#include <stdlib.h>

#define MOMENTUM 0.9      /* of --optimizer sgd */
#define WEIGHT_DECAY 0.01 /* of --optimizer adamw; torch.optim.AdamW's default */

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
        o.hysteresis_until_growth = options->hysteresis_until_growth;
        o.max_consecutive_skips = options->max_consecutive_skips;
        o.skip_window = (int32_t)options->skip_window;
        o.max_skip_share = options->skip_window > 0 ? options->max_skip_share : o.max_skip_share;
    }
    return gsc_scaler_create(&o, out);
}

static gsc_status create_from_group(const train_options *options, const train_task *task, gsc_tensor *const *params,
                                    size_t n, gsc_optim **out)
{
    if (options->optimizer == OPTIMIZER_SGD) {
        gsc_param_group group = gsc_param_group_default_sgd(params, n, options->lr);
        group.momentum = MOMENTUM;
        return gsc_optim_create_sgd(&group, 1, out);
    }
    gsc_param_group group = gsc_param_group_default_adam(params, n, options->lr);
    group.eps *= task->loss_factor; /* eps is relative to the gradients, which have the factor */
    if (options->optimizer == OPTIMIZER_ADAM)
        return gsc_optim_create_adam(&group, 1, out);
    group.weight_decay = WEIGHT_DECAY;
    return gsc_optim_create_adamw(&group, 1, out);
}

static gsc_status create_optimizer(const train_options *options, const train_task *task, gsc_module *model,
                                   gsc_optim **out)
{
    const size_t n = gsc_module_param_count(model);
    gsc_tensor **params = malloc(n * sizeof *params);
    if (!params)
        return fail_with(GSC_ERR_MEMORY, "no memory for a list of %zu parameters", n);
    for (size_t i = 0; i < n; i++)
        params[i] = gsc_module_param(model, i);
    gsc_status status = create_from_group(options, task, params, n, out);
    free(params);
    return status;
}

gsc_status run_create(const train_options *options, const train_task *task, train_run *out)
{
    const uint64_t seed = (uint64_t)options->seed;
    *out = (train_run){.options = options, .task = task};
    GSC_TRY(model_create(options->model, task, seed, &out->model));
    GSC_TRY(create_optimizer(options, task, out->model, &out->optim));
    GSC_TRY(create_scaler(options, &out->scaler));
    GSC_TRY(gsc_loader_create(task->train, (size_t)options->batch, true, seed, &out->loader));
    return gsc_tape_create(&out->tape);
}

void run_release(train_run *run)
{
    gsc_tape_free(run->tape);
    gsc_loader_free(run->loader);
    gsc_scaler_destroy(run->scaler);
    gsc_optim_free(run->optim);
    gsc_module_free(run->model);
}

run_state run_begin(const train_run *run)
{
    return (run_state){.lr = run->options->lr, .initial_loss = (double)NAN, .saved_step = -1};
}

static int64_t batches(const train_run *run) { return (int64_t)gsc_loader_batches(run->loader); }

gsc_status run_seek(const train_run *run, const run_state *state)
{
    return gsc_loader_seek(run->loader, (uint64_t)(state->step / batches(run)), (size_t)(state->step % batches(run)));
}

int64_t run_steps(const train_run *run)
{
    const int64_t epochs = run->options->epochs, steps = run->options->steps;
    const int64_t by_epochs = epochs * batches(run);
    if (epochs == 0)
        return steps;
    return steps == 0 || by_epochs < steps ? by_epochs : steps;
}

int64_t run_epochs(const train_run *run, int64_t step) { return (step + batches(run) - 1) / batches(run); }

/* Only the last batch of an epoch may be smaller than the others. */
int64_t run_examples(const train_run *run, int64_t step)
{
    const int64_t count = (int64_t)gsc_dataset_count(run->task->train);
    return step / batches(run) * count + step % batches(run) * run->options->batch;
}

gsc_status run_check_loss(const train_run *run, double loss, const char *when)
{
    if (isfinite(loss))
        return GSC_OK;
    const bool unscaled_fp16 = run->options->precision == PRECISION_FP16 && run->options->scaler == SCALER_OFF;
    return fail_with(GSC_ERR_DIVERGED, "the loss %s is %s: training has diverged; lower --lr%s", when,
                     isnan(loss) ? "NaN" : "infinite",
                     unscaled_fp16 ? " or guard the parameters with --scaler dynamic" : "");
}
