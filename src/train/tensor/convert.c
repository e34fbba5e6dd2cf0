/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c: conversions between dtypes, and sums of gradients. What needs an intermediate dtype goes through a strip:
 * a buffer of GSC_STRIP elements on the stack. */
#include "train/tensor/convert.h"

#include <math.h>
#include <string.h>

#include "base/half_rows.h"
#include "base/isa.h"
#include "gradscaler/runtime.h"

/* gsc_isa() names the instruction set in use, so the environment variable GSC_ISA decides here, too. */
static bool has_f16c(void) { return gsc__isa_has_f16c(gsc_isa()); }

static void f16_to_f32(const uint16_t *restrict src, float *restrict dst, size_t n)
{
    gsc__widen_f16(has_f16c(), src, dst, n);
}

static void f32_to_f16(const float *restrict src, uint16_t *restrict dst, size_t n)
{
    gsc__narrow_f16(has_f16c(), src, dst, n);
}

static void bf16_to_f32(const uint16_t *restrict src, float *restrict dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = gsc__bf16_to_f32(src[i]);
}

static void f32_to_bf16(const float *restrict src, uint16_t *restrict dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = gsc__f32_to_bf16(src[i]);
}

static void f32_to_f64(const float *restrict src, double *restrict dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (double)src[i];
}

static void f64_to_f32(const double *restrict src, float *restrict dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)src[i];
}

/* Rounds to odd: toward zero, and a result that is not exact gets an odd last bit. A second rounding, to a half dtype,
 * then sees on which side of a tie the value is (Boldo and Melquiond, 2008). */
static float f64_to_f32_odd(double value)
{
    float nearest = (float)value;
    if ((double)nearest == value || value != value)
        return nearest;
    uint32_t bits = gsc__float_bits(nearest);
    if (fabs((double)nearest) > fabs(value))
        bits--; /* the neighbour toward zero: bits without the sign order magnitudes */
    return gsc__bits_float(bits | 1u);
}

static void f64_to_f32_odd_row(const double *restrict src, float *restrict dst, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = f64_to_f32_odd(src[i]);
}

/* Callers of the two functions below give floating-point kinds only. */
static void from_f32(const float *src, gsc__kind to, void *dst, size_t n)
{
    switch (to) {
    case GSC_F32: memcpy(dst, src, n * sizeof *src); break;
    case GSC_F64: f32_to_f64(src, dst, n); break;
    case GSC_F16: f32_to_f16(src, dst, n); break;
    case GSC_BF16: f32_to_bf16(src, dst, n); break;
    case GSC_I64:
    case GSC_NO_KIND: break; /* never given */
    }
}

static void to_f32(gsc__kind from, const void *src, bool round_to_odd, float *dst, size_t n)
{
    switch (from) {
    case GSC_F32: memcpy(dst, src, n * sizeof *dst); break;
    case GSC_F64: (round_to_odd ? f64_to_f32_odd_row : f64_to_f32)(src, dst, n); break;
    case GSC_F16: f16_to_f32(src, dst, n); break;
    case GSC_BF16: bf16_to_f32(src, dst, n); break;
    case GSC_I64:
    case GSC_NO_KIND: break; /* never given */
    }
}

void gsc__convert(gsc__kind from, const void *src, gsc__kind to, void *dst, size_t n)
{
    if (n == 0)
        return;
    if (from == to) {
        memcpy(dst, src, n * gsc__kind_size(to));
    } else if (from == GSC_F32) {
        from_f32(src, to, dst, n);
    } else if (to == GSC_F32) {
        to_f32(from, src, false, dst, n);
    } else {
        float strip[GSC_STRIP];
        for (size_t i = 0; i < n; i += GSC_STRIP) {
            size_t length = gsc__strip_length(i, n);
            to_f32(from, gsc__at(from, src, i), true, strip, length); /* from_f32 may round again */
            from_f32(strip, to, gsc__at_mutable(to, dst, i), length);
        }
    }
}

/* A loop over the n elements of src and dst, cut into tasks. */
typedef struct loop {
    gsc__kind from, to;
    const void *src;
    void *dst;
    size_t n;
} loop;

static void convert_task(void *ctx, size_t index)
{
    const loop *job = ctx;
    gsc__range part = gsc__part(job->n, GSC_TASK_ELEMENTS, index);
    gsc__convert(job->from, gsc__at(job->from, job->src, part.first), job->to,
                 gsc__at_mutable(job->to, job->dst, part.first), part.end - part.first);
}

void gsc__convert_parallel(gsc__kind from, const void *src, gsc__kind to, void *dst, size_t n)
{
    loop job = {.from = from, .to = to, .src = src, .dst = dst, .n = n};
    gsc_parallel_run(gsc__parts(n, GSC_TASK_ELEMENTS), convert_task, &job);
}

const double *gsc__load_f64(gsc__kind kind, const void *src, size_t first, size_t n, double strip[GSC_STRIP])
{
    src = gsc__at(kind, src, first);
    if (kind == GSC_F64)
        return src;
    gsc__convert(kind, src, GSC_F64, strip, n);
    return strip;
}

static void add_f32(float *restrict dst, const float *restrict src, size_t n)
{
    /* add_half's strips are filled by to_f32, which the analyzer does not follow. */
    for (size_t i = 0; i < n; i++) /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign) */
        dst[i] += src[i];
}

static void add_f64(double *restrict dst, const double *restrict src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] += src[i];
}

static void add_half(gsc__kind kind, void *dst, const void *src, size_t n)
{
    float sum[GSC_STRIP], strip[GSC_STRIP];
    for (size_t i = 0; i < n; i += GSC_STRIP) {
        size_t length = gsc__strip_length(i, n);
        gsc__convert(kind, gsc__at(kind, dst, i), GSC_F32, sum, length);
        gsc__convert(kind, gsc__at(kind, src, i), GSC_F32, strip, length);
        add_f32(sum, strip, length);
        gsc__convert(GSC_F32, sum, kind, gsc__at_mutable(kind, dst, i), length);
    }
}

static void accumulate_task(void *ctx, size_t index)
{
    const loop *job = ctx;
    gsc__kind kind = job->to;
    gsc__range part = gsc__part(job->n, GSC_TASK_ELEMENTS, index);
    size_t n = part.end - part.first;
    const void *src = gsc__at(kind, job->src, part.first);
    void *dst = gsc__at_mutable(kind, job->dst, part.first);
    if (kind == GSC_F32)
        add_f32(dst, src, n);
    else if (kind == GSC_F64)
        add_f64(dst, src, n);
    else
        add_half(kind, dst, src, n);
}

void gsc__accumulate(gsc__kind kind, void *dst, const void *src, size_t n)
{
    loop job = {.from = kind, .to = kind, .src = src, .dst = dst, .n = n};
    gsc_parallel_run(gsc__parts(n, GSC_TASK_ELEMENTS), accumulate_task, &job);
}
