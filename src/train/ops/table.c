/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: the table of all ops, and the public functions that call them. */
#include <string.h>

#include "gradscaler/ops.h"
#include "train/ops/op_list.h"
#include "train/tape/apply.h"
#include "train/tape/chain.h"

#define TABLE_ENTRY(op, ...) [GSC_OP_##op] = GSC_OP_STRUCT(op, __VA_ARGS__),
const gsc__op gsc__op_table[GSC_OP_COUNT] = {GSC_OPS(TABLE_ENTRY)};

static gsc_tensor *apply(int id, gsc_tensor *a, gsc_tensor *b, gsc_tensor *c)
{
    return gsc__chain_note(gsc__op_apply(&(gsc__call){.op = &gsc__op_table[id], .in = {a, b, c}}));
}

gsc_tensor *gsc_add(gsc_tensor *a, gsc_tensor *b) { return apply(GSC_OP_add, a, b, NULL); }

gsc_tensor *gsc_mul(gsc_tensor *a, gsc_tensor *b) { return apply(GSC_OP_mul, a, b, NULL); }

gsc_tensor *gsc_matmul(gsc_tensor *a, gsc_tensor *b) { return apply(GSC_OP_matmul, a, b, NULL); }

gsc_tensor *gsc__linear(gsc_tensor *x, gsc_tensor *weight, gsc_tensor *bias)
{
    return apply(GSC_OP_linear, x, weight, bias);
}

gsc_tensor *gsc_linear(gsc_tensor *x, gsc_tensor *weight, gsc_tensor *bias)
{
    bool bias_failed = !bias && gsc__chain_has_failed(); /* NULL is then taken for the result of the op that failed */
    gsc_tensor *out = gsc__linear(x, weight, bias);
    return bias_failed ? NULL : out;
}

gsc_tensor *gsc_relu(gsc_tensor *x) { return apply(GSC_OP_relu, x, NULL, NULL); }

gsc_tensor *gsc_tanh(gsc_tensor *x) { return apply(GSC_OP_tanh, x, NULL, NULL); }

gsc_tensor *gsc_sum(gsc_tensor *x) { return apply(GSC_OP_sum, x, NULL, NULL); }

gsc_tensor *gsc_mean(gsc_tensor *x) { return apply(GSC_OP_mean, x, NULL, NULL); }

gsc_tensor *gsc_mse_loss(gsc_tensor *x, gsc_tensor *target) { return apply(GSC_OP_mse_loss, x, target, NULL); }

gsc_tensor *gsc_cross_entropy_loss(gsc_tensor *logits, gsc_tensor *labels)
{
    return apply(GSC_OP_cross_entropy_loss, logits, labels, NULL);
}

static gsc_tensor *cast(gsc_tensor *x, DLDataType dtype)
{
    if (!x)
        return NULL;
    gsc__kind kind = gsc__kind_of(dtype);
    if (!gsc__kind_is_float(kind)) {
        gsc__refuse_dtype("gsc_cast", "dtype", dtype, GSC_FLOAT_NAMES);
        return NULL;
    }
    return gsc__op_apply(&(gsc__call){.op = &gsc__op_table[GSC_OP_cast], .in = {x}, .out_kind = kind});
}

gsc_tensor *gsc_cast(gsc_tensor *x, DLDataType dtype) { return gsc__chain_note(cast(x, dtype)); }

static gsc_tensor *reshape(gsc_tensor *x, int32_t ndim, const int64_t *shape)
{
    if (!x)
        return NULL;
    if (ndim < 0 || ndim > GSC_TENSOR_MAX_DIMS || (ndim > 0 && !shape)) {
        gsc_fail(GSC_ERR_VALUE, "gsc_reshape: ndim is %d with shape %s; allowed are 0 to %d, with a shape if not 0",
                 (int)ndim, shape ? "given" : "NULL", GSC_TENSOR_MAX_DIMS);
        return NULL;
    }
    gsc__call call = {.op = &gsc__op_table[GSC_OP_reshape], .in = {x}, .ndim = ndim};
    if (ndim > 0)
        memcpy(call.shape, shape, (size_t)ndim * sizeof *shape);
    return gsc__op_apply(&call);
}

gsc_tensor *gsc_reshape(gsc_tensor *x, int32_t ndim, const int64_t *shape)
{
    return gsc__chain_note(reshape(x, ndim, shape));
}

static gsc_tensor *scale_loss(gsc_scaler *scaler, gsc_tensor *loss)
{
    if (!loss)
        return NULL;
    if (!scaler) {
        gsc_fail(GSC_ERR_VALUE, "gsc_scale_loss: scaler is NULL");
        return NULL;
    }
    if (!gsc_scaler_is_enabled(scaler))
        return loss;
    double scale = gsc_scaler_get_scale(scaler);
    return gsc__op_apply(&(gsc__call){.op = &gsc__op_table[GSC_OP_scale_loss], .in = {loss}, .factor = scale});
}

gsc_tensor *gsc_scale_loss(gsc_scaler *scaler, gsc_tensor *loss) { return gsc__chain_note(scale_loss(scaler, loss)); }
