/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/scale.h"

#include <stdio.h>
#include <string.h>

#include "base/fpenv.h"
#include "kernels/layout.h"
#include "kernels/overlap.h"

enum { CHUNK = 256 }; /* elements at a time; losses mostly have one */

/* Where a pair stands, in words: made only for a message, since scaling a loss costs less than printing. */
typedef struct pair_text {
    char text[64];
} pair_text;

static pair_text describe_pair(const gsc_place *pair)
{
    pair_text where;
    if (pair->listed)
        snprintf(where.text, sizeof where.text, "%s: pair %zu", pair->caller, pair->index);
    else
        snprintf(where.text, sizeof where.text, "%s", pair->caller);
    return where;
}

static gsc_status check_shapes(const DLTensor *in, const DLTensor *out, const gsc_place *pair)
{
    if (in->ndim != out->ndim)
        return gsc_fail(GSC_ERR_VALUE, "%s: in has ndim %d, out has %d; allowed is the same shape",
                        describe_pair(pair).text, (int)in->ndim, (int)out->ndim);
    for (int d = 0; d < in->ndim; d++)
        if (in->shape[d] != out->shape[d])
            return gsc_fail(GSC_ERR_VALUE, "%s: in has shape[%d] = %lld, out has %lld; allowed is the same shape",
                            describe_pair(pair).text, d, (long long)in->shape[d], (long long)out->shape[d]);
    return GSC_OK;
}

static bool is_wider(gsc_kind out, gsc_kind in)
{
    return (out == GSC_F32 || out == GSC_F64) && gsc_kind_size(out) > gsc_kind_size(in);
}

static gsc_status check_kinds(gsc_kind in, gsc_kind out, const gsc_place *pair)
{
    static const char *const names[GSC_KINDS] = {"float32", "float64", "bfloat16", "float16"};
    if (in == out || is_wider(out, in))
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: in is %s, out is %s; allowed for out are the dtype of in and wider floats",
                    describe_pair(pair).text, names[in], names[out]);
}

static bool same_view(const gsc_layout *a, const gsc_layout *b)
{
    size_t bytes = (size_t)a->ndim * sizeof a->shape[0];
    return a->data == b->data && a->kind == b->kind && a->ndim == b->ndim && memcmp(a->shape, b->shape, bytes) == 0 &&
           memcmp(a->stride, b->stride, bytes) == 0;
}

static gsc_status check_overlap(const gsc_view *in, const gsc_view *out, const gsc_place *pair)
{
    gsc_layout a, b;
    gsc_layout_logical(in->tensor, in->kind, &a);
    gsc_layout_logical(out->tensor, out->kind, &b);
    if (same_view(&a, &b))
        return GSC_OK;
    gsc_layout_collapse(in->tensor, in->kind, &a);
    gsc_layout_collapse(out->tensor, out->kind, &b);
    if (gsc_pair_overlap(&a, &b) == GSC_DISJOINT)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: in and out overlap in memory; allowed are the same view and disjoint ones",
                    describe_pair(pair).text);
}

gsc_status gsc_scale_check(const DLTensor *in, const DLTensor *out, size_t index, size_t total)
{
    const char *caller = total == 0 ? "gsc_scaler_scale" : "gsc_scaler_scale_list";
    const gsc_place in_place = {.caller = caller, .what = "in", .listed = total > 0, .index = index};
    const gsc_place out_place = {.caller = caller, .what = "out", .listed = total > 0, .index = index};
    char where[64];
    if (!in || !out)
        return gsc_fail(GSC_ERR_VALUE, "%s is NULL", gsc_place_text(in ? &out_place : &in_place, where, sizeof where));
    const gsc_view_rules reads = {.writes = false, .allow_fp16 = true}, writes = {.writes = true, .allow_fp16 = true};
    gsc_view from, to;
    gsc_status status = gsc_view_check(in, &reads, &in_place, &from);
    if (status == GSC_OK)
        status = gsc_view_check(out, &writes, &out_place, &to);
    if (status != GSC_OK)
        return status;
    status = check_shapes(in, out, &in_place);
    if (status == GSC_OK)
        status = check_kinds(from.kind, to.kind, &in_place);
    if (status == GSC_OK && from.count > 0)
        status = check_overlap(&from, &to, &in_place);
    return status;
}

/* In double, whatever the dtype: a float32 product is exact there, so rounding it once gives float32 arithmetic. */
static void multiply(gsc_kind from, const void *in, gsc_kind to, void *out, size_t count, double factor)
{
    double product[CHUNK];
    for (size_t i = 0; i < count; i++)
        product[i] = gsc_element(from, in, i) * factor;
    for (size_t i = 0; i < count; i++)
        switch (to) {
        case GSC_F64: ((double *)out)[i] = product[i]; break;
        case GSC_F32: ((float *)out)[i] = (float)product[i]; break;
        case GSC_BF16: ((uint16_t *)out)[i] = gsc_f32_to_bf16((float)product[i]); break;
        default: ((uint16_t *)out)[i] = gsc_f32_to_f16((float)product[i]); break;
        }
}

static bool is_run(const gsc_layout *layout) { return layout->ndim == 1 && layout->stride[0] == 1; }

static void scale_chunk(const gsc_layout *in, const gsc_layout *out, size_t first, size_t count, double factor)
{
    _Alignas(8) unsigned char in_packed[CHUNK * sizeof(double)], out_packed[CHUNK * sizeof(double)];
    const void *from = in->data + first * gsc_kind_size(in->kind);
    void *to = out->data + first * gsc_kind_size(out->kind);
    if (!is_run(in)) {
        gsc_layout_pack(in, first, count, in_packed);
        from = in_packed;
    }
    if (!is_run(out))
        to = out_packed;
    if (factor == 1.0 && in->kind == out->kind)
        memmove(to, from, count * gsc_kind_size(in->kind)); /* signalling NaNs stay */
    else
        multiply(in->kind, from, out->kind, to, count, factor);
    if (!is_run(out))
        gsc_layout_unpack(out, first, count, out_packed);
}

static size_t count_elements(const DLTensor *tensor)
{
    size_t count = 1;
    for (int d = 0; d < tensor->ndim; d++)
        count *= (size_t)tensor->shape[d];
    return count;
}

void gsc_scale_apply(const DLTensor *in, const DLTensor *out, double factor)
{
    gsc_kind in_kind, out_kind;
    size_t elements = count_elements(in);
    if (elements == 0 || !gsc_kind_of(in->dtype, &in_kind) || !gsc_kind_of(out->dtype, &out_kind))
        return;
    gsc_layout from, to;
    gsc_layout_logical(in, in_kind, &from);
    gsc_layout_logical(out, out_kind, &to);
    gsc_fpenv caller = gsc_fpenv_enter();
    for (size_t first = 0; first < elements; first += CHUNK)
        scale_chunk(&from, &to, first, elements - first < CHUNK ? elements - first : CHUNK, factor);
    gsc_fpenv_leave(caller);
}
