/* SPDX-License-Identifier: Apache-2.0 */
/* loops_scan.h: products, and the largest of their magnitudes as bits: what tells overflow, infinity from NaN, and max
 * |g| at the price of an or. A part of loops.h.
 *
 * float32, float64 and bfloat16 are written with vectors: loops with several accumulators, which no maximum waits for,
 * become vectors only by luck. */

enum {
    VECTORS = 4,           /* with a maximum each */
    LONG_RUN = 1 << 21,    /* bytes: more than caches near by hold, where asking costs more than it brings */
    PREFETCH_AHEAD = 8192, /* bytes between what is asked for and what is read */
    PREFETCH_RUNS = 8,    /* runs before its turn a run is asked for: nobody guesses where the next small tensor lies */
    PREFETCH_BYTES = 256, /* bytes of it that are asked for then */
    LINE = 64
};

typedef float vector_f32 __attribute__((vector_size(GSC_VECTOR)));
typedef int32_t bits_f32 __attribute__((vector_size(GSC_VECTOR)));
typedef double vector_f64 __attribute__((vector_size(GSC_VECTOR)));
typedef int64_t bits_f64 __attribute__((vector_size(GSC_VECTOR)));
typedef uint32_t words __attribute__((vector_size(GSC_VECTOR)));
typedef int16_t halves __attribute__((vector_size(GSC_VECTOR)));

INLINE uint64_t double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Magnitudes are compared as signed integers: the sign bit is clear, and SSE2 and AVX2 know no others. */
INLINE int32_t magnitude_f32(float value) { return (int32_t)(gsc__float_bits(value) & 0x7fffffffu); }
INLINE int64_t magnitude_f64(double value) { return (int64_t)(double_bits(value) & 0x7fffffffffffffffu); }

/* Addresses, since no pointer may point beyond its array. */
INLINE void prefetch(uintptr_t address, size_t bytes)
{
    for (size_t byte = 0; byte < bytes; byte += LINE)
        __builtin_prefetch((const void *)(address + byte));
}

INLINE void prefetch_run(const gsc__run *run, size_t element_size)
{
    size_t bytes = run->count * element_size;
    prefetch((uintptr_t)run->data, bytes < PREFETCH_BYTES ? bytes : PREFETCH_BYTES);
}

/* scan_runs_KIND: all runs through scan_vector_KIND, several vectors a step, and the rest through scan_one_KIND, whose
 * maximum it returns. Long runs are asked for `burst` bytes at a time: many where memory is all that limits, few where
 * there is arithmetic meanwhile. */
#define DEFINE_SCAN_RUNS(kind, element, real, burst)                                                                   \
    INLINE int64_t scan_runs_##kind(const gsc__run *runs, size_t n_runs, real r, bool store, seen_##kind *seen)        \
    {                                                                                                                  \
        const size_t one = GSC_VECTOR / sizeof(element), step = VECTORS * one;                                         \
        int64_t max = 0;                                                                                               \
        for (size_t k = 0; k < n_runs; k++) {                                                                          \
            if (k + PREFETCH_RUNS < n_runs)                                                                            \
                prefetch_run(&runs[k + PREFETCH_RUNS], sizeof(element));                                               \
            element *x = runs[k].data;                                                                                 \
            size_t n = runs[k].count, steps = n - n % step, whole = n - n % one, i = 0;                                \
            const size_t part = (burst) / sizeof *x;                                                                   \
            for (size_t far = n >= LONG_RUN / sizeof *x ? n - n % part : 0; i < far; i += part) {                      \
                prefetch((uintptr_t)(x + i) + PREFETCH_AHEAD, burst);                                                  \
                for (size_t j = i; j < i + part; j += step)                                                            \
                    for (size_t v = 0; v < VECTORS; v++)                                                               \
                        scan_vector_##kind(x + j + v * one, r, store, seen, v);                                        \
            }                                                                                                          \
            for (; i < steps; i += step)                                                                               \
                for (size_t v = 0; v < VECTORS; v++)                                                                   \
                    scan_vector_##kind(x + i + v * one, r, store, seen, v);                                            \
            for (; i < whole; i += one)                                                                                \
                scan_vector_##kind(x + i, r, store, seen, 0);                                                          \
            for (; i < n; i++) {                                                                                       \
                int64_t y = scan_one_##kind(x + i, r, store);                                                          \
                max = y > max ? y : max;                                                                               \
            }                                                                                                          \
        }                                                                                                              \
        return max;                                                                                                    \
    }

/* |x * r| as bits; stores the product. */
INLINE int64_t scan_one_f32(float *x, float r, bool store)
{
    float y = *x * r;
    if (store)
        *x = y;
    return magnitude_f32(y);
}

INLINE bits_f32 larger_f32(bits_f32 a, bits_f32 b)
{
#ifdef GSC_MAX_I32
    return GSC_MAX_I32(a, b);
#else
    bits_f32 greater = a > b;
    return (a & greater) | (b & ~greater);
#endif
}

INLINE int32_t max_f32(const bits_f32 seen[VECTORS])
{
    bits_f32 all = larger_f32(larger_f32(seen[0], seen[1]), larger_f32(seen[2], seen[3]));
    int32_t max = 0;
    for (size_t lane = 0; lane < sizeof all / sizeof all[0]; lane++)
        max = all[lane] > max ? all[lane] : max;
    return max;
}

typedef struct seen_f32 {
    bits_f32 max[VECTORS];
} seen_f32;

INLINE void scan_vector_f32(float *x, float r, bool store, seen_f32 *seen, size_t v)
{
    vector_f32 y;
    memcpy(&y, x, sizeof y);
    y *= r;
    if (store)
        memcpy(x, &y, sizeof y);
    seen->max[v] = larger_f32((bits_f32)y & INT32_MAX, seen->max[v]);
}

