/* SPDX-License-Identifier: Apache-2.0 */
/* loops_scan.h: products, and the largest of their magnitudes as bits: what tells overflow, infinity from NaN, and max
 * |g| at the price of an or. A part of loops.h.
 *
 * float32 and float64 are written with vectors: loops with several accumulators, which no maximum waits for, become
 * vectors only by luck. */

enum {
    VECTORS = 4,    /* with a maximum each */
    AHEAD = 4096,   /* bytes: what long runs ask for before they read it */
    LONG = 1 << 18, /* bytes: more than lies in the near caches, where asking costs more than it brings */
    LINE = 64
};

typedef float vector_f32 __attribute__((vector_size(GSC_VECTOR)));
typedef int32_t bits_f32 __attribute__((vector_size(GSC_VECTOR)));
typedef double vector_f64 __attribute__((vector_size(GSC_VECTOR)));
typedef int64_t bits_f64 __attribute__((vector_size(GSC_VECTOR)));

INLINE uint64_t double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Magnitudes are compared as signed integers: the sign bit is clear, and SSE2 and AVX2 know no others. */
INLINE int32_t magnitude_f32(float value) { return (int32_t)(gsc_float_bits(value) & 0x7fffffffu); }
INLINE int64_t magnitude_f64(double value) { return (int64_t)(double_bits(value) & 0x7fffffffffffffffu); }

/* |x[i] * r| as bits; stores the product. */
INLINE int32_t product_f32(float *x, size_t i, float r, bool store)
{
    float y = x[i] * r;
    if (store)
        x[i] = y;
    return magnitude_f32(y);
}

