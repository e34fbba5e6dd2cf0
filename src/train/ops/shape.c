/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: the op that changes the shape alone: reshape. */
#include <inttypes.h>
#include <string.h>

#include "train/ops/op_list.h"

gsc_status gsc__op_reshape_check(gsc__call *call)
{
    const gsc_tensor *x = call->in[0];
    call->out_kind = x->kind;
    int32_t unknown = -1;
    int64_t known = 1; /* product of the given sizes; stops growing past the count: then it cannot match */
    bool fits = true;
    for (int32_t d = 0; d < call->ndim; d++) {
        if (call->shape[d] == -1 && unknown < 0) {
            unknown = d;
        } else if (call->shape[d] < 0) {
            return gsc_fail(GSC_ERR_VALUE,
                            "gsc_reshape: shape[%d] is %" PRId64 "; sizes must be 0 or more, and one may be -1", (int)d,
                            call->shape[d]);
        } else if (known > 0 && call->shape[d] > INT64_MAX / known) {
            fits = false;
        } else {
            known *= call->shape[d];
        }
    }
    int64_t count = (int64_t)x->count;
    fits = fits || known == 0;
    if (fits && unknown >= 0 && known > 0 && count % known == 0)
        call->shape[unknown] = count / known;
    else if (!fits || unknown >= 0 || known != count)
        return gsc_fail(GSC_ERR_VALUE,
                        "gsc_reshape: x of shape %s has %" PRId64 " elements, which shape %s cannot hold",
                        gsc__tensor_shape_text(x).text, count, gsc__shape_print(call->ndim, call->shape).text);
    return GSC_OK;
}

gsc_status gsc__op_reshape_forward(const gsc__node *node, gsc_tape *tape)
{
    (void)tape;
    memcpy(node->out->data.data, node->in[0]->data.data, gsc__tensor_bytes(node->out));
    return GSC_OK;
}

gsc_status gsc__op_reshape_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    (void)tape;
    memcpy(grads[0], node->out->grad.data, gsc__tensor_bytes(node->out));
    return GSC_OK;
}
