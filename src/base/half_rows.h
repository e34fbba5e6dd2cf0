/* SPDX-License-Identifier: Apache-2.0 */
/* half_rows.h: many float16 elements to float32 and back, with the bits of half.h. `f16c`: convert in hardware, as
 * gsc__isa_has_f16c() of base/isa.h allows. Where it is a constant, so is the choice. */
#ifndef GSC_BASE_HALF_ROWS_H
#define GSC_BASE_HALF_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/half.h"

#if defined(__x86_64__)

#include <immintrin.h>

/* Converts whole groups of 8; returns how many elements those are. */
__attribute__((target("avx,f16c"))) static inline size_t gsc__widen_f16_groups(const uint16_t *x, float *y, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
    return i;
}

/* The same, back to float16. */
__attribute__((target("avx,f16c"))) static inline size_t gsc__narrow_f16_groups(const float *x, uint16_t *y, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(y + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}

#else

static inline size_t gsc__widen_f16_groups(const uint16_t *x, float *y, size_t n)
{
    (void)x, (void)y, (void)n;
    return 0;
}

static inline size_t gsc__narrow_f16_groups(const float *x, uint16_t *y, size_t n)
{
    (void)x, (void)y, (void)n;
    return 0;
}

#endif

__attribute__((always_inline)) static inline void gsc__widen_f16(bool f16c, const uint16_t *x, float *y, size_t n)
{
    for (size_t i = f16c ? gsc__widen_f16_groups(x, y, n) : 0; i < n; i++)
        y[i] = gsc__f16_to_f32(x[i]);
}

__attribute__((always_inline)) static inline void gsc__narrow_f16(bool f16c, const float *x, uint16_t *y, size_t n)
{
    for (size_t i = f16c ? gsc__narrow_f16_groups(x, y, n) : 0; i < n; i++)
        y[i] = gsc__f32_to_f16(x[i]);
}

#endif
