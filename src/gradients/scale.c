/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c: the products of a pair. */
#include "gradients/scale.h"

#include <stdatomic.h>
#include <string.h>

#include "base/blocks.h"
#include "base/half_rows.h"
#include "base/isa.h"
#include "gradients/distinct.h"
#include "gradients/fast_view.h"
#include "gradients/layout.h"
#include "gradients/pairs.h"
#include "gradients/rows.h"
#include "gradients/tasks.h"
#include "gradscaler/runtime.h"
#include "kernels/kernels.h"

enum {
    CHUNK = 1024,         /* elements: copied or widened, they are in the first cache when the kernel multiplies them */
    LEAST_FOR_KERNEL = 16 /* elements that are worth a kernel call; most losses have one */
};

/* out = in * factor for a few elements of one kind; out may be in. */
static inline __attribute__((always_inline)) void multiply_kind(gsc__kind kind, const void *in, void *out, size_t count,
                                                                double factor)
{
    for (size_t i = 0; i < count; i++) {
        double x = gsc__element(kind, in, i);
        float product = (float)x * (float)factor;
        switch (kind) {
        case GSC_F32: ((float *)out)[i] = product; break;
        case GSC_F64: ((double *)out)[i] = x * factor; break;
        case GSC_BF16: ((uint16_t *)out)[i] = gsc__f32_to_bf16(product); break;
        default: ((uint16_t *)out)[i] = gsc__f32_to_f16(product); break;
        }
    }
}

static void multiply_few(gsc__kind kind, const void *in, void *out, size_t count, double factor)
{
    switch (kind) {
    case GSC_F32: multiply_kind(GSC_F32, in, out, count, factor); break;
    case GSC_F64: multiply_kind(GSC_F64, in, out, count, factor); break;
    case GSC_BF16: multiply_kind(GSC_BF16, in, out, count, factor); break;
    default: multiply_kind(GSC_F16, in, out, count, factor); break;
    }
}

/* out = in, of a wider kind: float32 or float64. Both kinds are constants where this is inlined. */
static inline __attribute__((always_inline)) void widen_kind(gsc__kind in_kind, const void *in, gsc__kind out_kind,
                                                             void *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double x = gsc__element(in_kind, in, i);
        if (out_kind == GSC_F64)
            ((double *)out)[i] = x;
        else
            ((float *)out)[i] = (float)x;
    }
}

static void widen(gsc__kind in_kind, const void *in, gsc__kind out_kind, void *out, size_t count)
{
    const bool to_f64 = out_kind == GSC_F64;
    if (in_kind == GSC_F32)
        widen_kind(GSC_F32, in, GSC_F64, out, count);
    else if (in_kind == GSC_BF16 && to_f64)
        widen_kind(GSC_BF16, in, GSC_F64, out, count);
    else if (in_kind == GSC_BF16)
        widen_kind(GSC_BF16, in, GSC_F32, out, count);
    else if (to_f64)
        widen_kind(GSC_F16, in, GSC_F64, out, count);
    else
        gsc__widen_f16(gsc__isa_has_f16c(gsc_isa()), in, out, count);
}

/* One pair, on all threads. */
typedef struct job {
    gsc__layout in, out;  /* in the same order */
    bool in_run, out_run; /* the layout is one run */
    double factor;
    size_t elements, elements_per_task;
    atomic_bool *found_inf; /* NULL: not wanted */
} job;

/* out = in * factor for many elements of one kind; out may be in. Returns what the kernel does; 0 where it only copies.
 */
static inline uint64_t multiply_many(gsc__kind kind, const void *in, void *out, size_t count, double factor)
{
    if (out != in)
        memcpy(out, in, count * gsc__kind_size(kind));
    const gsc__run run = {out, count};
    /* A product with 1 would make signalling NaNs quiet. */
    return factor == 1.0 ? 0 : gsc__kernels()->unscale_flag[kind](&run, 1, factor, NULL);
}

/* At most CHUNK neighbours; out may be in, if the kinds are equal. If they differ, the elements are widened first: the
 * product is formed in out's kind. */
static void scale_run(const job *all, const void *in, void *out, size_t count)
{
    const gsc__kind in_kind = all->in.kind, out_kind = all->out.kind;
    const gsc__run run = {out, count};
    uint64_t largest;
    if (in_kind == out_kind) {
        largest = multiply_many(out_kind, in, out, count, all->factor);
    } else {
        widen(in_kind, in, out_kind, out, count);
        largest = gsc__kernels()->unscale_flag[out_kind](&run, 1, all->factor, NULL);
    }
    if (!all->found_inf)
        return;
    if (all->factor == 1.0)
        largest = gsc__kernels()->check_raw[out_kind](&run, 1, 1.0, NULL);
    if (largest >= gsc__kind_infinity(out_kind))
        atomic_store_explicit(all->found_inf, true, memory_order_relaxed);
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

void gsc__scale_apply(const DLTensor *in, const DLTensor *out, double factor, bool *found_inf)
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
    atomic_bool found = false;
    all.found_inf = found_inf ? &found : NULL;
    size_t tasks = gsc__task_split_quick(all.elements, &all.elements_per_task);
    if (tasks == 1)
        scale_task(&all, 0); /* a loop of one task costs more than one element */
    else
        gsc_parallel_run(tasks, scale_task, &all);
    if (found_inf && atomic_load(&found))
        *found_inf = true;
}

bool gsc__scale_fast(const DLTensor *in, const DLTensor *out, double factor)
{
    gsc__view from, to;
    if (!in || !out || !gsc__view_fast(in, GSC_ON_CPU, &from) || !gsc__view_fast(out, GSC_ON_CPU, &to))
        return false;
    if (from.kind != to.kind || from.count > CHUNK || in->ndim != out->ndim)
        return false;
    if (gsc__different_dimension(in, out) < in->ndim)
        return false;
    if (from.start != to.start && gsc__view_overlap(&from, &to) != GSC_DISJOINT)
        return false;
    if (from.count < LEAST_FOR_KERNEL && factor != 1.0)
        multiply_few(from.kind, from.start, to.start, from.count, factor);
    else
        multiply_many(from.kind, from.start, to.start, from.count, factor);
    return true;
}
