/* SPDX-License-Identifier: Apache-2.0 */
/* calls.c: the cost of the calls themselves: one iteration with a loss and a gradient of one element each. */
#include <math.h>

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

void bench_calls(bench *b)
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
