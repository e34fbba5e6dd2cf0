/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.c: matmul and linear. */
#include <inttypes.h>

#include "base/try.h"
#include "train/ops/broadcast.h"
#include "train/ops/gemm.h"
#include "train/ops/op_list.h"
#include "train/tape/check.h"

gsc_status gsc__op_matmul_check(gsc__call *call)
{
    const gsc_tensor *a = call->in[0], *b = call->in[1];
    if (a->data.ndim != 2 || b->data.ndim != 2 || a->shape[1] != b->shape[0])
        return gsc_fail(GSC_ERR_VALUE, "gsc_matmul: a has shape %s, b %s; they must be [m, k] and [k, n]",
                        gsc__tensor_shape_text(a).text, gsc__tensor_shape_text(b).text);
    call->ndim = 2;
    call->shape[0] = a->shape[0];
    call->shape[1] = b->shape[1];
    return gsc__check_one_float(call);
}

gsc_status gsc__op_matmul_forward(const gsc__node *node, gsc_tape *tape)
{
    const gsc_tensor *a = node->in[0], *b = node->in[1];
    gsc__gemm gemm = {.kind = a->kind, .m = a->shape[0], .n = b->shape[1], .k = a->shape[1]};
    return gsc__gemm_run(tape, gemm, a->data.data, b->data.data, NULL, node->out->data.data);
}

/* dA = dC B^T, dB = A^T dC */
gsc_status gsc__op_matmul_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    const gsc_tensor *a = node->in[0], *b = node->in[1], *c = node->out;
    gsc__gemm to_a = {.kind = a->kind, .transpose_b = true, .m = a->shape[0], .n = a->shape[1], .k = b->shape[1]};
    gsc__gemm to_b = {.kind = a->kind, .transpose_a = true, .m = b->shape[0], .n = b->shape[1], .k = a->shape[0]};
    if (grads[0])
        GSC_TRY(gsc__gemm_run(tape, to_a, c->grad.data, b->data.data, NULL, grads[0]));
    if (grads[1])
        GSC_TRY(gsc__gemm_run(tape, to_b, a->data.data, c->grad.data, NULL, grads[1]));
    return GSC_OK;
}

gsc_status gsc__op_linear_check(gsc__call *call)
{
    const gsc_tensor *x = call->in[0], *weight = call->in[1], *bias = call->in[2];
    if (x->data.ndim != 2 || weight->data.ndim != 2 || x->shape[1] != weight->shape[1])
        return gsc_fail(GSC_ERR_VALUE, "gsc_linear: x has shape %s, weight %s; they must be [m, in] and [out, in]",
                        gsc__tensor_shape_text(x).text, gsc__tensor_shape_text(weight).text);
    if (bias && (bias->data.ndim != 1 || bias->shape[0] != weight->shape[0]))
        return gsc_fail(GSC_ERR_VALUE, "gsc_linear: bias has shape %s; with weight %s it must be [%" PRId64 "]",
                        gsc__tensor_shape_text(bias).text, gsc__tensor_shape_text(weight).text, weight->shape[0]);
    call->ndim = 2;
    call->shape[0] = x->shape[0];
    call->shape[1] = weight->shape[0];
    return gsc__check_one_float(call);
}

gsc_status gsc__op_linear_forward(const gsc__node *node, gsc_tape *tape)
{
    const gsc_tensor *x = node->in[0], *weight = node->in[1], *bias = node->in[2];
    gsc__gemm gemm = {.kind = x->kind, .transpose_b = true, .m = x->shape[0], .n = weight->shape[0], .k = x->shape[1]};
    return gsc__gemm_run(tape, gemm, x->data.data, weight->data.data, bias ? bias->data.data : NULL,
                         node->out->data.data);
}

/* dx = dy W, dW = dy^T x, db = the sum of dy's rows */
gsc_status gsc__op_linear_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    const gsc_tensor *x = node->in[0], *weight = node->in[1], *bias = node->in[2], *y = node->out;
    gsc__gemm to_x = {.kind = x->kind, .m = x->shape[0], .n = x->shape[1], .k = weight->shape[0]};
    gsc__gemm to_weight = {
        .kind = x->kind, .transpose_a = true, .m = weight->shape[0], .n = weight->shape[1], .k = x->shape[0]};
    if (grads[0])
        GSC_TRY(gsc__gemm_run(tape, to_x, y->grad.data, weight->data.data, NULL, grads[0]));
    if (grads[1])
        GSC_TRY(gsc__gemm_run(tape, to_weight, y->grad.data, x->data.data, NULL, grads[1]));
    if (grads[2])
        GSC_TRY(gsc__broadcast_sum(tape, y, y->grad.data, bias, grads[2]));
    return GSC_OK;
}
