/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c: the cost of the calls themselves: one iteration with a loss and a gradient of one element each; the same
 * with very many optimizers of one element each. */
#include <stdlib.h>

#include "data.h"
#include "must.h"
#include "report.h"
#include "topics.h"

typedef struct iteration {
    gsc_scaler *scaler;
    gsc_optimizer *optimizer;
    bench_tensor loss;
    float loss_value, gradient;
} iteration;

static void run_iteration(void *ctx)
{
    iteration *it = ctx;
    it->loss_value = 1;
    bench_must(gsc_scaler_scale(it->scaler, &it->loss.tensor, &it->loss.tensor));
    it->gradient = it->loss_value; /* the backward pass */
    bench_must(gsc_scaler_step(it->scaler, it->optimizer, NULL, NULL));
    bench_must(gsc_scaler_update(it->scaler));
}

static void measure_iteration(bench *b)
{
    bench_row row = {.topic = "calls",
                     .what = "scale + step + update",
                     .kind = GSC_F32,
                     .elements = 1,
                     .tensors = 1,
                     .threads = 1,
                     .beside = "time allowed",
                     .sense = BENCH_COST,
                     .reference = 0.3e-6, /* the time allowed: docs/performance.md */
                     .bar = 1};
    if (!bench_wanted(b, &row))
        return;
    iteration it;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.growth_interval = INT64_MAX;
    bench_must(gsc_scaler_create(&options, &it.scaler));
    gsc_buffer buffer = {.data = &it.gradient, .count = 1, .dtype = GSC_FLOAT32};
    bench_must(gsc_optimizer_from_buffers(&buffer, 1, bench_no_step, NULL, &it.optimizer));
    bench_tensor_flat(&it.loss, GSC_F32, &it.loss_value, 1);

    bench_work work = {.run = run_iteration, .ctx = &it, .threads = 1};
    bench_samples samples;
    bench_measure(b, &work, 1, true, &samples);
    row.ours = bench_median(samples.seconds[0], samples.rounds);
    row.ratio = row.ours / row.reference;
    bench_append(b, row);

    gsc_scaler_destroy(it.scaler);
    gsc_optimizer_free(it.optimizer);
}

typedef struct optimizers {
    gsc_scaler *scaler;
    gsc_optimizer **made;
    float *gradients;
    size_t count, rounds; /* iterations of one run, so that runs of few and of many make as many calls */
} optimizers;

static void create_optimizers(optimizers *all, size_t count, size_t rounds)
{
    gsc_scaler_options options = gsc_scaler_options_default();
    options.growth_interval = INT64_MAX;
    bench_must(gsc_scaler_create(&options, &all->scaler));
    all->count = count;
    all->rounds = rounds;
    all->made = calloc(count, sizeof(gsc_optimizer *));
    all->gradients = calloc(count, sizeof *all->gradients);
    if (!all->made || !all->gradients)
        bench_die("no memory for %zu optimizers", count);
    for (size_t i = 0; i < count; i++) {
        gsc_buffer buffer = {.data = &all->gradients[i], .count = 1, .dtype = GSC_FLOAT32};
        bench_must(gsc_optimizer_from_buffers(&buffer, 1, bench_no_step, NULL, &all->made[i]));
    }
}

static void free_optimizers(optimizers *all)
{
    gsc_scaler_destroy(all->scaler);
    for (size_t i = 0; i < all->count; i++)
        gsc_optimizer_free(all->made[i]);
    free(all->made);
    free(all->gradients);
}

static void step_all(void *ctx)
{
    optimizers *all = ctx;
    for (size_t round = 0; round < all->rounds; round++) {
        for (size_t i = 0; i < all->count; i++)
            bench_must(gsc_scaler_step(all->scaler, all->made[i], NULL, NULL));
        bench_must(gsc_scaler_update(all->scaler));
    }
}

static void measure_many(bench *b)
{
    enum { FEW = 16, TIMES = 1000 };
    bench_row row = {.topic = "calls",
                     .what = "step of each of 16,000 optimizers",
                     .kind = GSC_F32,
                     .elements = FEW * TIMES,
                     .tensors = FEW * TIMES,
                     .threads = 1,
                     .beside = "as many steps of 16",
                     .sense = BENCH_COST,
                     .bar = 3};
    if (!bench_wanted(b, &row))
        return;
    optimizers many, few;
    create_optimizers(&many, FEW * TIMES, 1);
    create_optimizers(&few, FEW, TIMES);
    bench_compare(b, row, (bench_work){.run = step_all, .ctx = &many}, (bench_work){.run = step_all, .ctx = &few});
    free_optimizers(&many);
    free_optimizers(&few);
}

void bench_calls(bench *b)
{
    measure_iteration(b);
    measure_many(b);
}
