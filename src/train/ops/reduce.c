/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c: sum, mean, and the sums that other ops need. */
#include "train/ops/reduce.h"

#include "base/try.h"
#include "gradscaler/runtime.h"
#include "train/ops/op_list.h"
#include "train/tape/check.h"
#include "train/tape/tape.h"
#include "train/tensor/convert.h"

enum { LANES = 8 };

static double sum_strip(const double *values, size_t n)
{
    double lane[LANES] = {0};
    size_t whole = n / LANES * LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            lane[k] += values[i + k];
    for (size_t i = whole; i < n; i++)
        lane[i - whole] += values[i];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

double gsc__sum_run(gsc__kind kind, const void *elements, size_t first, size_t n)
{
    double strip[GSC_STRIP];
    double sum = 0;
    for (size_t i = 0; i < n; i += GSC_STRIP) {
        size_t length = gsc__strip_length(i, n);
        sum += sum_strip(gsc__load_f64(kind, elements, first + i, length, strip), length);
    }
    return sum;
}

typedef struct part_sums {
    gsc__part_sum *part_sum;
    const void *ctx;
    double *sums;
} part_sums;

static void part_task(void *ctx, size_t index)
{
    const part_sums *job = ctx;
    job->sums[index] = job->part_sum(job->ctx, index);
}

gsc_status gsc__sum_parts(gsc_tape *tape, size_t parts, gsc__part_sum *part_sum, const void *ctx, double *sum)
{
    part_sums job = {.part_sum = part_sum, .ctx = ctx, .sums = gsc__tape_scratch(tape, parts, GSC_F64)};
    if (!job.sums)
        return GSC_ERR_MEMORY;
    gsc_parallel_run(parts, part_task, &job);
    *sum = gsc__sum_run(GSC_F64, job.sums, 0, parts);
    return GSC_OK;
}

typedef struct run {
    gsc__kind kind;
    const void *elements;
    size_t n;
} run;

static double elements_part(const void *ctx, size_t index)
{
    const run *terms = ctx;
    gsc__range part = gsc__part(terms->n, GSC_TASK_ELEMENTS, index);
    return gsc__sum_run(terms->kind, terms->elements, part.first, part.end - part.first);
}

gsc_status gsc__sum_to_one(gsc_tape *tape, gsc__kind kind, const void *elements, size_t n, double divisor, void *out)
{
    run terms = {.kind = kind, .elements = elements, .n = n};
    double sum;
    GSC_TRY(gsc__sum_parts(tape, gsc__parts(n, GSC_TASK_ELEMENTS), elements_part, &terms, &sum));
    sum /= divisor;
    gsc__convert(GSC_F64, &sum, kind, out, 1);
    return GSC_OK;
}

gsc_status gsc__op_sum_check(gsc__call *call) { return gsc__check_one_float(call); }

gsc_status gsc__op_sum_forward(const gsc__node *node, gsc_tape *tape)
{
    const gsc_tensor *x = node->in[0];
    return gsc__sum_to_one(tape, x->kind, x->data.data, x->count, 1.0, node->out->data.data);
}

typedef struct fill {
    gsc__kind kind;
    void *out;
    size_t n;
    double value;
} fill;

static void fill_task(void *ctx, size_t index)
{
    const fill *job = ctx;
    double strip[GSC_STRIP];
    for (size_t i = 0; i < GSC_STRIP; i++)
        strip[i] = job->value;
    gsc__range part = gsc__part(job->n, GSC_TASK_ELEMENTS, index);
    for (size_t first = part.first; first < part.end; first += GSC_STRIP)
        gsc__convert(GSC_F64, strip, job->kind, gsc__at_mutable(job->kind, job->out, first),
                     gsc__strip_length(first, part.end));
}

/* Every element gets the same gradient. */
static void spread(const gsc__node *node, double divisor, void *grad)
{
    const gsc_tensor *x = node->in[0];
    double gradient;
    gsc__convert(node->out->kind, node->out->grad.data, GSC_F64, &gradient, 1);
    fill job = {.kind = x->kind, .out = grad, .n = x->count, .value = gradient / divisor};
    gsc_parallel_run(gsc__parts(x->count, GSC_TASK_ELEMENTS), fill_task, &job);
}

gsc_status gsc__op_sum_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    (void)tape;
    spread(node, 1.0, grads[0]);
    return GSC_OK;
}

gsc_status gsc__op_mean_check(gsc__call *call) { return gsc__check_one_float(call); }

gsc_status gsc__op_mean_forward(const gsc__node *node, gsc_tape *tape)
{
    const gsc_tensor *x = node->in[0];
    return gsc__sum_to_one(tape, x->kind, x->data.data, x->count, (double)x->count, node->out->data.data);
}

gsc_status gsc__op_mean_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    (void)tape;
    spread(node, (double)node->in[0]->count, grads[0]);
    return GSC_OK;
}
