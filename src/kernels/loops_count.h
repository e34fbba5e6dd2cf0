/* SPDX-License-Identifier: Apache-2.0 */
/* loops_count.h: how many products are infinite or NaN, and where the first of them is. loops.h says what the includer
 * defines. */
#ifndef GSC_KERNELS_LOOPS_COUNT_H
#define GSC_KERNELS_LOOPS_COUNT_H

#include "base/half_rows.h"
#include "kernels/kernels.h"
#include "kernels/loops_bits.h"
#include "kernels/loops_f16.h"

/* `limit`: the least magnitude that is infinite once it is rounded to the element type. `rest`: the number of elements
 * from the first one that is not finite to the end, 0 if all are finite; being a maximum, it vectorises. */
INLINE void count_words(gsc__kind kind, const void *x, int32_t n, float r, int32_t limit, gsc__partial *out)
{
    int32_t nonfinite = 0, nans = 0, rest = 0;
    for (int32_t left = n; left > 0; left--) {
        int32_t i = n - left;
        float value = kind == GSC_BF16 ? gsc__bf16_to_f32(((const uint16_t *)x)[i]) : ((const float *)x)[i];
        int32_t y = magnitude_f32(value * r), mask = -(y >= limit), rest_here = mask & left;
        nonfinite -= mask;
        nans += y > 0x7f800000;
        rest = rest_here > rest ? rest_here : rest;
    }
    out->counts.infs = (uint64_t)(nonfinite - nans);
    out->counts.nans = (uint64_t)nans;
    out->counts.first = (uint64_t)(n - rest);
}

INLINE void count_f64(const double *x, int64_t n, double r, gsc__partial *out)
{
    const int64_t infinity = (int64_t)gsc__kind_infinity(GSC_F64);
    int64_t nonfinite = 0, nans = 0, rest = 0;
    for (int64_t left = n; left > 0; left--) {
        int64_t y = magnitude_f64(x[n - left] * r), mask = -(int64_t)(y >= infinity), rest_here = mask & left;
        nonfinite -= mask;
        nans += y > infinity;
        rest = rest_here > rest ? rest_here : rest;
    }
    out->counts.infs = (uint64_t)(nonfinite - nans);
    out->counts.nans = (uint64_t)nans;
    out->counts.first = (uint64_t)(n - rest);
}

INLINE void count_f16(const uint16_t *x, size_t n, float r, gsc__partial *out)
{
    float wide[CHUNK];
    *out = (gsc__partial){.counts = {.first = n}};
    for (size_t first = 0; first < n; first += CHUNK) {
        size_t count = n - first < CHUNK ? n - first : CHUNK;
        gsc__widen_f16(F16C, x + first, wide, count);
        gsc__partial chunk;
        count_words(GSC_F32, wide, (int32_t)count, r, 0x477ff000 /* 65520 */, &chunk);
        if (out->counts.first == n && chunk.counts.first < count)
            out->counts.first = first + chunk.counts.first;
        out->counts.infs += chunk.counts.infs;
        out->counts.nans += chunk.counts.nans;
    }
}

/* Runs are shorter than 2^31. */
INLINE uint64_t count(gsc__kind kind, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    for (size_t k = 0; k < n_runs; k++) {
        const void *x = runs[k].data;
        size_t n = runs[k].count;
        switch (kind) {
        case GSC_F32: count_words(kind, x, (int32_t)n, (float)factor, 0x7f800000, &partials[k]); break;
        case GSC_F64: count_f64(x, (int64_t)n, factor, &partials[k]); break;
        case GSC_BF16: count_words(kind, x, (int32_t)n, (float)factor, 0x7f7f8000, &partials[k]); break;
        default: count_f16(x, n, (float)factor, &partials[k]); break;
        }
    }
    return 0;
}

#endif
