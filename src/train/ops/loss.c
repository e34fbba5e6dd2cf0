/* SPDX-License-Identifier: Apache-2.0 */
/* ops_loss.c: the losses, computed in float64 whatever the dtype and rounded once. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "train/ops/reduce.h"
#include "train/tape/tape.h"
#include "train/tensor/convert.h"

gsc_status gsc__op_mse_loss_check(gsc__call *call)
{
    const gsc_tensor *x = call->in[0], *target = call->in[1];
    size_t bytes = sizeof *x->shape * (size_t)x->data.ndim;
    if (x->data.ndim != target->data.ndim || memcmp(x->shape, target->shape, bytes) != 0)
        return gsc_fail(GSC_ERR_VALUE, "gsc_mse_loss: x has shape %s, target %s; they must be equal",
                        gsc__tensor_shape_text(x).text, gsc__tensor_shape_text(target).text);
    return gsc__check_one_float(call);
}

static double squares_block(const void *ctx, size_t block)
{
    const gsc__node *node = ctx;
    const gsc_tensor *x = node->in[0], *target = node->in[1];
    double strip_x[GSC_STRIP], strip_t[GSC_STRIP], square[GSC_STRIP];
    size_t end = block * GSC_BLOCK + gsc__block_length(x->count, block);
    double sum = 0;
    for (size_t first = block * GSC_BLOCK; first < end; first += GSC_STRIP) {
        size_t n = end - first < GSC_STRIP ? end - first : GSC_STRIP;
        const double *a = gsc__load_f64(x->kind, x->data.data, first, n, strip_x);
        const double *b = gsc__load_f64(target->kind, target->data.data, first, n, strip_t);
        for (size_t i = 0; i < n; i++)
            square[i] = (a[i] - b[i]) * (a[i] - b[i]);
        sum += gsc__sum_run(GSC_F64, square, 0, n);
    }
    return sum;
}

static gsc_status store_mean(const gsc__node *node, gsc_tape *tape, size_t blocks, gsc__block_sum *block_sum, double n)
{
    double sum;
    gsc_status status = gsc__sum_blocks(tape, blocks, block_sum, node, &sum);
    if (status != GSC_OK)
        return status;
    double mean = sum / n;
    gsc__convert(GSC_F64, &mean, node->out->kind, node->out->data.data, 1);
    return GSC_OK;
}

static double gradient_of_result(const gsc__node *node)
{
    double gradient;
    gsc__convert(node->out->kind, node->out->grad.data, GSC_F64, &gradient, 1);
    return gradient;
}

gsc_status gsc__op_mse_loss_forward(const gsc__node *node, gsc_tape *tape)
{
    size_t n = node->in[0]->count;
    return store_mean(node, tape, gsc__blocks(n), squares_block, (double)n);
}

typedef struct loss_gradient {
    const gsc__node *node;
    double factor;
    void *const *grads;
} loss_gradient;

static void mse_gradient_block(void *ctx, size_t block)
{
    const loss_gradient *job = ctx;
    const gsc_tensor *x = job->node->in[0], *target = job->node->in[1];
    double strip_x[GSC_STRIP], strip_t[GSC_STRIP], gradient[GSC_STRIP];
    size_t end = block * GSC_BLOCK + gsc__block_length(x->count, block);
    for (size_t first = block * GSC_BLOCK; first < end; first += GSC_STRIP) {
        size_t n = end - first < GSC_STRIP ? end - first : GSC_STRIP;
        const double *a = gsc__load_f64(x->kind, x->data.data, first, n, strip_x);
        const double *b = gsc__load_f64(target->kind, target->data.data, first, n, strip_t);
        for (size_t i = 0; i < n; i++)
            gradient[i] = (a[i] - b[i]) * job->factor;
        if (job->grads[0])
            gsc__convert(GSC_F64, gradient, x->kind, gsc__at_mutable(x->kind, job->grads[0], first), n);
        for (size_t i = 0; i < n; i++)
            gradient[i] = -gradient[i];
        if (job->grads[1])
            gsc__convert(GSC_F64, gradient, x->kind, gsc__at_mutable(x->kind, job->grads[1], first), n);
    }
}

gsc_status gsc__op_mse_loss_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    (void)tape;
    size_t n = node->in[0]->count;
    loss_gradient job = {.node = node, .factor = 2.0 * gradient_of_result(node) / (double)n, .grads = grads};
    gsc_parallel_run(gsc__blocks(n), mse_gradient_block, &job);
    return GSC_OK;
}

static gsc_status check_labels(const gsc_tensor *labels, int64_t classes)
{
    const int64_t *label = labels->data.data;
    for (size_t i = 0; i < labels->count; i++)
        if (label[i] < 0 || label[i] >= classes)
            return gsc_fail(GSC_ERR_VALUE,
                            "gsc_cross_entropy_loss: labels[%zu] is %" PRId64
                            ", allowed are numbers from 0 and below %" PRId64 ", the number of classes in logits",
                            i, label[i], classes);
    return GSC_OK;
}

gsc_status gsc__op_cross_entropy_loss_check(gsc__call *call)
{
    const gsc_tensor *logits = call->in[0], *labels = call->in[1];
    if (!gsc__kind_is_float(logits->kind))
        return gsc_fail(GSC_ERR_VALUE, "gsc_cross_entropy_loss: logits is int64, a floating-point dtype is needed");
    if (labels->kind != GSC_I64)
        return gsc_fail(GSC_ERR_VALUE, "gsc_cross_entropy_loss: labels is %s, int64 is needed",
                        gsc__kind_name(labels->kind));
    if (logits->data.ndim != 2 || labels->data.ndim != 1 || logits->shape[0] != labels->shape[0])
        return gsc_fail(GSC_ERR_VALUE,
                        "gsc_cross_entropy_loss: logits has shape %s, labels %s; they must be [m, classes] and [m]",
                        gsc__tensor_shape_text(logits).text, gsc__tensor_shape_text(labels).text);
    call->kind = call->kinds[0];
    call->saved_bytes = (size_t)logits->shape[0] * sizeof(double);
    return check_labels(labels, logits->shape[1]);
}

/* Blocks of whole rows, about GSC_BLOCK elements each. */
static size_t rows_per_block(const gsc_tensor *logits)
{
    size_t classes = (size_t)logits->shape[1];
    return classes == 0 || classes >= GSC_BLOCK ? 1 : GSC_BLOCK / classes;
}

