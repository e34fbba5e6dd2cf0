/* SPDX-License-Identifier: Apache-2.0 */
#include "train/ops/reduce.h"

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
        size_t length = n - i < GSC_STRIP ? n - i : GSC_STRIP;
        sum += sum_strip(gsc__load_f64(kind, elements, first + i, length, strip), length);
    }
    return sum;
}

typedef struct block_sums {
    gsc__block_sum *block_sum;
    const void *ctx;
    double *partial;
} block_sums;

static void one_block(void *ctx, size_t block)
{
    const block_sums *job = ctx;
    job->partial[block] = job->block_sum(job->ctx, block);
}

gsc_status gsc__sum_blocks(gsc_tape *tape, size_t blocks, gsc__block_sum *block_sum, const void *ctx, double *sum)
{
    block_sums job = {.block_sum = block_sum, .ctx = ctx, .partial = gsc__tape_scratch(tape, blocks, GSC_F64)};
    if (!job.partial)
        return GSC_ERR_MEMORY;
    gsc_parallel_run(blocks, one_block, &job);
    *sum = gsc__sum_run(GSC_F64, job.partial, 0, blocks);
    return GSC_OK;
}

typedef struct elements_sum {
    gsc__kind kind;
    const void *elements;
    size_t n;
} elements_sum;

static double elements_block(const void *ctx, size_t block)
{
    const elements_sum *all = ctx;
    return gsc__sum_run(all->kind, all->elements, block * GSC_BLOCK, gsc__block_length(all->n, block));
}

gsc_status gsc__sum_to_one(gsc_tape *tape, gsc__kind kind, const void *elements, size_t n, double divisor, void *out)
{
    elements_sum all = {.kind = kind, .elements = elements, .n = n};
    double sum;
    gsc_status status = gsc__sum_blocks(tape, gsc__blocks(n), elements_block, &all, &sum);
    if (status != GSC_OK)
        return status;
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
    void *dst;
    size_t n;
    double value;
} fill;

static void fill_block(void *ctx, size_t block)
{
    const fill *f = ctx;
    double strip[GSC_STRIP];
    for (size_t i = 0; i < GSC_STRIP; i++)
        strip[i] = f->value;
    size_t n = gsc__block_length(f->n, block);
    for (size_t i = 0; i < n; i += GSC_STRIP)
        gsc__convert(GSC_F64, strip, f->kind, gsc__at_mutable(f->kind, f->dst, block * GSC_BLOCK + i),
                     n - i < GSC_STRIP ? n - i : GSC_STRIP);
}

/* The gradient of a sum goes to every element alike. */
static void spread(const gsc__node *node, double divisor, void *grad)
{
    const gsc_tensor *x = node->in[0];
    double gradient;
    gsc__convert(node->out->kind, node->out->grad.data, GSC_F64, &gradient, 1);
    fill all = {.kind = x->kind, .dst = grad, .n = x->count, .value = gradient / divisor};
    gsc_parallel_run(gsc__blocks(x->count), fill_block, &all);
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
