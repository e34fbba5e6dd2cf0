/* SPDX-License-Identifier: Apache-2.0 */
/* loops_norm.h: sums of |y|^p for p = 1 and 2, for norms; y = x * factor, rounded to the element's type. loops.h says
 * what the includer defines.
 *
 * Each run is read once, but a float64 run whose largest magnitude is tiny or huge is read again: its squares may leave
 * double's range, so the second time its magnitudes are prescaled by a power of two. */
#ifndef GSC_KERNELS_LOOPS_NORM_H
#define GSC_KERNELS_LOOPS_NORM_H

#include <math.h>

#include "kernels/loops_f16.h"
#include "kernels/loops_scan.h"
#include "kernels/loops_vector.h"

enum { LANES = 16 /* independent partial sums, whatever the vector width */ };
_Static_assert(CHUNK % LANES == 0, "every chunk has to begin with lane 0");

/* |y| of one float32 or float64 element. Only float64 is ever prescaled: in double the squares of the other kinds
 * neither over- nor underflow. */
INLINE double magnitude_at(gsc__kind kind, const void *x, size_t i, double factor, double prescale)
{
    if (kind == GSC_F64)
        return fabs(((const double *)x)[i] * factor) * prescale;
    return (double)fabsf(((const float *)x)[i] * (float)factor);
}

INLINE double power(int p, double magnitude) { return p == 1 ? magnitude : magnitude * magnitude; }

/* Adds |y|^p of element i to lane i % LANES. Only the last piece of a run may have an n that is no multiple of LANES.
 */
INLINE void add_powers(gsc__kind kind, int p, const void *x, size_t n, double factor, double prescale,
                       double lanes[LANES])
{
    size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++) {
            double magnitude = magnitude_at(kind, x, i + lane, factor, prescale);
            lanes[lane] += power(p, magnitude);
        }
    for (size_t i = whole; i < n; i++) {
        double magnitude = magnitude_at(kind, x, i, factor, prescale);
        lanes[i - whole] += power(p, magnitude);
    }
}

/* wide = |y| of at most CHUNK bfloat16 elements. Returns the bits of the largest. */
INLINE int64_t widen_magnitudes_bf16(const uint16_t *x, float *wide, size_t n, float factor)
{
    int32_t max = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t y = product_bf16((uint32_t)x[i] << 16, factor) & 0x7fff0000u;
        wide[i] = gsc__bits_float(y);
        max = (int32_t)y > max ? (int32_t)y : max;
    }
    return max >> 16;
}

/* The same of float16 elements. */
INLINE int64_t widen_magnitudes_f16(const uint16_t *x, float *wide, size_t n, float factor)
{
    uint16_t y[CHUNK];
    int16_t max = 0;
    products_f16(x, y, n, factor);
    for (size_t i = 0; i < n; i++) {
        y[i] &= INT16_MAX;
        max = (int16_t)y[i] > max ? (int16_t)y[i] : max;
    }
    gsc__widen_f16(F16C, y, wide, n);
    return max;
}

/* Adds |y|^p of at most CHUNK elements of a 16-bit kind. Returns the bits of the largest |y|. */
INLINE int64_t max_and_powers_half(gsc__kind kind, int p, const void *x, size_t n, float factor, double lanes[LANES])
{
    float wide[CHUNK];
    int64_t max =
        kind == GSC_BF16 ? widen_magnitudes_bf16(x, wide, n, factor) : widen_magnitudes_f16(x, wide, n, factor);
    add_powers(GSC_F32, p, wide, n, 1.0, 1.0, lanes);
    return max;
}

/* Returns the sum of (|y| * prescale)^p over a run. *max_bits becomes the bits of the largest |y|, not prescaled. The
 * run is processed in pieces: the maximum reads a piece from memory, then the sum reads it from the first-level
 * cache. */
INLINE double max_and_powers(gsc__kind kind, int p, const gsc__run *run, double factor, double prescale,
                             uint64_t *max_bits)
{
    const size_t size = gsc__kind_size(kind);
    double lanes[LANES] = {0};
    maxima max = {.rest = 0};
    for (size_t first = 0; first < run->count; first += CHUNK) {
        gsc__run piece = {(char *)run->data + first * size, run->count - first < CHUNK ? run->count - first : CHUNK};
        prefetch((uintptr_t)piece.data + PREFETCH_AHEAD, piece.count * size);
        if (kind == GSC_BF16 || kind == GSC_F16) {
            int64_t piece_max = max_and_powers_half(kind, p, piece.data, piece.count, (float)factor, lanes);
            max.rest = piece_max > max.rest ? piece_max : max.rest;
        } else {
            scan_run(kind, SCAN_READ, &piece, factor, &max);
            add_powers(kind, p, piece.data, piece.count, factor, prescale, lanes);
        }
    }
    *max_bits = largest(lane_size(kind, SCAN_READ), &max);
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t lane = 0; lane < width; lane++)
            lanes[lane] += lanes[lane + width];
    return lanes[0];
}

/* Indices of gsc__partial.sums. */
typedef enum sum_range { ORDINARY_SUM, TINY_SUM, HUGE_SUM } sum_range;

/* The range of a run whose largest |y| has the bits max_bits. Only float64 has magnitudes below 2^-GSC_SAFE or from
 * 2^GSC_SAFE on, whose squares, or sums of them, could leave double's range. */
INLINE sum_range range_of_sum(gsc__kind kind, uint64_t max_bits)
{
    if (kind != GSC_F64 || max_bits == 0)
        return ORDINARY_SUM;
    int exponent = (int)(max_bits >> 52) - 1023;
    return exponent < -GSC_SAFE ? TINY_SUM : exponent >= GSC_SAFE ? HUGE_SUM : ORDINARY_SUM;
}

INLINE uint64_t norm(gsc__kind kind, int p, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    static const double prescales[] = {[ORDINARY_SUM] = 1.0, [TINY_SUM] = 0x1p600, [HUGE_SUM] = 0x1p-600};
    _Static_assert(GSC_PRESCALE == 600, "prescales[] must be 2^GSC_PRESCALE and 2^-GSC_PRESCALE");
    uint64_t max_bits = 0;
    for (size_t k = 0; k < n_runs; k++) {
        uint64_t run_max_bits;
        double sum = max_and_powers(kind, p, &runs[k], factor, 1.0, &run_max_bits);
        sum_range range = range_of_sum(kind, run_max_bits);
        if (range != ORDINARY_SUM)
            sum = max_and_powers(kind, p, &runs[k], factor, prescales[range], &run_max_bits);
        partials[k] = (gsc__partial){.sums = {0.0, 0.0, 0.0}};
        partials[k].sums[range] = sum;
        max_bits = run_max_bits > max_bits ? run_max_bits : max_bits;
    }
    return max_bits;
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
