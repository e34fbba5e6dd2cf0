/* SPDX-License-Identifier: Apache-2.0 */
/* loops_norm.h: sums of powers of magnitudes, for norms. loops.h says what the includer defines. */
#ifndef GSC_KERNELS_LOOPS_NORM_H
#define GSC_KERNELS_LOOPS_NORM_H

#include <math.h>

#include "kernels/loops_f16.h"
#include "kernels/loops_scan.h"
#include "kernels/loops_vector.h"

enum { LANES = 16 /* independent partial sums, whatever the vector width */ };
_Static_assert(CHUNK % LANES == 0, "chunks must not change the lane of an element");

/* |y| of one element of any kind but float16. */
INLINE double magnitude_at(gsc__kind kind, const void *x, size_t i, double factor, double prescale)
{
    if (kind == GSC_F64)
        return fabs(((const double *)x)[i] * factor) * prescale;
    if (kind == GSC_F32)
        return (double)fabsf(((const float *)x)[i] * (float)factor);
    uint32_t y = product_bf16((uint32_t)((const uint16_t *)x)[i] << 16, (float)factor);
    return (double)gsc__bits_float(y & 0x7fff0000u);
}

/* Adds element i to lane i % LANES. Only the last piece of a run may have an n that is no multiple of LANES. */
INLINE void add_powers(gsc__kind kind, int p, const void *x, size_t n, double factor, double prescale,
                       double lanes[LANES])
{
    size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++) {
            double y = magnitude_at(kind, x, i + lane, factor, prescale);
            lanes[lane] += p == 1 ? y : y * y;
        }
    for (size_t i = whole; i < n; i++) {
        double y = magnitude_at(kind, x, i, factor, prescale);
        lanes[i - whole] += p == 1 ? y : y * y;
    }
}

/* Of at most CHUNK elements. */
INLINE void add_powers_f16(int p, const uint16_t *x, size_t n, float factor, double lanes[LANES])
{
    uint16_t rounded[CHUNK];
    float wide[CHUNK];
    products_f16(x, rounded, n, factor);
    gsc__widen_f16(F16C, rounded, wide, n);
    add_powers(GSC_F32, p, wide, n, 1.0, 1.0, lanes);
}

/* In pieces: the second reading of a piece comes from the first cache, so memory is never waited for twice. */
INLINE double max_and_powers(gsc__kind kind, int p, const gsc__run *run, double factor, double prescale, uint64_t *max)
{
    const size_t size = gsc__kind_size(kind);
    double lanes[LANES] = {0};
    *max = 0;
    for (size_t first = 0; first < run->count; first += CHUNK) {
        gsc__run piece = {(char *)run->data + first * size, run->count - first < CHUNK ? run->count - first : CHUNK};
        prefetch((uintptr_t)piece.data + PREFETCH_AHEAD, piece.count * size);
        uint64_t piece_max = scan(kind, SCAN_READ, &piece, 1, factor);
        *max = piece_max > *max ? piece_max : *max;
        if (kind == GSC_F16)
            add_powers_f16(p, piece.data, piece.count, (float)factor, lanes);
        else
            add_powers(kind, p, piece.data, piece.count, factor, prescale, lanes);
    }
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t lane = 0; lane < width; lane++)
            lanes[lane] += lanes[lane + width];
    return lanes[0];
}

/* Indices of gsc__partial.sums. */
typedef enum sum_range { ORDINARY_SUM, TINY_SUM, HUGE_SUM } sum_range;

/* Only float64 has magnitudes that are tiny or huge. */
INLINE sum_range range_of_sum(gsc__kind kind, uint64_t max)
{
    if (kind != GSC_F64 || max == 0)
        return ORDINARY_SUM;
    int exponent = (int)(max >> 52) - 1023;
    return exponent < -GSC_SAFE ? TINY_SUM : exponent >= GSC_SAFE ? HUGE_SUM : ORDINARY_SUM;
}

INLINE uint64_t norm(gsc__kind kind, int p, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    static const double prescales[] = {[ORDINARY_SUM] = 1.0, [TINY_SUM] = 0x1p600, [HUGE_SUM] = 0x1p-600};
    _Static_assert(GSC_PRESCALE == 600, "prescales");
    uint64_t max = 0;
    for (size_t k = 0; k < n_runs; k++) {
        uint64_t run_max;
        double sum = max_and_powers(kind, p, &runs[k], factor, 1.0, &run_max);
        sum_range range = range_of_sum(kind, run_max);
        if (range != ORDINARY_SUM)
            sum = max_and_powers(kind, p, &runs[k], factor, prescales[range], &run_max);
        partials[k] = (gsc__partial){.sums = {0.0, 0.0, 0.0}};
        partials[k].sums[range] = sum;
        max = run_max > max ? run_max : max;
    }
    return max;
}

INLINE uint64_t norm1(gsc__kind kind, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    return norm(kind, 1, runs, n_runs, factor, partials);
}

INLINE uint64_t norm2(gsc__kind kind, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    return norm(kind, 2, runs, n_runs, factor, partials);
}

#endif
