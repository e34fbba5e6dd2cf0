/* SPDX-License-Identifier: Apache-2.0 */
/* loops_clamp.h: elements limited by magnitude. loops.h says what the includer defines. */
#ifndef GSC_KERNELS_LOOPS_CLAMP_H
#define GSC_KERNELS_LOOPS_CLAMP_H

#include "kernels/kernels.h"
#include "kernels/loops_bits.h"

/* The bits of elements that are floats elsewhere. */
typedef uint32_t __attribute__((may_alias)) bits32;
typedef uint64_t __attribute__((may_alias)) bits64;

INLINE void clamp_f64(bits64 *x, size_t n, double limit)
{
    const int64_t bound = magnitude_f64(limit), infinity = (int64_t)gsc__kind_infinity(GSC_F64);
    for (size_t i = 0; i < n; i++) {
        int64_t magnitude = (int64_t)(x[i] & INT64_MAX);
        uint64_t clamped = (x[i] ^ (uint64_t)magnitude) | (uint64_t)bound;
        x[i] = magnitude > bound && magnitude <= infinity ? clamped : x[i];
    }
}

INLINE void clamp_f32(bits32 *x, size_t n, float limit)
{
    const int32_t bound = magnitude_f32(limit), infinity = (int32_t)gsc__kind_infinity(GSC_F32);
    for (size_t i = 0; i < n; i++) {
        int32_t magnitude = (int32_t)(x[i] & INT32_MAX);
        uint32_t clamped = (x[i] ^ (uint32_t)magnitude) | (uint32_t)bound;
        x[i] = magnitude > bound && magnitude <= infinity ? clamped : x[i];
    }
}

INLINE void clamp_half(uint16_t *x, size_t n, uint16_t limit, int16_t infinity)
{
    const int16_t bound = (int16_t)(limit & INT16_MAX);
    for (size_t i = 0; i < n; i++) {
        int16_t magnitude = (int16_t)(x[i] & INT16_MAX);
        uint16_t clamped = (uint16_t)((x[i] ^ magnitude) | bound);
        x[i] = magnitude > bound && magnitude <= infinity ? clamped : x[i];
    }
}

INLINE uint64_t clamp(gsc__kind kind, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    (void)partials;
    const int16_t infinity = (int16_t)gsc__kind_infinity(kind);
    for (size_t k = 0; k < n_runs; k++) {
        void *x = runs[k].data;
        size_t n = runs[k].count;
        switch (kind) {
        case GSC_F32: clamp_f32(x, n, (float)factor); break;
        case GSC_F64: clamp_f64(x, n, factor); break;
        case GSC_BF16: clamp_half(x, n, gsc__f32_to_bf16((float)factor), infinity); break;
        default: clamp_half(x, n, gsc__f32_to_f16((float)factor), infinity); break;
        }
    }
    return 0;
}

#endif