DEFINE_SCAN_RUNS(f32, float, float, 8192)

INLINE uint64_t scan_f32(const gsc__run *runs, size_t n_runs, float r, bool store)
{
    seen_f32 seen = {.max = {{0}}};
    int64_t max = scan_runs_f32(runs, n_runs, r, store, &seen), seen_max = max_f32(seen.max);
    return (uint64_t)(seen_max > max ? seen_max : max);
}

INLINE int64_t scan_one_f64(double *x, double r, bool store)
{
    double y = *x * r;
    if (store)
        *x = y;
    return magnitude_f64(y);
}

typedef struct seen_f64 {
    bits_f64 max[VECTORS];
} seen_f64;

/* For targets that cannot compare 64-bit integers: the sign of the difference tells which is larger. */
INLINE bits_f64 max_without_compare(bits_f64 a, bits_f64 b)
{
    bits_f64 difference = a - b;
    return b + (difference & ~(difference >> 63));
}

INLINE bits_f64 larger_f64(bits_f64 a, bits_f64 b)
{
#ifdef GSC_MAX_I64
    return GSC_MAX_I64(a, b);
#else
    bits_f64 greater = a > b;
    return (a & greater) | (b & ~greater);
#endif
}

INLINE void scan_vector_f64(double *x, double r, bool store, seen_f64 *seen, size_t v)
{
    vector_f64 y;
    memcpy(&y, x, sizeof y);
    y *= r;
    if (store)
        memcpy(x, &y, sizeof y);
    bits_f64 magnitude = (bits_f64)y & INT64_MAX;
    seen->max[v] = larger_f64(magnitude, seen->max[v]);
}

DEFINE_SCAN_RUNS(f64, double, double, 8192)

INLINE int64_t max_f64(const seen_f64 *seen)
{
    bits_f64 all = larger_f64(larger_f64(seen->max[0], seen->max[1]), larger_f64(seen->max[2], seen->max[3]));
    int64_t max = 0;
    for (size_t lane = 0; lane < sizeof all / sizeof all[0]; lane++)
        max = all[lane] > max ? all[lane] : max;
    return max;
}

INLINE uint64_t scan_f64(const gsc__run *runs, size_t n_runs, double r, bool store)
{
    seen_f64 seen = {.max = {{0}}};
    int64_t max = scan_runs_f64(runs, n_runs, r, store, &seen);
    int64_t seen_max = max_f64(&seen);
    return (uint64_t)(seen_max > max ? seen_max : max);
}

/* The product of a bfloat16, given and returned in the upper half of a word; the lower half becomes arbitrary. The
 * lower half of a NaN product is zero like that of its factor, so rounding leaves NaNs as they are. */
INLINE uint32_t product_bf16(uint32_t upper, float r)
{
    uint32_t bits = gsc__float_bits(gsc__bits_float(upper) * r);
    return bits + 0x7fffu + ((bits >> 16) & 1u);
}

INLINE words products_bf16(words upper, float r)
{
    words bits = (words)((vector_f32)upper * r);
    return bits + 0x7fffu + ((bits >> 16) & 1u);
}

INLINE halves larger_halves(halves a, halves b)
{
#ifdef GSC_MAX_I16
    return GSC_MAX_I16(a, b);
#else
    halves greater = a > b;
    return (a & greater) | (b & ~greater);
#endif
}

INLINE int16_t max_halves(const halves seen[VECTORS])
{
    halves all = larger_halves(larger_halves(seen[0], seen[1]), larger_halves(seen[2], seen[3]));
    int16_t max = 0;
    for (size_t lane = 0; lane < sizeof all / sizeof all[0]; lane++)
        max = all[lane] > max ? all[lane] : max;
    return max;
}

INLINE int64_t scan_one_bf16(uint16_t *x, float r, bool store)
{
    uint16_t y = (uint16_t)(product_bf16((uint32_t)*x << 16, r) >> 16);
    if (store)
        *x = y;
    return y & INT16_MAX;
}

typedef struct seen_bf16 {
    halves max[VECTORS];
} seen_bf16;

/* Two at a time, in the halves of a word: nothing is widened or narrowed. */
INLINE void scan_vector_bf16(uint16_t *x, float r, bool store, seen_bf16 *seen, size_t v)
{
    words pairs;
    memcpy(&pairs, x, sizeof pairs);
    pairs = (products_bf16(pairs & 0xffff0000u, r) & 0xffff0000u) | (products_bf16(pairs << 16, r) >> 16);
    if (store)
        memcpy(x, &pairs, sizeof pairs);
    seen->max[v] = larger_halves((halves)pairs & INT16_MAX, seen->max[v]);
}

DEFINE_SCAN_RUNS(bf16, uint16_t, float, 256)

INLINE uint64_t scan_bf16(const gsc__run *runs, size_t n_runs, float r, bool store)
{
    seen_bf16 seen = {.max = {{0}}};
    int64_t max = scan_runs_bf16(runs, n_runs, r, store, &seen);
    int64_t seen_max = max_halves(seen.max);
    return (uint64_t)(seen_max > max ? seen_max : max);
}

#include "kernels/loops_f16.h"
#include "kernels/loops_look.h"

INLINE uint64_t scan(gsc__kind kind, const gsc__run *runs, size_t n_runs, double factor, bool store)
{
    switch (kind) {
    case GSC_F32: return scan_f32(runs, n_runs, (float)factor, store);
    case GSC_F64: return scan_f64(runs, n_runs, factor, store);
    case GSC_BF16: return scan_bf16(runs, n_runs, (float)factor, store);
    default: return scan_f16(runs, n_runs, (float)factor, store);
    }
}
