/* SPDX-License-Identifier: Apache-2.0 */
/* cast.c: the cast op: the same elements in another floating-point dtype, rounded once. */
#include "train/tape/cast.h"

#include "train/tape/check.h"
#include "train/tensor/convert.h"

const gsc__op gsc__cast_op = GSC_CAST_OP(GSC_OP_STRUCT);

gsc_status gsc__op_cast_check(gsc__call *call)
{
    if (!gsc__kind_is_float(call->in[0]->kind))
        return gsc_fail(GSC_ERR_VALUE, "gsc_cast: x is int64, a floating-point dtype is needed");
    gsc__keep_shape(call);
    return GSC_OK;
}

gsc_status gsc__op_cast_forward(const gsc__node *node, gsc_tape *tape)
{
    (void)tape;
    const gsc_tensor *x = node->in[0], *out = node->out;
    gsc__convert_parallel(x->kind, x->data.data, out->kind, out->data.data, x->count);
    return GSC_OK;
}

gsc_status gsc__op_cast_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    (void)tape;
    const gsc_tensor *x = node->in[0], *out = node->out;
    gsc__convert_parallel(out->kind, out->grad.data, x->kind, grads[0], x->count);
    return GSC_OK;
}
