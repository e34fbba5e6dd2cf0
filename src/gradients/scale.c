/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c: the checks of a pair, and its products. */
#include "gradients/scale.h"

#include <stdio.h>
#include <string.h>

#include "base/blocks.h"
#include "base/try.h"
#include "gradients/fast_view.h"
#include "gradients/layout.h"
#include "gradients/overlap.h"
#include "gradients/rows.h"
#include "gradients/tasks.h"
#include "kernels/kernels.h"

enum {
    CHUNK = 1024,         /* elements: copied, they are still in the first cache when the kernel multiplies them */
    LEAST_FOR_KERNEL = 16 /* elements that are worth a kernel call; most losses have one */
};

/* A pair in words. Made only for a message, since scaling a loss costs less than printing. */
typedef struct pair_text {
    char text[64];
} pair_text;

static pair_text describe_pair(const gsc__message_subject *pair)
{
    pair_text out;
    if (pair->listed)
        snprintf(out.text, sizeof out.text, "%s: pair %zu", pair->api, pair->index);
    else
        snprintf(out.text, sizeof out.text, "%s", pair->api);
    return out;
}

/* The first dimension in which two tensors of one ndim differ; ndim if none does. */
static int different_dimension(const DLTensor *a, const DLTensor *b)
{
    int d = 0;
    while (d < a->ndim && a->shape[d] == b->shape[d])
        d++;
    return d;
}

static gsc_status check_shapes(const DLTensor *in, const DLTensor *out, const gsc__message_subject *pair)
{
    if (in->ndim != out->ndim)
        return gsc_fail(GSC_ERR_VALUE, "%s: in has ndim %d, out has %d; allowed is the same shape",
                        describe_pair(pair).text, (int)in->ndim, (int)out->ndim);
    int d = different_dimension(in, out);
    if (d == in->ndim)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: in has shape[%d] = %lld, out has %lld; allowed is the same shape",
                    describe_pair(pair).text, d, (long long)in->shape[d], (long long)out->shape[d]);
}

static bool is_wider(gsc__kind out, gsc__kind in)
{
    return (out == GSC_F32 || out == GSC_F64) && gsc__kind_size(out) > gsc__kind_size(in);
}

static gsc_status check_kinds(gsc__kind in, gsc__kind out, const gsc__message_subject *pair)
{
    if (in == out || is_wider(out, in))
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: in is %s, out is %s; allowed for out are the dtype of in and wider floats",
                    describe_pair(pair).text, gsc__kind_name(in), gsc__kind_name(out));
}

static int64_t stride_of(const DLTensor *tensor, int d, int64_t compact)
{
    return tensor->strides ? tensor->strides[d] : compact;
}

/* Whether each element of a is the same element of b. Of views of one shape. */
static bool same_view(const gsc__view *a, const gsc__view *b)
{
    if (a->start != b->start || a->kind != b->kind)
        return false;
    int64_t compact = 1;
    for (int d = a->tensor->ndim - 1; d >= 0; d--) {
        int64_t size = a->tensor->shape[d];
        if (size != 1 && stride_of(a->tensor, d, compact) != stride_of(b->tensor, d, compact))
            return false;
        compact *= size;
    }
    return true;
}

static bool ends_before(const gsc__view *a, const gsc__view *b)
{
    return (uintptr_t)a->start + a->count * gsc__kind_size(a->kind) <= (uintptr_t)b->start;
}

static bool disjoint(const gsc__view *a, const gsc__view *b)
{
    if (a->dense && b->dense)
        return ends_before(a, b) || ends_before(b, a);
    gsc__layout one, other;
    gsc__layout_collapse(a->tensor, a->kind, &one);
    gsc__layout_collapse(b->tensor, b->kind, &other);
    return gsc__are_disjoint(&one, &other);
}

static gsc_status check_overlap(const gsc__view *in, const gsc__view *out, const gsc__message_subject *pair)
{
    if (same_view(in, out) || disjoint(in, out))
        return GSC_OK;
    return gsc_fail(
        GSC_ERR_VALUE,
        "%s: in and out overlap in memory, or are interleaved too irregularly to tell; allowed are the same "
        "view and disjoint ones",
        describe_pair(pair).text);
}

gsc_status gsc__scale_check(const DLTensor *in, const DLTensor *out, size_t index, size_t total)
{
    const char *api = total == 0 ? "gsc_scaler_scale" : "gsc_scaler_scale_list";
    const gsc__message_subject in_subject = {.api = api, .what = "in", .listed = total > 0, .index = index};
    const gsc__message_subject out_subject = {.api = api, .what = "out", .listed = total > 0, .index = index};
    char where[64];
    if (!in || !out)
        return gsc_fail(GSC_ERR_VALUE, "%s is NULL",
                        gsc__message_subject_text(in ? &out_subject : &in_subject, where, sizeof where));
    const gsc__view_rules reads = {.writes = false, .allow_fp16 = true}, writes = {.writes = true, .allow_fp16 = true};
    gsc__view from, to;
    GSC_TRY(gsc__view_make(in, &reads, &in_subject, &from));
    GSC_TRY(gsc__view_make(out, &writes, &out_subject, &to));
    GSC_TRY(check_shapes(in, out, &in_subject));
    GSC_TRY(check_kinds(from.kind, to.kind, &in_subject));
    return from.count > 0 ? check_overlap(&from, &to, &in_subject) : GSC_OK;
}

/* value is a float32 value unless kind is float64. */
static inline void store_element(gsc__kind kind, void *data, size_t index, double value)
{
    switch (kind) {
    case GSC_F32: ((float *)data)[index] = (float)value; break;
    case GSC_F64: ((double *)data)[index] = value; break;
    case GSC_BF16: ((uint16_t *)data)[index] = gsc__f32_to_bf16((float)value); break;
    default: ((uint16_t *)data)[index] = gsc__f32_to_f16((float)value); break;
    }
}

