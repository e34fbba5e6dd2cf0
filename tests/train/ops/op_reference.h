/* SPDX-License-Identifier: Apache-2.0 */
/* op_reference.h: each op in plain double loops, to compare the real ones with. Every op of op_list.h needs one here:
 * without it the tests do not compile. */
#ifndef GSC_TESTS_OP_REFERENCE_H
#define GSC_TESTS_OP_REFERENCE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ref_tensor {
    int ndim;
    int64_t shape[8];
    size_t count;
    double *v;
} ref_tensor;

enum { REFERENCE_FACTOR = 8 }; /* of scale_loss */

/* The element of a broadcast operand that element `index` of the result uses. */
static size_t broadcast_index(const ref_tensor *in, const ref_tensor *out, size_t index)
{
    size_t offset = 0, step = 1;
    for (int d_out = out->ndim - 1, d_in = in->ndim - 1; d_in >= 0; d_out--, d_in--) {
        size_t coordinate = index % (size_t)out->shape[d_out];
        index /= (size_t)out->shape[d_out];
        offset += in->shape[d_in] == 1 ? 0 : coordinate * step;
        step *= (size_t)in->shape[d_in];
    }
    return offset;
}

static void reference_add(const ref_tensor *in, ref_tensor *out)
{
    for (size_t i = 0; i < out->count; i++)
        out->v[i] = in[0].v[broadcast_index(&in[0], out, i)] + in[1].v[broadcast_index(&in[1], out, i)];
}

static void reference_mul(const ref_tensor *in, ref_tensor *out)
{
    for (size_t i = 0; i < out->count; i++)
        out->v[i] = in[0].v[broadcast_index(&in[0], out, i)] * in[1].v[broadcast_index(&in[1], out, i)];
}

static void reference_matmul(const ref_tensor *in, ref_tensor *out)
{
    size_t k = (size_t)in[0].shape[1], n = (size_t)in[1].shape[1];
    for (size_t i = 0; i < out->count; i++) {
        out->v[i] = 0;
        for (size_t p = 0; p < k; p++)
            out->v[i] += in[0].v[i / n * k + p] * in[1].v[p * n + i % n];
    }
}

static void reference_linear(const ref_tensor *in, ref_tensor *out)
{
    size_t k = (size_t)in[0].shape[1], n = (size_t)in[1].shape[0];
    for (size_t i = 0; i < out->count; i++) {
        out->v[i] = in[2].v ? in[2].v[i % n] : 0;
        for (size_t p = 0; p < k; p++)
            out->v[i] += in[0].v[i / n * k + p] * in[1].v[i % n * k + p];
    }
}

static void reference_relu(const ref_tensor *in, ref_tensor *out)
{
    for (size_t i = 0; i < out->count; i++)
        out->v[i] = fmax(in->v[i], 0);
}

static void reference_tanh(const ref_tensor *in, ref_tensor *out)
{
    for (size_t i = 0; i < out->count; i++)
        out->v[i] = tanh(in->v[i]);
}

static void reference_cast(const ref_tensor *in, ref_tensor *out)
{
    for (size_t i = 0; i < out->count; i++)
        out->v[i] = in->v[i];
}

static void reference_reshape(const ref_tensor *in, ref_tensor *out) { reference_cast(in, out); }

static void reference_sum(const ref_tensor *in, ref_tensor *out)
{
    out->v[0] = 0;
    for (size_t i = 0; i < in->count; i++)
        out->v[0] += in->v[i];
}

static void reference_mean(const ref_tensor *in, ref_tensor *out)
{
    reference_sum(in, out);
    out->v[0] /= (double)in->count;
}

static void reference_mse_loss(const ref_tensor *in, ref_tensor *out)
{
    out->v[0] = 0;
    for (size_t i = 0; i < in->count; i++)
        out->v[0] += pow(in[0].v[i] - in[1].v[i], 2) / (double)in->count;
    out->v[0] = in->count == 0 ? NAN : out->v[0];
}

static void reference_cross_entropy_loss(const ref_tensor *in, ref_tensor *out)
{
    size_t rows = (size_t)in[0].shape[0], classes = (size_t)in[0].shape[1];
    double sum = 0;
    for (size_t row = 0; row < rows; row++) {
        double total = 0;
        for (size_t c = 0; c < classes; c++)
            total += exp(in[0].v[row * classes + c]);
        sum -= log(exp(in[0].v[row * classes + (size_t)in[1].v[row]]) / total);
    }
    out->v[0] = sum / (double)rows;
}

static void reference_scale_loss(const ref_tensor *in, ref_tensor *out)
{
    for (size_t i = 0; i < out->count; i++)
        out->v[i] = in->v[i] * (double)REFERENCE_FACTOR;
}

#endif
