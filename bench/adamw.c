/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.c: unscale + clip + AdamW on one large parameter beside the memory traffic that it needs, and the peak memory
 * of a process that does nothing else. */
#define _DEFAULT_SOURCE /* wait4 */
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data.h"
#include "gradscaler/train.h"
#include "limits.h"
#include "must.h"
#include "report.h"
#include "topics.h"

enum { ADAM_ARRAYS = 4 /* parameters, gradients and two moments */ };

typedef struct training {
    gsc_tensor *param;
    gsc_optim *optim;
    gsc_scaler *scaler;
} training;

/* A backward pass allocates the gradient; its values are then overwritten. */
static void provide_gradient(gsc_tensor *param)
{
    gsc_tape *tape;
    bench_must(gsc_tape_create(&tape));
    bench_must(gsc_tape_backward(tape, gsc_sum(gsc_tape_param(tape, param))));
    gsc_tape_free(tape);
    bench_fill(GSC_F32, gsc_tensor_grad(param)->data, gsc_tensor_count(param));
}

static void training_create(training *t, size_t n)
{
    int64_t shape[] = {(int64_t)n};
    bench_must(gsc_tensor_create(GSC_FLOAT32, 1, shape, &t->param));
    bench_must(gsc_tensor_set_requires_grad(t->param, true));
    bench_fill(GSC_F32, gsc_tensor_data(t->param)->data, n);
    provide_gradient(t->param);
    gsc_param_group group = gsc_param_group_default_adam(&t->param, 1, 1e-3);
    group.weight_decay = 0.01;
    bench_must(gsc_optim_create_adamw(&group, 1, &t->optim));
    bench_must(gsc_scaler_create(NULL, &t->scaler));
}

static void training_free(training *t)
{
    gsc_scaler_destroy(t->scaler);
    gsc_optim_free(t->optim);
    gsc_tensor_free(t->param);
}

static void run_step(void *ctx)
{
    training *t = ctx;
    gsc_step_args args = {.clip_norm = 1};
    bench_must(gsc_scaler_step(t->scaler, gsc_optim_optimizer(t->optim), &args, NULL));
    bench_must(gsc_scaler_update(t->scaler));
}

static void measure_time(bench *b, size_t n, int threads)
{
    bench_row row = {.topic = "training",
                     .what = "unscale + clip + AdamW",
                     .kind = GSC_F32,
                     .elements = n,
                     .tensors = 1,
                     .threads = threads,
                     .beside = "read g; p, g, m, v",
                     .sense = BENCH_COST,
                     .bar = 1.15 /* docs/performance.md */};
    if (!bench_wanted(b, &row))
        return;
    training t;
    training_create(&t, n);
    limit_arrays arrays = {
        .p = gsc_tensor_data(t.param)->data,
        .g = gsc_tensor_grad(t.param)->data,
        .m = gsc_optim_state(t.optim, 0, "exp_avg")->data,
        .v = gsc_optim_state(t.optim, 0, "exp_avg_sq")->data,
        .count = n,
    };
    bench_compare(b, row, (bench_work){.run = run_step, .ctx = &t}, limit_adam(&arrays));
    training_free(&t);
}

/* The peak memory, in MiB, of a child process that makes two steps. */
static double peak_memory(size_t n)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        training t;
        training_create(&t, n);
        run_step(&t);
        run_step(&t);
        _exit(0);
    }
    int status;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        bench_die("the process whose memory is measured failed");
    return (double)usage.ru_maxrss / 1024;
}

static void measure_memory(bench *b, size_t n)
{
    bench_row row = {.topic = "training",
                     .what = "unscale + clip + AdamW, memory",
                     .kind = GSC_F32,
                     .elements = n,
                     .tensors = 1,
                     .threads = b->threads,
                     .beside = "four arrays + 64 MiB",
                     .sense = BENCH_COST,
                     .unit = BENCH_MIB,
                     .reference =
                         (double)(ADAM_ARRAYS * n * sizeof(float)) / (1024 * 1024) + 64 /* docs/performance.md */,
                     .bar = 1};
    if (!bench_wanted(b, &row))
        return;
    gsc_set_num_threads(b->threads);
    row.ours = peak_memory(n);
    row.ratio = row.ours / row.reference;
    bench_append(b, row);
}

void bench_adamw(bench *b)
{
    size_t n = b->quick ? 100000 : 100000000;
    int threads[2];
    size_t n_threads = bench_thread_counts(b, threads);
    for (size_t i = 0; i < n_threads; i++)
        measure_time(b, n, threads[i]);
    measure_memory(b, n);
}