/* Both kinds are constants where this is inlined, so that each pair of kinds has a loop of its own. */
static inline __attribute__((always_inline)) void multiply_pair(gsc__kind in_kind, const void *in, gsc__kind out_kind,
                                                                void *out, size_t count, double factor)
{
    const bool in_double = in_kind == GSC_F64 || out_kind == GSC_F64;
    for (size_t i = 0; i < count; i++) {
        double x = gsc__element(in_kind, in, i);
        store_element(out_kind, out, i, in_double ? x * factor : (double)((float)x * (float)factor));
    }
}

static inline __attribute__((always_inline)) void multiply_from(gsc__kind in_kind, const void *in, gsc__kind out_kind,
                                                                void *out, size_t count, double factor)
{
    if (out_kind == in_kind)
        multiply_pair(in_kind, in, in_kind, out, count, factor);
    else if (out_kind == GSC_F64)
        multiply_pair(in_kind, in, GSC_F64, out, count, factor);
    else
        multiply_pair(in_kind, in, GSC_F32, out, count, factor);
}

/* out = in * factor, for kinds that check_kinds accepts; out may be in. */
static void multiply(gsc__kind in_kind, const void *in, gsc__kind out_kind, void *out, size_t count, double factor)
{
    switch (in_kind) {
    case GSC_F32: multiply_from(GSC_F32, in, out_kind, out, count, factor); break;
    case GSC_F64: multiply_pair(GSC_F64, in, GSC_F64, out, count, factor); break;
    case GSC_BF16: multiply_from(GSC_BF16, in, out_kind, out, count, factor); break;
    default: multiply_from(GSC_F16, in, out_kind, out, count, factor); break;
    }
}

/* One pair, on all threads. */
typedef struct job {
    gsc__layout in, out;  /* in the same order */
    bool in_run, out_run; /* the layout is one run */
    double factor;
    size_t elements, elements_per_task;
} job;

/* At most CHUNK neighbours of one kind; out may be in. Kernels use the instruction set and work in place. */
static inline void scale_neighbours(gsc__kind kind, const void *in, void *out, size_t count, double factor)
{
    bool copies = factor == 1.0; /* a product would make signalling NaNs quiet */
    if (count < LEAST_FOR_KERNEL && !copies) {
        multiply(kind, in, kind, out, count, factor);
        return;
    }
    if (out != in)
        memcpy(out, in, count * gsc__kind_size(kind));
    const gsc__run run = {out, count};
    if (!copies)
        gsc__kernels()->unscale_flag[kind](&run, 1, factor, NULL);
}

static void scale_run(const job *all, const void *in, void *out, size_t count)
{
    if (all->in.kind == all->out.kind)
        scale_neighbours(all->in.kind, in, out, count, all->factor);
    else
        multiply(all->in.kind, in, all->out.kind, out, count, all->factor);
}

static void scale_strided(const job *all, size_t first, size_t count)
{
    _Alignas(64) unsigned char in_packed[CHUNK * sizeof(double)], out_packed[CHUNK * sizeof(double)];
    const void *from = gsc__rows_neighbours(&all->in, first, count, in_packed);
    void *to = all->out_run ? all->out.data + first * gsc__kind_size(all->out.kind) : (char *)out_packed;
    scale_run(all, from, to, count);
    if (!all->out_run)
        gsc__rows_unpack(&all->out, first, count, out_packed);
}

static void scale_task(void *ctx, size_t index)
{
    const job *all = ctx;
    gsc__range task = gsc__part(all->elements, all->elements_per_task, index);
    for (size_t first = task.first; first < task.end; first += CHUNK) {
        size_t count = task.end - first < CHUNK ? task.end - first : CHUNK;
        if (all->in_run && all->out_run)
            scale_run(all, all->in.data + first * gsc__kind_size(all->in.kind),
                      all->out.data + first * gsc__kind_size(all->out.kind), count);
        else
            scale_strided(all, first, count);
    }
}

static size_t count_elements(const DLTensor *tensor)
{
    size_t count = 1;
    for (int d = 0; d < tensor->ndim; d++)
        count *= (size_t)tensor->shape[d];
    return count;
}

void gsc__scale_apply(const DLTensor *in, const DLTensor *out, double factor)
{
    const gsc__kind in_kind = gsc__kind_of(in->dtype), out_kind = gsc__kind_of(out->dtype);
    job all; /* uninitialised: clearing the layouts would cost more than one element */
    all.elements = count_elements(in);
    if (all.elements == 0)
        return;
    gsc__layout_logical(in, in_kind, &all.in);
    gsc__layout_logical(out, out_kind, &all.out);
    all.in_run = gsc__layout_is_run(&all.in);
    all.out_run = gsc__layout_is_run(&all.out);
    all.factor = factor;
    size_t tasks = gsc__task_split(all.elements, &all.elements_per_task);
    if (tasks == 1)
        scale_task(&all, 0); /* a loop of one task costs more than one element */
    else
        gsc_parallel_run(tasks, scale_task, &all);
}

bool gsc__scale_fast(const DLTensor *in, const DLTensor *out, double factor)
{
    gsc__view from, to;
    if (!in || !out || !gsc__view_fast(in, &from) || !gsc__view_fast(out, &to))
        return false;
    if (from.kind != to.kind || from.count > CHUNK || in->ndim != out->ndim)
        return false;
    if (different_dimension(in, out) < in->ndim)
        return false;
    if (from.start != to.start && !disjoint(&from, &to))
        return false;
    scale_neighbours(from.kind, from.start, to.start, from.count, factor);
    return true;
}