static size_t row_blocks(const gsc_tensor *logits)
{
    size_t rows = (size_t)logits->shape[0], each = rows_per_block(logits);
    return rows / each + (rows % each != 0);
}

static double row_max(const gsc_tensor *logits, size_t row)
{
    double strip[GSC_STRIP], max = -INFINITY;
    size_t classes = (size_t)logits->shape[1];
    for (size_t c = 0; c < classes; c += GSC_STRIP) {
        size_t n = classes - c < GSC_STRIP ? classes - c : GSC_STRIP;
        const double *values = gsc__load_f64(logits->kind, logits->data.data, row * classes + c, n, strip);
        for (size_t i = 0; i < n; i++)
            max = values[i] > max || values[i] != values[i] ? values[i] : max;
    }
    return max;
}

/* log(sum(exp(x))) = max + log(sum(exp(x - max))): no exponential overflows, and one of them is 1. */
static double log_sum_exp(const gsc_tensor *logits, size_t row)
{
    double strip[GSC_STRIP], terms[GSC_STRIP], sum = 0, max = row_max(logits, row);
    size_t classes = (size_t)logits->shape[1];
    for (size_t c = 0; c < classes; c += GSC_STRIP) {
        size_t n = classes - c < GSC_STRIP ? classes - c : GSC_STRIP;
        const double *values = gsc__load_f64(logits->kind, logits->data.data, row * classes + c, n, strip);
        for (size_t i = 0; i < n; i++)
            terms[i] = exp(values[i] - max);
        sum += gsc__sum_run(GSC_F64, terms, 0, n);
    }
    /* cppcheck-suppress invalidFunctionArg ; there is a class, so sum is at least 1 */
    return max + log(sum);
}

static double cross_entropy_block(const void *ctx, size_t block)
{
    const gsc__node *node = ctx;
    const gsc_tensor *logits = node->in[0];
    const int64_t *labels = node->in[1]->data.data;
    double *row_log_sum = node->saved;
    size_t rows = (size_t)logits->shape[0], each = rows_per_block(logits);
    size_t first = block * each, end = rows - first < each ? rows : first + each;
    double sum = 0, strip[GSC_STRIP];
    for (size_t row = first; row < end; row++) {
        size_t picked = row * (size_t)logits->shape[1] + (size_t)labels[row];
        row_log_sum[row] = log_sum_exp(logits, row);
        sum += row_log_sum[row] - *gsc__load_f64(logits->kind, logits->data.data, picked, 1, strip);
    }
    return sum;
}

gsc_status gsc__op_cross_entropy_loss_forward(const gsc__node *node, gsc_tape *tape)
{
    const gsc_tensor *logits = node->in[0];
    return store_mean(node, tape, row_blocks(logits), cross_entropy_block, (double)logits->shape[0]);
}

/* (softmax(logits) - onehot(label)) * factor */
static void cross_entropy_gradient_block(void *ctx, size_t block)
{
    const loss_gradient *job = ctx;
    const gsc_tensor *logits = job->node->in[0];
    const int64_t *labels = job->node->in[1]->data.data;
    const double *row_log_sum = job->node->saved;
    size_t rows = (size_t)logits->shape[0], classes = (size_t)logits->shape[1], each = rows_per_block(logits);
    size_t first = block * each, end = rows - first < each ? rows : first + each;
    double strip[GSC_STRIP], gradient[GSC_STRIP];
    for (size_t row = first; row < end; row++) {
        for (size_t c = 0; c < classes; c += GSC_STRIP) {
            size_t n = classes - c < GSC_STRIP ? classes - c : GSC_STRIP;
            size_t at = row * classes + c;
            const double *values = gsc__load_f64(logits->kind, logits->data.data, at, n, strip);
            for (size_t i = 0; i < n; i++) {
                double probability = exp(values[i] - row_log_sum[row]);
                gradient[i] = (probability - (c + i == (size_t)labels[row] ? 1.0 : 0.0)) * job->factor;
            }
            gsc__convert(GSC_F64, gradient, logits->kind, gsc__at_mutable(logits->kind, job->grads[0], at), n);
        }
    }
}

gsc_status gsc__op_cross_entropy_loss_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    (void)tape;
    const gsc_tensor *logits = node->in[0];
    loss_gradient job = {.node = node, .factor = gradient_of_result(node) / (double)logits->shape[0], .grads = grads};
    gsc_parallel_run(row_blocks(logits), cross_entropy_gradient_block, &job);
    return GSC_OK;
}
