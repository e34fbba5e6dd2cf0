/* SPDX-License-Identifier: Apache-2.0 */
/* loops.h: the bodies of all kernels in plain C that compilers vectorise. Included once per instruction set by
 * isa_*.c, which define
 *
 *     GSC_TARGET         the target attribute of the kernels, or nothing
 *     GSC_TABLE          the table to define
 *     GSC_ISA_NAME       what gsc_isa() says
 *     GSC_VECTOR         bytes of a vector
 *     GSC_F16C           1 where the target converts float16 in hardware, else 0
 *     GSC_MAX_I16, GSC_MAX_I32, GSC_MAX_I64  the maxima of two vectors of signed integers that are not negative, where
 *                        a comparison and a choice are not the best that the target has
 *
 * Each body is inlined into a thin kernel with a constant `kind`, so that what depends on it is decided by the
 * compiler. Nothing here may depend on the vector width: results are the same bits everywhere. */
#include "kernels/kernels.h"

#include <math.h>

#include "base/half_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE GSC_TARGET static inline __attribute__((always_inline))

/* The bits of elements that are floats elsewhere. */
typedef uint32_t __attribute__((may_alias)) bits32;
typedef uint64_t __attribute__((may_alias)) bits64;

enum {
    LANES = 16,     /* independent partial sums, whatever the vector width */
    CHUNK = 256,    /* float16 elements that are converted at a time; a multiple of LANES */
    F16C = GSC_F16C /* float16 is converted in hardware */
};

#include "kernels/loops_scan.h"

INLINE uint64_t unscale(gsc__kind kind, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    (void)partials;
    return scan(kind, runs, n_runs, factor, true);
}

INLINE uint64_t check(gsc__kind kind, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    (void)partials;
    return scan(kind, runs, n_runs, factor, false);
}

/* |y| of one element, but for float16. */
INLINE double magnitude(gsc__kind kind, const void *x, size_t i, double factor, double prescale)
{
    if (kind == GSC_F64)
        return fabs(((const double *)x)[i] * factor) * prescale;
    if (kind == GSC_F32)
        return (double)fabsf(((const float *)x)[i] * (float)factor);
    uint32_t product = product_bf16((uint32_t)((const uint16_t *)x)[i] << 16, (float)factor);
    return (double)gsc__bits_float(product & 0x7fff0000u);
}

/* Element i goes to lane i % LANES; n is a multiple of LANES but for the last elements of a run. */
INLINE void add_powers(gsc__kind kind, int p, const void *x, size_t n, double factor, double prescale,
                       double lanes[LANES])
{
    size_t whole = n - n % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++) {
            double y = magnitude(kind, x, i + lane, factor, prescale);
            lanes[lane] += p == 1 ? y : y * y;
        }
    for (size_t i = whole; i < n; i++) {
        double y = magnitude(kind, x, i, factor, prescale);
        lanes[i - whole] += p == 1 ? y : y * y;
    }
}

INLINE void add_powers_f16(int p, const uint16_t *x, size_t n, float r, double lanes[LANES])
{
    uint16_t rounded[CHUNK];
    float wide[CHUNK];
    for (size_t first = 0; first < n; first += CHUNK) {
        size_t count = n - first < CHUNK ? n - first : CHUNK;
        products_f16(x + first, rounded, count, r);
        gsc__widen_f16(F16C, rounded, wide, count);
        add_powers(GSC_F32, p, wide, count, 1.0, 1.0, lanes);
    }
}

