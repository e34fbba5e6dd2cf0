/* SPDX-License-Identifier: Apache-2.0 */
/* loops_scan.h: products, and the largest of their magnitudes. Compared as integers, magnitudes order numbers, infinity
 * and NaNs; so one maximum, which costs no more than an or, tells overflow, infinity from NaN, and max |g|.
 *
 * Written with vectors, because compilers seldom vectorise loops with several accumulators. */
#ifndef GSC_KERNELS_LOOPS_SCAN_H
#define GSC_KERNELS_LOOPS_SCAN_H

#include "kernels/loops_bits.h"
#include "kernels/loops_f16.h"
#include "kernels/loops_vector.h"

enum { VECTORS = 4 /* in a step: each has a maximum of its own, so that none waits for another */ };

typedef enum scan_mode {
    SCAN_STORE, /* max |y| of y = x * factor; stores y */
    SCAN_FLAG,  /* the same, but of float64 the upper half of max |y|, whose comparison takes half the work */
    SCAN_READ,  /* the same without storing */
    SCAN_RAW    /* max |x|, whatever the factor; of float64 the upper half */
} scan_mode;

/* Maxima by lane. One array is in use: that of the lanes' size. gcc adds a move per vector to loops that cast these. */
typedef struct maxima {
    vector_i16 i16[VECTORS];
    vector i32[VECTORS];
    vector_i64 i64[VECTORS];
    int64_t rest; /* of elements that fill no vector */
} maxima;

INLINE bool stores(scan_mode mode) { return mode == SCAN_STORE || mode == SCAN_FLAG; }

INLINE bool takes_upper_half(gsc__kind kind, scan_mode mode)
{
    return kind == GSC_F64 && (mode == SCAN_RAW || mode == SCAN_FLAG);
}

/* Bytes of what is compared. */
INLINE size_t lane_size(gsc__kind kind, scan_mode mode)
{
    return takes_upper_half(kind, mode) ? sizeof(uint32_t) : gsc__kind_size(kind);
}

/* The product of a bfloat16, given and returned in the upper half of a word; the lower half becomes arbitrary. The
 * lower half of a NaN product is zero like that of its factor, so rounding leaves NaNs as they are. */
INLINE uint32_t product_bf16(uint32_t upper, float factor)
{
    uint32_t bits = gsc__float_bits(gsc__bits_float(upper) * factor);
    return bits + 0x7fffu + ((bits >> 16) & 1u);
}

INLINE vector_u32 products_bf16(vector_u32 upper, float factor)
{
    vector_u32 bits = (vector_u32)((vector_f32)upper * factor);
    return add_bit16(bits + 0x7fffu, bits);
}

/* Of a vector of any kind but float16. */
INLINE vector products(gsc__kind kind, vector x, double factor)
{
    if (kind == GSC_F32)
        return (vector)((vector_f32)x * (float)factor);
    if (kind == GSC_F64)
        return (vector)((vector_f64)x * factor);
    /* bfloat16: two at a time, in the halves of a word, so that nothing is widened or narrowed. */
    vector_u32 pairs = (vector_u32)x;
    return (vector)((products_bf16(pairs & 0xffff0000u, (float)factor) & 0xffff0000u) |
                    (products_bf16(pairs << 16, (float)factor) >> 16));
}

/* As bits, without the sign. */
INLINE vector magnitudes(gsc__kind kind, scan_mode mode, vector y)
{
    if (kind == GSC_F32)
        return y & INT32_MAX;
    if (kind == GSC_F64)
        return (vector)((vector_i64)y & (takes_upper_half(kind, mode) ? INT64_MAX - UINT32_MAX : INT64_MAX));
    return (vector)((vector_i16)y & INT16_MAX);
}

INLINE void keep_larger(size_t lane, vector lanes, maxima *max, size_t v)
{
    switch (lane) {
    case sizeof(int16_t): max->i16[v] = larger_i16((vector_i16)lanes, max->i16[v]); break;
    case sizeof(int32_t): max->i32[v] = larger_i32(lanes, max->i32[v]); break;
    default: max->i64[v] = larger_i64((vector_i64)lanes, max->i64[v]); break;
    }
}

