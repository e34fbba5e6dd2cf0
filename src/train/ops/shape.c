/* SPDX-License-Identifier: Apache-2.0 */
/* ops_shape.c: what keeps the elements: cast, reshape, and scale_loss, which multiplies them by one number. */
#include <inttypes.h>
#include <string.h>

#include "train/tape/tape.h"
#include "train/tensor/convert.h"

gsc_status gsc__op_cast_check(gsc__call *call)
{
    const gsc_tensor *x = call->in[0];
    if (!gsc__kind_is_float(x->kind))
        return gsc_fail(GSC_ERR_VALUE, "gsc_cast: x is int64, a floating-point dtype is needed");
    call->ndim = x->data.ndim;
    memcpy(call->shape, x->shape, sizeof call->shape);
    return GSC_OK;
}

gsc_status gsc__op_cast_forward(const gsc__node *node, gsc_tape *tape)
{
    (void)tape;
    const gsc_tensor *x = node->in[0], *out = node->out;
    gsc__convert_all(x->kind, x->data.data, out->kind, out->data.data, x->count);
    return GSC_OK;
}

gsc_status gsc__op_cast_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS])
{
    (void)tape;
    const gsc_tensor *x = node->in[0], *out = node->out;
    gsc__convert_all(out->kind, out->grad.data, x->kind, grads[0], x->count);
    return GSC_OK;
}

gsc_status gsc__op_reshape_check(gsc__call *call)
{
    const gsc_tensor *x = call->in[0];
    call->kind = x->kind;
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

/* A half loss becomes float32: the scaled one would not fit. */
gsc_status gsc__op_scale_loss_check(gsc__call *call)
{
    gsc_status status = gsc__check_one_float(call);
    if (status != GSC_OK)
        return status;
    const gsc_tensor *loss = call->in[0];
    call->kind = loss->kind == GSC_F64 ? GSC_F64 : GSC_F32;
    call->ndim = loss->data.ndim;
    memcpy(call->shape, loss->shape, sizeof call->shape);
    return GSC_OK;
}

/* The product is exact or once rounded in float64, then rounded to the target: for float32 that is as if rounded once,
 * since float64 has more than twice its digits. */
static void multiply(gsc__kind from, const void *src, double factor, gsc__kind to, void *dst, size_t count)
{
    double strip[GSC_STRIP], product[GSC_STRIP];
    for (size_t first = 0; first < count; first += GSC_STRIP) {
        size_t n = count - first < GSC_STRIP ? count - first : GSC_STRIP;
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
