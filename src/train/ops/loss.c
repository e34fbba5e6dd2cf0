/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c: the losses, computed in float64 for every dtype and rounded once. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/try.h"
#include "gradscaler/runtime.h"
#include "train/ops/op_list.h"
#include "train/ops/reduce.h"
#include "train/tape/check.h"
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

/* A strip of x and target as float64: the tensors' own elements, or copies. */
typedef struct operands {
    const double *x, *target;
    double x_copy[GSC_STRIP], target_copy[GSC_STRIP];
} operands;

static void load_operands(const gsc__node *node, size_t first, size_t n, operands *loaded)
{
    const gsc_tensor *x = node->in[0], *target = node->in[1];
    loaded->x = gsc__load_f64(x->kind, x->data.data, first, n, loaded->x_copy);
    loaded->target = gsc__load_f64(target->kind, target->data.data, first, n, loaded->target_copy);
}

static double squares_part(const void *ctx, size_t index)
{
    const gsc__node *node = ctx;
    operands strip;
    double square[GSC_STRIP], sum = 0;
    gsc__range part = gsc__part(node->in[0]->count, GSC_TASK_ELEMENTS, index);
    for (size_t first = part.first; first < part.end; first += GSC_STRIP) {
        size_t n = gsc__strip_length(first, part.end);
        load_operands(node, first, n, &strip);
        for (size_t i = 0; i < n; i++)
            square[i] = (strip.x[i] - strip.target[i]) * (strip.x[i] - strip.target[i]);
        sum += gsc__sum_run(GSC_F64, square, 0, n);
    }
    return sum;
}

static gsc_status store_mean(const gsc__node *node, gsc_tape *tape, size_t parts, gsc__part_sum *part_sum, double n)
{
    double sum;
    GSC_TRY(gsc__sum_parts(tape, parts, part_sum, node, &sum));
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
    return store_mean(node, tape, gsc__parts(n, GSC_TASK_ELEMENTS), squares_part, (double)n);
}

typedef struct loss_gradient {
    const gsc__node *node;
    double factor;
    void *const *grads;
} loss_gradient;

static void mse_gradient_task(void *ctx, size_t index)
{
    const loss_gradient *job = ctx;
    const gsc_tensor *x = job->node->in[0];
    operands strip;
    double gradient[GSC_STRIP];
    gsc__range part = gsc__part(x->count, GSC_TASK_ELEMENTS, index);
    for (size_t first = part.first; first < part.end; first += GSC_STRIP) {
        size_t n = gsc__strip_length(first, part.end);
        load_operands(job->node, first, n, &strip);
        for (size_t i = 0; i < n; i++)
            gradient[i] = (strip.x[i] - strip.target[i]) * job->factor;
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
    gsc_parallel_run(gsc__parts(n, GSC_TASK_ELEMENTS), mse_gradient_task, &job);
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
    call->out_kind = call->in_kinds[0];
    call->saved_bytes = (size_t)logits->shape[0] * sizeof(double);
    return check_labels(labels, logits->shape[1]);
}

/* A task works on whole rows, on about GSC_TASK_ELEMENTS elements. */
static size_t rows_per_task(const gsc_tensor *logits)
{
    size_t classes = (size_t)logits->shape[1];
    return classes == 0 || classes >= GSC_TASK_ELEMENTS ? 1 : GSC_TASK_ELEMENTS / classes;
}

static size_t row_tasks(const gsc_tensor *logits)
{
    return gsc__parts((size_t)logits->shape[0], rows_per_task(logits));
}

static gsc__range task_rows(const gsc_tensor *logits, size_t index)
{
    return gsc__part((size_t)logits->shape[0], rows_per_task(logits), index);
}

static double row_max(const gsc_tensor *logits, size_t row)
{
    double strip[GSC_STRIP], max = -INFINITY;
    size_t classes = (size_t)logits->shape[1];
    for (size_t c = 0; c < classes; c += GSC_STRIP) {
        size_t n = gsc__strip_length(c, classes);
        const double *values = gsc__load_f64(logits->kind, logits->data.data, row * classes + c, n, strip);
        for (size_t i = 0; i < n; i++)
            max = values[i] > max || values[i] != values[i] ? values[i] : max;
    }
    return max;
}

/* log(sum(exp(x))) = max + log(sum(exp(x - max))): no exponential overflows, and the largest is 1. */
static double log_sum_exp(const gsc_tensor *logits, size_t row)
{
    double strip[GSC_STRIP], terms[GSC_STRIP], sum = 0, max = row_max(logits, row);
    size_t classes = (size_t)logits->shape[1];
    for (size_t c = 0; c < classes; c += GSC_STRIP) {
        size_t n = gsc__strip_length(c, classes);
        const double *values = gsc__load_f64(logits->kind, logits->data.data, row * classes + c, n, strip);
        for (size_t i = 0; i < n; i++)
            terms[i] = exp(values[i] - max);
        sum += gsc__sum_run(GSC_F64, terms, 0, n);
    }
    /* cppcheck-suppress invalidFunctionArg ; there is a class, so sum is at least 1 */
    return max + log(sum);
}

static double cross_entropy_part(const void *ctx, size_t index)
{
    const gsc__node *node = ctx;
    const gsc_tensor *logits = node->in[0];
    const int64_t *labels = node->in[1]->data.data;
    double *row_log_sum = node->saved;
    gsc__range rows = task_rows(logits, index);
    double sum = 0, strip[GSC_STRIP];
    for (size_t row = rows.first; row < rows.end; row++) {
        size_t picked = row * (size_t)logits->shape[1] + (size_t)labels[row];
        row_log_sum[row] = log_sum_exp(logits, row);
        sum += row_log_sum[row] - *gsc__load_f64(logits->kind, logits->data.data, picked, 1, strip);
    }
    return sum;
}

gsc_status gsc__op_cross_entropy_loss_forward(const gsc__node *node, gsc_tape *tape)
{
    const gsc_tensor *logits = node->in[0];
    return store_mean(node, tape, row_tasks(logits), cross_entropy_part, (double)logits->shape[0]);
}

/* (softmax(logits) - onehot(label)) * factor */
static void cross_entropy_gradient_task(void *ctx, size_t index)
{
    const loss_gradient *job = ctx;
    const gsc_tensor *logits = job->node->in[0];
    const int64_t *labels = job->node->in[1]->data.data;
    const double *row_log_sum = job->node->saved;
    size_t classes = (size_t)logits->shape[1];
    gsc__range rows = task_rows(logits, index);
    double strip[GSC_STRIP], gradient[GSC_STRIP];
    for (size_t row = rows.first; row < rows.end; row++) {
        for (size_t c = 0; c < classes; c += GSC_STRIP) {
            size_t n = gsc__strip_length(c, classes);
            size_t position = row * classes + c;
            const double *values = gsc__load_f64(logits->kind, logits->data.data, position, n, strip);
            for (size_t i = 0; i < n; i++) {
                double probability = exp(values[i] - row_log_sum[row]);
                gradient[i] = (probability - (c + i == (size_t)labels[row] ? 1.0 : 0.0)) * job->factor;
            }
            gsc__convert(GSC_F64, gradient, logits->kind, gsc__at_mutable(logits->kind, job->grads[0], position), n);
        }
    }
}

gsc_status gsc__op_cross_entropy_loss_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    (void)tape;
    const gsc_tensor *logits = node->in[0];
    loss_gradient job = {.node = node, .factor = gradient_of_result(node) / (double)logits->shape[0], .grads = grads};
    gsc_parallel_run(row_tasks(logits), cross_entropy_gradient_task, &job);
    return GSC_OK;
}