INLINE void scan_vector(gsc__kind kind, scan_mode mode, void *x, double factor, maxima *max, size_t v)
{
    vector y;
    memcpy(&y, x, sizeof y);
    if (mode != SCAN_RAW)
        y = products(kind, y, factor);
    if (stores(mode))
        memcpy(x, &y, sizeof y);
    keep_larger(lane_size(kind, mode), magnitudes(kind, mode, y), max, v);
}

/* One element's product, as bits. */
INLINE uint64_t product(gsc__kind kind, uint64_t x, double factor)
{
    if (kind == GSC_F32)
        return gsc__float_bits(gsc__bits_float((uint32_t)x) * (float)factor);
    if (kind == GSC_F64)
        return double_bits(bits_double(x) * factor);
    return product_bf16((uint32_t)x << 16, (float)factor) >> 16;
}

INLINE void scan_element(gsc__kind kind, scan_mode mode, void *x, double factor, int64_t *max)
{
    const size_t size = gsc__kind_size(kind);
    uint64_t y = load_bits(x, size);
    if (mode != SCAN_RAW)
        y = product(kind, y, factor);
    if (stores(mode))
        store_bits(x, size, y);
    int64_t magnitude = (int64_t)(y & (UINT64_MAX >> (65 - 8 * size)));
    magnitude = takes_upper_half(kind, mode) ? magnitude >> 32 : magnitude;
    *max = magnitude > *max ? magnitude : *max;
}

/* VECTORS vectors. A step of a long run asks for each of its cache lines right before the work on the line. */
INLINE void scan_step(gsc__kind kind, scan_mode mode, char *x, double factor, bool is_long, maxima *max)
{
    for (size_t v = 0; v < VECTORS; v++) {
        if (is_long && v * GSC_VECTOR % LINE == 0)
            prefetch_ahead(x + v * GSC_VECTOR);
        scan_vector(kind, mode, x + v * GSC_VECTOR, factor, max, v);
    }
}

INLINE void scan_run(gsc__kind kind, scan_mode mode, const gsc__run *run, double factor, maxima *max)
{
    char *x = run->data;
    const size_t step = (size_t)VECTORS * GSC_VECTOR, size = gsc__kind_size(kind);
    const size_t bytes = run->count * size, whole_steps = bytes - bytes % step, whole = bytes - bytes % GSC_VECTOR;
    size_t i = 0;
    for (; i < whole_steps; i += step)
        scan_step(kind, mode, x + i, factor, bytes >= LONG_RUN, max);
    for (; i < whole; i += GSC_VECTOR)
        scan_vector(kind, mode, x + i, factor, max, 0);
    for (; i < bytes; i += size)
        scan_element(kind, mode, x + i, factor, &max->rest);
}

INLINE vector maxima_vector(size_t lane, const maxima *max, size_t v)
{
    switch (lane) {
    case sizeof(int16_t): return (vector)max->i16[v];
    case sizeof(int32_t): return max->i32[v];
    default: return (vector)max->i64[v];
    }
}

INLINE uint64_t largest(size_t lane, const maxima *max)
{
    vector v[VECTORS];
    for (size_t i = 0; i < VECTORS; i++)
        v[i] = maxima_vector(lane, max, i);
    int64_t lanes = largest_lane(lane, larger(lane, larger(lane, v[0], v[1]), larger(lane, v[2], v[3])));
    return (uint64_t)(lanes > max->rest ? lanes : max->rest);
}

INLINE uint64_t scan(gsc__kind kind, scan_mode mode, const gsc__run *runs, size_t n_runs, double factor)
{
    if (kind == GSC_F16 && mode != SCAN_RAW)
        return scan_f16(runs, n_runs, (float)factor, stores(mode));
    maxima max = {.rest = 0};
    for (size_t k = 0; k < n_runs; k++) {
        if (k + PREFETCH_RUNS < n_runs)
            prefetch_run(&runs[k + PREFETCH_RUNS], gsc__kind_size(kind));
        scan_run(kind, mode, &runs[k], factor, &max);
    }
    return largest(lane_size(kind, mode), &max) << (takes_upper_half(kind, mode) ? 32 : 0);
}

#endif
