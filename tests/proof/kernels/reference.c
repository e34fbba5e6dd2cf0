/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: the results that kernels must give, computed with integers. */
#include "reference.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

__extension__ typedef unsigned __int128 wide;

/* IEEE 754 binary formats by their two numbers. */
typedef struct format {
    int mantissa_bits, bias;
} format;

static const format float32 = {23, 127}, float64 = {52, 1023}, bfloat16 = {7, 127}, float16 = {10, 15}; /* ref_type */

/* significand * 2^exponent; nothing here is negative. */
typedef struct number {
    uint64_t significand;
    int exponent;
} number;

enum { MOST_BITS = 61 }; /* of a significand that is to be rounded */

INLINE uint64_t infinity_of(format f) { return (uint64_t)(2 * f.bias + 1) << f.mantissa_bits; }
INLINE uint64_t sign_of(format f) { return (uint64_t)(2 * f.bias + 2) << f.mantissa_bits; }

INLINE number decode(format f, uint64_t magnitude)
{
    uint64_t hidden = UINT64_C(1) << f.mantissa_bits, mantissa = magnitude & (hidden - 1);
    int field = (int)(magnitude >> f.mantissa_bits), lowest = -f.bias - f.mantissa_bits;
    return field == 0 ? (number){mantissa, 1 + lowest} : (number){mantissa | hidden, field + lowest};
}

/* To nearest, ties to even; from halfway past the largest number on it is infinity. */
INLINE uint64_t encode(format f, number x)
{
    if (x.significand == 0)
        return 0;
    int top = 63 - __builtin_clzll(x.significand) + x.exponent; /* 2^top <= x */
    int binade = top < 1 - f.bias ? 1 - f.bias : top;
    int drop = binade - f.mantissa_bits - x.exponent; /* bits below the last place that is kept */
    uint64_t kept;
    if (drop <= 0) {
        kept = x.significand << -drop;
    } else if (drop > MOST_BITS) {
        kept = 0; /* below half of the last place */
    } else {
        uint64_t rest = x.significand & ((UINT64_C(1) << drop) - 1), half = UINT64_C(1) << (drop - 1);
        kept = x.significand >> drop;
        kept += rest > half || (rest == half && (kept & 1) != 0);
    }
    /* The hidden bit adds one to the exponent field; so does rounding up to the next power of two. */
    uint64_t bits = ((uint64_t)(binade + f.bias - 1) << f.mantissa_bits) + kept;
    return bits < infinity_of(f) ? bits : infinity_of(f);
}

/* At most MOST_BITS bits; the last says whether any that are gone were set, so that rounding later is right. */
INLINE number squeeze(wide significand, int exponent)
{
    uint64_t excess = (uint64_t)(significand >> MOST_BITS);
    if (excess == 0)
        return (number){(uint64_t)significand, exponent};
    int drop = 64 - __builtin_clzll(excess);
    bool inexact = (significand & (((wide)1 << drop) - 1)) != 0;
    return (number){(uint64_t)(significand >> drop) | inexact, exponent + drop};
}

INLINE uint64_t product(format stored, format computed, uint64_t bits, number r)
{
    uint64_t sign = bits & sign_of(stored), magnitude = bits ^ sign;
    if (magnitude > infinity_of(stored))
        return bits | UINT64_C(1) << (stored.mantissa_bits - 1);
    if (magnitude == infinity_of(stored))
        return bits;
    number x = decode(stored, magnitude);
    number exact = {x.significand * r.significand, x.exponent + r.exponent};
    if (2 * (computed.mantissa_bits + 1) > MOST_BITS)
        exact = squeeze((wide)x.significand * r.significand, exact.exponent);
    magnitude = encode(computed, exact);
    if (stored.mantissa_bits != computed.mantissa_bits)
        magnitude =
            magnitude == infinity_of(computed) ? infinity_of(stored) : encode(stored, decode(computed, magnitude));
    return sign | magnitude;
}

static uint64_t double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE size_t size_of(format f) { return f.mantissa_bits == 52 ? 8 : f.mantissa_bits == 23 ? 4 : 2; }

INLINE uint64_t get(format f, const void *x, size_t index)
{
    uint64_t bits = 0; /* little-endian, like every processor with a kernel of its own */
    memcpy(&bits, (const char *)x + index * size_of(f), size_of(f));
    return bits;
}

INLINE void set(format f, void *x, size_t index, uint64_t bits)
{
    memcpy((char *)x + index * size_of(f), &bits, size_of(f));
}

INLINE void products(format f, const void *x, size_t n, double r, void *y)
{
    const format computed = f.mantissa_bits == 52 ? float64 : float32;
    number factor = decode(float64, double_bits(r));
    factor = decode(computed, encode(computed, factor));
    for (size_t i = 0; i < n; i++)
        set(f, y, i, product(f, computed, get(f, x, i), factor));
}

INLINE void maximum(format f, const void *x, size_t n, uint64_t *max)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t magnitude = get(f, x, i) & ~sign_of(f);
        *max = magnitude > *max ? magnitude : *max;
    }
}

