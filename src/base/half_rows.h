/* SPDX-License-Identifier: Apache-2.0 */
/* half_rows.h: many float16 elements to float32 and back, with the bits of half.h. The includer defines
 *
 *     GSC_TARGET   the target attribute of the functions, or nothing
 *     GSC_F16C     where that target converts in hardware (x86-64's VCVTPH2PS and VCVTPS2PH) */
#ifndef GSC_BASE_HALF_ROWS_H
#define GSC_BASE_HALF_ROWS_H

#include <stddef.h>

#include "base/half.h"

#ifdef GSC_F16C
#include <immintrin.h>
#endif

GSC_TARGET static inline void gsc__widen_f16(const uint16_t *x, float *y, size_t n)
{
    size_t i = 0;
#ifdef GSC_F16C
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
#endif
    for (; i < n; i++)
        y[i] = gsc__f16_to_f32(x[i]);
}

GSC_TARGET static inline void gsc__narrow_f16(const float *x, uint16_t *y, size_t n)
{
    size_t i = 0;
#ifdef GSC_F16C
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(y + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        y[i] = gsc__f32_to_f16(x[i]);
}

#endif
