/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.c: add, mul, relu, tanh. float16 and bfloat16 are computed in float32 and rounded once. */
#include <math.h>

#include "base/try.h"
#include "gradscaler/runtime.h"
#include "train/ops/broadcast.h"
#include "train/ops/op_list.h"
#include "train/tape/check.h"
#include "train/tape/tape.h"
#include "train/tensor/convert.h"

#define REAL float
#define NAME(f) f##_f32
#define TANH tanhf
#include "train/ops/elementwise_loops.h"

#define REAL double
#define NAME(f) f##_f64
#define TANH tanh
#include "train/ops/elementwise_loops.h"

typedef struct kernel {
    void (*f32)(size_t n, const float *a, const float *b, float *out);
    void (*f64)(size_t n, const double *a, const double *b, double *out);
} kernel;

static const kernel add_kernel = {add_f32, add_f64};
static const kernel mul_kernel = {mul_f32, mul_f64};
static const kernel relu_kernel = {relu_f32, relu_f64};
static const kernel relu_gradient_kernel = {relu_gradient_f32, relu_gradient_f64};
static const kernel tanh_kernel = {tanh_f32, tanh_f64};
static const kernel tanh_gradient_kernel = {tanh_gradient_f32, tanh_gradient_f64};

typedef struct elementwise {
    kernel kernel;
    gsc__broadcast_view a, b; /* b.data NULL: none */
    void *out;                /* of the operands' dtype */
    size_t n;
} elementwise;

static void elementwise_task(void *ctx, size_t index)
{
    const elementwise *job = ctx;
    gsc__kind kind = job->a.kind;
    gsc__kind compute = kind == GSC_F64 ? GSC_F64 : GSC_F32;
    double strip_a[GSC_STRIP], strip_b[GSC_STRIP], strip_out[GSC_STRIP];
    gsc__range part = gsc__part(job->n, GSC_TASK_ELEMENTS, index);
    for (size_t first = part.first; first < part.end; first += GSC_STRIP) {
        size_t n = gsc__strip_length(first, part.end);
        const void *a = gsc__broadcast_load(&job->a, first, n, compute, strip_a);
        const void *b = job->b.data ? gsc__broadcast_load(&job->b, first, n, compute, strip_b) : NULL;
        void *stored = gsc__at_mutable(kind, job->out, first);
        void *out = kind == compute ? stored : strip_out;
        if (compute == GSC_F64)
            job->kernel.f64(n, a, b, out);
        else
            job->kernel.f32(n, a, b, out);
        if (out != stored)
            gsc__convert(compute, out, kind, stored, n);
    }
}

static void run(kernel chosen, gsc__broadcast_view a, gsc__broadcast_view b, void *out, size_t n)
{
    elementwise job = {.kernel = chosen, .a = a, .b = b, .out = out, .n = n};
    gsc_parallel_run(gsc__parts(n, GSC_TASK_ELEMENTS), elementwise_task, &job);
}

/* All n elements in order. */
static gsc__broadcast_view flat(gsc__kind kind, const void *data, size_t n)
{
    return (gsc__broadcast_view){.data = data, .kind = kind, .ndim = 1, .size = {(int64_t)n}, .stride = {1}};
}

static gsc_status check_broadcast(gsc__call *call)
{
    GSC_TRY(gsc__check_one_float(call));
    return gsc__broadcast_shape(call);
}

static gsc_status binary_forward(const gsc__node *node, kernel chosen)
{
    const gsc_tensor *out = node->out;
    run(chosen, gsc__broadcast_view_of(node->in[0], out), gsc__broadcast_view_of(node->in[1], out), out->data.data,
        out->count);
    return GSC_OK;
}

gsc_status gsc__op_add_check(gsc__call *call) { return check_broadcast(call); }

gsc_status gsc__op_add_forward(const gsc__node *node, gsc_tape *tape)
{
    (void)tape;
    return binary_forward(node, add_kernel);
}

gsc_status gsc__op_add_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    for (int i = 0; i < 2; i++)
        if (grads[i])
            GSC_TRY(gsc__broadcast_sum(tape, node->out, node->out->grad.data, node->in[i], grads[i]));
    return GSC_OK;
}

gsc_status gsc__op_mul_check(gsc__call *call) { return check_broadcast(call); }

gsc_status gsc__op_mul_forward(const gsc__node *node, gsc_tape *tape)
{
    (void)tape;
    return binary_forward(node, mul_kernel);
}

/* The products are stored in the dtype before they are summed, as a device does. */
static gsc_status mul_gradient(const gsc__node *node, gsc_tape *tape, int i, void *grad)
{
    const gsc_tensor *in = node->in[i], *out = node->out;
    bool summed = in->count != out->count;
    void *products = summed ? gsc__tape_scratch(tape, out->count, out->kind) : grad;
    if (!products)
        return GSC_ERR_MEMORY;
    run(mul_kernel, flat(out->kind, out->grad.data, out->count), gsc__broadcast_view_of(node->in[1 - i], out), products,
        out->count);
    return summed ? gsc__broadcast_sum(tape, out, products, in, grad) : GSC_OK;
}

gsc_status gsc__op_mul_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    for (int i = 0; i < 2; i++)
        if (grads[i])
            GSC_TRY(mul_gradient(node, tape, i, grads[i]));
    return GSC_OK;
}

static gsc_status check_unary(gsc__call *call)
{
    gsc__keep_shape(call);
    return gsc__check_one_float(call);
}

static gsc_status unary_forward(const gsc__node *node, kernel chosen)
{
    const gsc_tensor *x = node->in[0];
    run(chosen, flat(x->kind, x->data.data, x->count), (gsc__broadcast_view){.data = NULL}, node->out->data.data,
        x->count);
    return GSC_OK;
}

/* The gradient from the result's and `values`, which are those of x or of the result. */
static gsc_status unary_backward(const gsc__node *node, kernel chosen, const gsc_tensor *values, void *grad)
{
    run(chosen, flat(values->kind, values->data.data, values->count),
        flat(values->kind, node->out->grad.data, values->count), grad, values->count);
    return GSC_OK;
}

gsc_status gsc__op_relu_check(gsc__call *call) { return check_unary(call); }

gsc_status gsc__op_relu_forward(const gsc__node *node, gsc_tape *tape)
{
    (void)tape;
    return unary_forward(node, relu_kernel);
}

gsc_status gsc__op_relu_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    (void)tape;
    return unary_backward(node, relu_gradient_kernel, node->in[0], grads[0]);
}

gsc_status gsc__op_tanh_check(gsc__call *call) { return check_unary(call); }

gsc_status gsc__op_tanh_forward(const gsc__node *node, gsc_tape *tape)
{
    (void)tape;
    return unary_forward(node, tanh_kernel);
}

gsc_status gsc__op_tanh_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    (void)tape;
    return unary_backward(node, tanh_gradient_kernel, node->out, grads[0]);
}