INLINE int64_t product_f64(double *x, size_t i, double r, bool store)
{
    double y = x[i] * r;
    if (store)
        x[i] = y;
    return magnitude_f64(y);
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

/* The same for a vector. */
INLINE void scan_vector_f32(float *x, float r, bool store, bits_f32 *max)
{
    vector_f32 y;
    memcpy(&y, x, sizeof y);
    y *= r;
    if (store)
        memcpy(x, &y, sizeof y);
    *max = larger_f32((bits_f32)y & INT32_MAX, *max);
}

INLINE void scan_vectors_f32(float *x, float r, bool store, bits_f32 max[VECTORS])
{
    for (size_t k = 0; k < VECTORS; k++)
        scan_vector_f32(x + k * (GSC_VECTOR / sizeof *x), r, store, &max[k]);
}

INLINE void prefetch_vectors(const void *x)
{
    for (size_t byte = 0; byte < VECTORS * GSC_VECTOR; byte += LINE)
        __builtin_prefetch((const char *)x + AHEAD + byte);
}

INLINE uint64_t scan_f32(const gsc_run *runs, size_t n_runs, float r, bool store)
{
    enum { ONE = GSC_VECTOR / sizeof(float), STEP = VECTORS * ONE };
    bits_f32 vectors[VECTORS] = {{0}};
    int32_t max = 0;
    for (size_t k = 0; k < n_runs; k++) {
        float *x = runs[k].data;
        size_t n = runs[k].count, steps = n - n % STEP, whole = n - n % ONE, i = 0;
        for (size_t far = n >= LONG / sizeof *x ? steps : 0; i < far; i += STEP) {
            prefetch_vectors(x + i);
            scan_vectors_f32(x + i, r, store, vectors);
        }
        for (; i < steps; i += STEP)
            scan_vectors_f32(x + i, r, store, vectors);
        for (; i < whole; i += ONE)
            scan_vector_f32(x + i, r, store, &vectors[0]);
        for (; i < n; i++) {
            int32_t y = product_f32(x, i, r, store);
            max = y > max ? y : max;
        }
    }
    vectors[0] = larger_f32(larger_f32(vectors[0], vectors[1]), larger_f32(vectors[2], vectors[3]));
    for (size_t lane = 0; lane < ONE; lane++)
        max = vectors[0][lane] > max ? vectors[0][lane] : max;
    return (uint64_t)max;
}

/* What has been seen of float64. */
typedef struct seen_f64 {
#ifdef GSC_MAX_F64
    vector_f64 max[VECTORS]; /* NaNs get lost here, */
    vector_f64 sum[VECTORS]; /* and stay here */
#else
    bits_f64 max[VECTORS];
#endif
} seen_f64;

INLINE void scan_vector_f64(double *x, double r, bool store, seen_f64 *seen, size_t k)
{
    vector_f64 y;
    memcpy(&y, x, sizeof y);
    y *= r;
    if (store)
        memcpy(x, &y, sizeof y);
    bits_f64 magnitude = (bits_f64)y & INT64_MAX;
#ifdef GSC_MAX_F64
    seen->max[k] = GSC_MAX_F64((vector_f64)magnitude, seen->max[k]);
    seen->sum[k] += (vector_f64)magnitude;
#elif defined(GSC_MAX_I64)
    seen->max[k] = GSC_MAX_I64(magnitude, seen->max[k]);
#else
    bits_f64 greater = magnitude > seen->max[k];
    seen->max[k] = (magnitude & greater) | (seen->max[k] & ~greater);
#endif
}

INLINE void scan_vectors_f64(double *x, double r, bool store, seen_f64 *seen)
{
    for (size_t k = 0; k < VECTORS; k++)
        scan_vector_f64(x + k * (GSC_VECTOR / sizeof *x), r, store, seen, k);
}

/* Whether a NaN has been lost. */
INLINE bool lost_nan_f64(const seen_f64 *seen)
{
#ifdef GSC_MAX_F64
    vector_f64 sum = (seen->sum[0] + seen->sum[1]) + (seen->sum[2] + seen->sum[3]);
    bool lost = false;
    for (size_t lane = 0; lane < sizeof sum / sizeof sum[0]; lane++)
        lost |= magnitude_f64(sum[lane]) > (int64_t)gsc_kind_infinity(GSC_F64);
    return lost;
#else
    (void)seen;
    return false;
#endif
}

INLINE int64_t max_f64(const seen_f64 *seen)
{
    int64_t max = 0;
    for (size_t k = 0; k < VECTORS; k++)
        for (size_t lane = 0; lane < sizeof seen->max[k] / sizeof seen->max[k][0]; lane++) {
            int64_t bits = ((bits_f64)seen->max[k])[lane];
            max = bits > max ? bits : max;
        }
    return max;
}

/* One at a time. */
INLINE uint64_t scan_slowly_f64(const gsc_run *runs, size_t n_runs, double r)
{
    int64_t max = 0;
    for (size_t k = 0; k < n_runs; k++)
        for (size_t i = 0; i < runs[k].count; i++) {
            int64_t y = product_f64(runs[k].data, i, r, false);
            max = y > max ? y : max;
        }
    return (uint64_t)max;
}

INLINE uint64_t scan_f64(const gsc_run *runs, size_t n_runs, double r, bool store)
{
    enum { ONE = GSC_VECTOR / sizeof(double), STEP = VECTORS * ONE };
    seen_f64 seen = {.max = {{0}}};
    int64_t max = 0;
    for (size_t k = 0; k < n_runs; k++) {
        double *x = runs[k].data;
        size_t n = runs[k].count, steps = n - n % STEP, whole = n - n % ONE, i = 0;
        for (size_t far = n >= LONG / sizeof *x ? steps : 0; i < far; i += STEP) {
            prefetch_vectors(x + i);
            scan_vectors_f64(x + i, r, store, &seen);
        }
        for (; i < steps; i += STEP)
            scan_vectors_f64(x + i, r, store, &seen);
        for (; i < whole; i += ONE)
            scan_vector_f64(x + i, r, store, &seen, 0);
        for (; i < n; i++) {
            int64_t y = product_f64(x, i, r, store);
            max = y > max ? y : max;
        }
    }
    if (lost_nan_f64(&seen))
        return scan_slowly_f64(runs, n_runs, store ? 1.0 : r);
    int64_t seen_max = max_f64(&seen);
    return (uint64_t)(seen_max > max ? seen_max : max);
}

/* The product of a bfloat16, given and returned in the upper half of a word; the lower half becomes arbitrary. The
 * lower half of a NaN product is zero like that of its factor, so rounding leaves NaNs as they are. */
INLINE uint32_t product_bf16(uint32_t upper, float r)
{
    uint32_t bits = gsc_float_bits(gsc_bits_float(upper) * r);
    return bits + 0x7fffu + ((bits >> 16) & 1u);
}

/* Two at a time, in the halves of a word: nothing is widened or narrowed. */
INLINE uint64_t scan_bf16(uint16_t *x, size_t n, float r, bool store)
{
    int32_t max_upper = 0, max_lower = 0;
    for (size_t i = 0; i < n / 2; i++) {
        uint32_t pair;
        memcpy(&pair, x + 2 * i, sizeof pair);
        pair = (product_bf16(pair & 0xffff0000u, r) & 0xffff0000u) | (product_bf16(pair << 16, r) >> 16);
        if (store)
            memcpy(x + 2 * i, &pair, sizeof pair);
        int32_t upper = (int32_t)(pair & 0x7fff0000u), lower = (int32_t)(pair & 0x7fffu);
        max_upper = upper > max_upper ? upper : max_upper;
        max_lower = lower > max_lower ? lower : max_lower;
    }
    int32_t max = max_upper >> 16 > max_lower ? max_upper >> 16 : max_lower;
    if (n % 2 != 0) {
        uint16_t y = (uint16_t)(product_bf16((uint32_t)x[n - 1] << 16, r) >> 16);
        if (store)
            x[n - 1] = y;
        max = (y & 0x7fff) > max ? y & 0x7fff : max;
    }
    return (uint64_t)max;
}

GSC_TARGET static inline void widen_f16(const uint16_t *x, float *y, size_t n)
{
    size_t i = 0;
#ifdef GSC_F16C
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
#endif
    for (; i < n; i++)
        y[i] = gsc_f16_to_f32(x[i]);
}

GSC_TARGET static inline void narrow_f16(const float *x, uint16_t *y, size_t n)
{
    size_t i = 0;
#ifdef GSC_F16C
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(y + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++)
        y[i] = gsc_f32_to_f16(x[i]);
}

/* y = x * r for at most CHUNK elements; y may be x. */
INLINE void products_f16(const uint16_t *x, uint16_t *y, size_t n, float r)
{
    float wide[CHUNK];
    widen_f16(x, wide, n);
    for (size_t i = 0; i < n; i++)
        wide[i] *= r;
    narrow_f16(wide, y, n);
}

INLINE uint64_t scan_f16(uint16_t *x, size_t n, float r, bool store)
{
    int16_t max = 0;
    uint16_t rounded[CHUNK];
    for (size_t first = 0; first < n; first += CHUNK) {
        size_t count = n - first < CHUNK ? n - first : CHUNK;
        uint16_t *y = store ? x + first : rounded;
        products_f16(x + first, y, count, r);
        for (size_t i = 0; i < count; i++) {
            int16_t magnitude = (int16_t)(y[i] & 0x7fff);
            max = magnitude > max ? magnitude : max;
        }
    }
    return (uint64_t)max;
}

INLINE uint64_t scan_halves(gsc_kind kind, const gsc_run *runs, size_t n_runs, float r, bool store)
{
    uint64_t max = 0;
    for (size_t k = 0; k < n_runs; k++) {
        uint64_t run_max = kind == GSC_BF16 ? scan_bf16(runs[k].data, runs[k].count, r, store)
                                            : scan_f16(runs[k].data, runs[k].count, r, store);
        max = run_max > max ? run_max : max;
    }
    return max;
}

INLINE uint64_t scan(gsc_kind kind, const gsc_run *runs, size_t n_runs, double factor, bool store)
{
    switch (kind) {
    case GSC_F32: return scan_f32(runs, n_runs, (float)factor, store);
    case GSC_F64: return scan_f64(runs, n_runs, factor, store);
    default: return scan_halves(kind, runs, n_runs, (float)factor, store);
    }
}
