/* SPDX-License-Identifier: Apache-2.0 */
/* scale_loss.c: the loss times the scaler's scale. */
#include "base/try.h"
#include "train/ops/op_list.h"
#include "train/tape/check.h"
#include "train/tensor/convert.h"

/* A float16 or bfloat16 loss becomes float32, which the scaled loss fits into. */
gsc_status gsc__op_scale_loss_check(gsc__call *call)
{
    GSC_TRY(gsc__check_one_float(call));
    call->out_kind = call->out_kind == GSC_F64 ? GSC_F64 : GSC_F32;
    gsc__keep_shape(call);
    return GSC_OK;
}

/* The product is formed in float64 and rounded to the target. For float32 that is the same as rounding once, because
 * float64 has more than twice as many digits. */
static void multiply(gsc__kind from, const void *src, double factor, gsc__kind to, void *dst, size_t count)
{
    double strip[GSC_STRIP], product[GSC_STRIP];
    for (size_t first = 0; first < count; first += GSC_STRIP) {
        size_t n = gsc__strip_length(first, count);
        const double *values = gsc__load_f64(from, src, first, n, strip);
        for (size_t i = 0; i < n; i++)
            product[i] = values[i] * factor;
        gsc__convert(GSC_F64, product, to, gsc__at_mutable(to, dst, first), n);
    }
}

gsc_status gsc__op_scale_loss_forward(const gsc__node *node, gsc_tape *tape)
{
    (void)tape;
    const gsc_tensor *loss = node->in[0], *out = node->out;
    multiply(loss->kind, loss->data.data, node->factor, out->kind, out->data.data, loss->count);
    return GSC_OK;
}

gsc_status gsc__op_scale_loss_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    (void)tape;
    const gsc_tensor *loss = node->in[0], *out = node->out;
    multiply(out->kind, out->grad.data, node->factor, loss->kind, grads[0], loss->count);
    return GSC_OK;
}