INLINE void count(format f, const void *x, size_t n, uint64_t *infs, uint64_t *nans)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t magnitude = get(f, x, i) & ~sign_of(f);
        *infs += magnitude == infinity_of(f);
        *nans += magnitude > infinity_of(f);
    }
}

INLINE double value(format f, uint64_t bits)
{
    if (f.mantissa_bits == float32.mantissa_bits) { /* the most by far; the processor's conversion is exact */
        uint32_t pattern = (uint32_t)bits;
        float single;
        memcpy(&single, &pattern, sizeof single);
        return (double)single;
    }
    uint64_t magnitude = bits & ~sign_of(f), sign = magnitude == bits ? 0 : sign_of(float64);
    if (magnitude >= infinity_of(f))
        return double_of(sign | (infinity_of(float64) + (magnitude > infinity_of(f))));
    return double_of(sign | encode(float64, decode(f, magnitude)));
}

INLINE void clamp(format f, const void *x, size_t n, uint64_t limit, void *y)
{
    double most = value(f, limit);
    for (size_t i = 0; i < n; i++) {
        uint64_t bits = get(f, x, i), sign = bits & sign_of(f);
        set(f, y, i, value(f, bits ^ sign) > most ? sign | limit : bits);
    }
}

INLINE void magnitudes(format f, const void *x, size_t n, double *values)
{
    for (size_t i = 0; i < n; i++)
        values[i] = value(f, get(f, x, i) & ~sign_of(f));
}

/* A loop above with a constant format: the compiler makes one of each. */
#define FOR_FORMAT(type, loop, ...)                                                                                    \
    switch (type) {                                                                                                    \
    case REF_FLOAT32: loop(float32, __VA_ARGS__); break;                                                               \
    case REF_FLOAT64: loop(float64, __VA_ARGS__); break;                                                               \
    case REF_BFLOAT16: loop(bfloat16, __VA_ARGS__); break;                                                             \
    default: loop(float16, __VA_ARGS__); break;                                                                        \
    }

static format format_of(ref_type type)
{
    const format formats[REF_TYPES] = {float32, float64, bfloat16, float16};
    return formats[type];
}

size_t ref_size(ref_type type) { return size_of(format_of(type)); }
uint64_t ref_infinity(ref_type type) { return infinity_of(format_of(type)); }
uint64_t ref_get(ref_type type, const void *x, size_t index) { return get(format_of(type), x, index); }
void ref_set(ref_type type, void *x, size_t index, uint64_t bits) { set(format_of(type), x, index, bits); }
double ref_value(ref_type type, uint64_t bits) { return value(format_of(type), bits); }

double ref_reciprocal(double scale)
{
    enum { NUMERATOR = 2 * 52 + 9 }; /* so that the quotient has 60 or 61 bits */
    number x = decode(float64, double_bits(scale));
    wide numerator = (wide)1 << NUMERATOR;
    uint64_t quotient = (uint64_t)(numerator / x.significand);
    bool inexact = numerator % x.significand != 0;
    return double_of(encode(float64, (number){quotient | inexact, -NUMERATOR - x.exponent}));
}

void ref_products(ref_type type, const void *x, size_t n, double r, void *y){FOR_FORMAT(type, products, x, n, r, y)}

uint64_t ref_maximum(ref_type type, const void *x, size_t n)
{
    uint64_t max = 0;
    FOR_FORMAT(type, maximum, x, n, &max)
    return max;
}

void ref_count(ref_type type, const void *x, size_t n, uint64_t *infs, uint64_t *nans)
{
    *infs = *nans = 0;
    FOR_FORMAT(type, count, x, n, infs, nans)
}

void ref_clamp(ref_type type, const void *x, size_t n, uint64_t limit, void *y)
{
    FOR_FORMAT(type, clamp, x, n, limit, y)
}

void ref_magnitudes(ref_type type, const void *x, size_t n, double *values)
{
    FOR_FORMAT(type, magnitudes, x, n, values)
}

/* NaN if there is one. */
static double largest_of(const double *values, size_t n)
{
    double largest = 0.0;
    for (size_t i = 0; i < n && !isnan(largest); i++)
        largest = values[i] <= largest ? largest : values[i];
    return largest;
}

void ref_sums(ref_type type, const double *values, size_t n, int p, double sums[3])
{
    double largest = type == REF_FLOAT64 ? largest_of(values, n) : 1.0, lanes[16] = {0};
    int bin = largest == 0 ? 0 : largest < 0x1p-480 ? 1 : largest < 0x1p480 ? 0 : 2;
    double prescale = bin == 1 ? 0x1p600 : bin == 2 ? 0x1p-600 : 1.0;
    for (size_t i = 0; i < n; i++) {
        double y = values[i] * prescale;
        lanes[i % 16] += p == 1 ? y : y * y;
    }
    for (size_t width = 8; width > 0; width /= 2)
        for (size_t lane = 0; lane < width; lane++)
            lanes[lane] += lanes[lane + width];
    sums[0] = sums[1] = sums[2] = 0.0;
    sums[bin] = lanes[0];
}