/* In pieces, so that memory is read all the time: a whole run that is read twice keeps it waiting the second time. */
INLINE double max_and_powers(gsc__kind kind, int p, const gsc__run *run, double factor, double prescale, uint64_t *max)
{
    const size_t size = gsc__kind_size(kind);
    double lanes[LANES] = {0};
    *max = 0;
    for (size_t first = 0; first < run->count; first += CHUNK) {
        gsc__run piece = {(char *)run->data + first * size, run->count - first < CHUNK ? run->count - first : CHUNK};
        prefetch((uintptr_t)piece.data + PREFETCH_AHEAD, piece.count * size);
        uint64_t piece_max = scan(kind, &piece, 1, factor, false);
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

/* Only float64 reaches magnitudes that need another bin than the first. */
INLINE int bin_of(gsc__kind kind, uint64_t max)
{
    if (kind != GSC_F64 || max == 0)
        return 0;
    int exponent = (int)(max >> 52) - 1023;
    return exponent < -GSC_SAFE ? 1 : exponent >= GSC_SAFE ? 2 : 0;
}

INLINE uint64_t norm(gsc__kind kind, int p, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    static const double prescales[3] = {1.0, 0x1p600, 0x1p-600};
    _Static_assert(GSC_PRESCALE == 600, "prescales");
    uint64_t max = 0;
    for (size_t k = 0; k < n_runs; k++) {
        uint64_t run_max;
        double sum = max_and_powers(kind, p, &runs[k], factor, 1.0, &run_max);
        int bin = bin_of(kind, run_max);
        if (bin != 0)
            sum = max_and_powers(kind, p, &runs[k], factor, prescales[bin], &run_max);
        partials[k] = (gsc__partial){.sums = {0.0, 0.0, 0.0}};
        partials[k].sums[bin] = sum;
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

/* Products from `least` on are infinite once rounded to the element type. `rest` counts from the first element that is
 * not finite to the end: it is a maximum, which vectorises, and 0 means none. */
INLINE void count_words(gsc__kind kind, const void *x, int32_t n, float r, int32_t least, gsc__partial *out)
{
    int32_t bad = 0, nans = 0, rest = 0;
    for (int32_t left = n; left > 0; left--) {
        int32_t i = n - left;
        float value = kind == GSC_BF16 ? gsc__bf16_to_f32(((const uint16_t *)x)[i]) : ((const float *)x)[i];
        int32_t y = magnitude_f32(value * r), is_bad = -(y >= least), here = is_bad & left;
        bad -= is_bad;
        nans += y > 0x7f800000;
        rest = here > rest ? here : rest;
    }
    out->counts.infs = (uint64_t)(bad - nans);
    out->counts.nans = (uint64_t)nans;
    out->counts.first = (uint64_t)(n - rest);
}

INLINE void count_f64(const double *x, int64_t n, double r, gsc__partial *out)
{
    const int64_t infinity = (int64_t)gsc__kind_infinity(GSC_F64);
    int64_t bad = 0, nans = 0, rest = 0;
    for (int64_t left = n; left > 0; left--) {
        int64_t y = magnitude_f64(x[n - left] * r), is_bad = -(int64_t)(y >= infinity), here = is_bad & left;
        bad -= is_bad;
        nans += y > infinity;
        rest = here > rest ? here : rest;
    }
    out->counts.infs = (uint64_t)(bad - nans);
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

INLINE void clamp_f64(bits64 *x, size_t n, double limit)
{
    const int64_t most = magnitude_f64(limit), infinity = (int64_t)gsc__kind_infinity(GSC_F64);
    for (size_t i = 0; i < n; i++) {
        int64_t y = (int64_t)(x[i] & 0x7fffffffffffffffu);
        uint64_t clamped = (x[i] ^ (uint64_t)y) | (uint64_t)most;
        x[i] = y > most && y <= infinity ? clamped : x[i];
    }
}

INLINE void clamp_f32(bits32 *x, size_t n, float limit)
{
    const int32_t most = magnitude_f32(limit), infinity = 0x7f800000;
    for (size_t i = 0; i < n; i++) {
        int32_t y = (int32_t)(x[i] & 0x7fffffffu);
        uint32_t clamped = (x[i] ^ (uint32_t)y) | (uint32_t)most;
        x[i] = y > most && y <= infinity ? clamped : x[i];
    }
}

INLINE void clamp_half(uint16_t *x, size_t n, uint16_t limit, int16_t infinity)
{
    const int16_t most = (int16_t)(limit & 0x7fff);
    for (size_t i = 0; i < n; i++) {
        int16_t y = (int16_t)(x[i] & 0x7fff);
        uint16_t clamped = (uint16_t)((x[i] & 0x8000) | most);
        x[i] = y > most && y <= infinity ? clamped : x[i];
    }
}

INLINE uint64_t clamp(gsc__kind kind, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    (void)partials;
    for (size_t k = 0; k < n_runs; k++) {
        void *x = runs[k].data;
        size_t n = runs[k].count;
        switch (kind) {
        case GSC_F32: clamp_f32(x, n, (float)factor); break;
        case GSC_F64: clamp_f64(x, n, factor); break;
        case GSC_BF16: clamp_half(x, n, gsc__f32_to_bf16((float)factor), 0x7f80); break;
        default: clamp_half(x, n, gsc__f32_to_f16((float)factor), 0x7c00); break;
        }
    }
    return 0;
}

#define DEFINE_KERNEL(op, kind)                                                                                        \
    GSC_TARGET static uint64_t op##_##kind(const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials) \
    {                                                                                                                  \
        return op(GSC_##kind, runs, n_runs, factor, partials);                                                         \
    }
GSC_KERNELS(DEFINE_KERNEL)

#define TABLE_ENTRY(op, kind) .op[GSC_##kind] = op##_##kind,
const gsc__kernel_table GSC_TABLE = {.isa = GSC_ISA_NAME, GSC_KERNELS(TABLE_ENTRY)};
