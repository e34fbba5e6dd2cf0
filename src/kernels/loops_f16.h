/* SPDX-License-Identifier: Apache-2.0 */
/* loops_f16.h: float16's products and their largest magnitude, with hardware conversions where there are any.
 * loops.h says what the includer defines. */
#ifndef GSC_KERNELS_LOOPS_F16_H
#define GSC_KERNELS_LOOPS_F16_H

#include "base/half_rows.h"
#include "kernels/loops_bits.h"
#include "kernels/loops_vector.h"

#define GSC_F16C GSC_PASTE(GSC_F16C_, GSC_ISA)

enum {
    CHUNK = 256,    /* elements that are converted at a time */
    F16C = GSC_F16C /* the instruction set converts float16 */
};

/* y = x * factor for at most CHUNK elements; y may be x. */
INLINE void products_f16(const uint16_t *x, uint16_t *y, size_t n, float factor)
{
    float wide[CHUNK];
    gsc__widen_f16(F16C, x, wide, n);
    for (size_t i = 0; i < n; i++)
        wide[i] *= factor;
    gsc__narrow_f16(F16C, wide, y, n);
}

INLINE int16_t scan_chunks_f16(uint16_t *x, size_t n, float factor, bool store)
{
    int16_t max = 0;
    uint16_t rounded[CHUNK];
    for (size_t first = 0; first < n; first += CHUNK) {
        size_t count = n - first < CHUNK ? n - first : CHUNK;
        uint16_t *y = store ? x + first : rounded;
        products_f16(x + first, y, count, factor);
        for (size_t i = 0; i < count; i++) {
            int16_t magnitude = (int16_t)(y[i] & INT16_MAX);
            max = magnitude > max ? magnitude : max;
        }
    }
    return max;
}

#if GSC_F16C
enum { EIGHT = 8 };

/* Scans whole groups of eight; returns how many elements those are. */
INLINE size_t scan_eights_f16(uint16_t *x, size_t n, float factor, bool store, int16_t *max)
{
    const __m256 factors = _mm256_set1_ps(factor);
    const __m128i magnitude = _mm_set1_epi16(INT16_MAX);
    __m128i largest = _mm_setzero_si128();
    size_t whole = n - n % EIGHT;
    for (size_t i = 0; i < whole; i += EIGHT) {
        __m128i *eight = (__m128i *)(void *)(x + i);
        if (n >= LONG_RUN / sizeof *x && i % (LINE / sizeof *x) == 0)
            prefetch_ahead(eight);
        __m256 y = _mm256_mul_ps(_mm256_cvtph_ps(_mm_loadu_si128(eight)), factors);
        __m128i rounded = _mm256_cvtps_ph(y, _MM_FROUND_TO_NEAREST_INT);
        if (store)
            _mm_storeu_si128(eight, rounded);
        largest = _mm_max_epi16(largest, _mm_and_si128(rounded, magnitude));
    }
    int16_t lanes[EIGHT];
    memcpy(lanes, &largest, sizeof lanes);
    for (size_t lane = 0; lane < EIGHT; lane++)
        *max = lanes[lane] > *max ? lanes[lane] : *max;
    return whole;
}
#endif

INLINE uint64_t scan_f16(const gsc__run *runs, size_t n_runs, float factor, bool store)
{
    int16_t max = 0;
    for (size_t k = 0; k < n_runs; k++) {
        size_t done = 0;
#if GSC_F16C
        done = scan_eights_f16(runs[k].data, runs[k].count, factor, store, &max);
#endif
        int16_t rest = scan_chunks_f16((uint16_t *)runs[k].data + done, runs[k].count - done, factor, store);
        max = rest > max ? rest : max;
    }
    return (uint64_t)max;
}

#endif
