/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: what the check functions of several ops need. */
#include "train/tape/check.h"

#include <string.h>

gsc_status gsc__check_one_float(gsc__call *call)
{
    const gsc__op *op = call->op;
    for (int i = 0; i < op->inputs; i++) {
        if (!call->in[i])
            continue;
        if (!gsc__kind_is_float(call->in_kinds[i]))
            return gsc_fail(GSC_ERR_VALUE, "%s: %s is int64, a floating-point dtype is needed", op->name,
                            op->operands[i]);
        if (call->in_kinds[i] != call->in_kinds[0])
            return gsc_fail(GSC_ERR_VALUE, "%s: %s is %s but %s is %s; they must be equal: use gsc_cast", op->name,
                            op->operands[0], gsc__kind_name(call->in_kinds[0]), op->operands[i],
                            gsc__kind_name(call->in_kinds[i]));
    }
    call->out_kind = call->in_kinds[0];
    return GSC_OK;
}

void gsc__keep_shape(gsc__call *call)
{
    const gsc_tensor *x = call->in[0];
    call->ndim = x->data.ndim;
    memcpy(call->shape, x->shape, sizeof call->shape);
}
