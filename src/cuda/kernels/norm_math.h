/* SPDX-License-Identifier: Apache-2.0 */
/* norm_math.h: norms from sums, as gradients/norm.c has them, without a math library: powers of two, logarithm and
 * exponential are ours, so that their bits depend on no version of a compiler or library. */
#ifndef GSC_CUDA_KERNELS_NORM_MATH_H
#define GSC_CUDA_KERNELS_NORM_MATH_H

#include "cuda/device.h"

/* gradients/norm.c has the same: see kernels/kernels.h. */
enum { GSC_NORM_SAFE = 480, GSC_NORM_PRESCALE = 600, GSC_NO_EXPONENT = INT32_MIN / 2 };

GSC_DEVICE double gsc__nan(void) { return gsc__bits_double(0x7ff8000000000000u); }
GSC_DEVICE double gsc__infinity(void) { return gsc__bits_double(0x7ff0000000000000u); }
GSC_DEVICE bool gsc__is_nan(double x) { return x != x; }
GSC_DEVICE bool gsc__is_finite(double x) { return (gsc__double_bits(x) & INT64_MAX) < 0x7ff0000000000000u; }

/* 2^n for n in [-1022, 1023]. */
GSC_DEVICE double gsc__power_of_two(int n) { return gsc__bits_double((uint64_t)(n + 1023) << 52); }

/* x * 2^n, rounded once: the steps before the last one keep every bit of a result that is not 0. */
GSC_DEVICE double gsc__times_power_of_two(double x, int n)
{
    n = n < -2200 ? -2200 : n > 2200 ? 2200 : n;
    for (; n > 1023; n -= 1023)
        x *= gsc__power_of_two(1023);
    for (; n < -1022; n += 969)
        x *= gsc__power_of_two(-969);
    return x * gsc__power_of_two(n);
}

/* frexp's exponent of a positive finite x: x is in [2^(e - 1), 2^e). */
GSC_DEVICE int gsc__binary_exponent(double x)
{
    int shift = 0;
    if (x < gsc__power_of_two(-1022)) {
        x *= gsc__power_of_two(54);
        shift = -54;
    }
    return (int)(gsc__double_bits(x) >> 52) - 1022 + shift;
}

/* log2 of a positive finite x. With m in [sqrt(1/2), sqrt(2)) and s = (m - 1)/(m + 1), log(m) = 2 (s + s^3/3 + …);
 * |s| < 0.172, so that the term s^23/23 is below 2^-60. */
GSC_DEVICE double gsc__log2(double x)
{
    int exponent = gsc__binary_exponent(x);
    double m = gsc__times_power_of_two(x, -exponent); /* in [0.5, 1) */
    if (m < 0.70710678118654752) {
        m *= 2.0;
        exponent--;
    }
    double s = gsc__divide(m - 1.0, m + 1.0), square = s * s, series = 0.0;
    for (int k = 23; k >= 1; k -= 2)
        series = series * square + gsc__divide(1.0, (double)k);
    return (double)exponent + s * series * 2.8853900817779268; /* 2 / log(2) */
}

/* 2^t. |t| is cut to where the result is 0 or infinite. With |f| <= 0.5, the 15th term of exp(f log(2)) is below 2^-60.
 */
GSC_DEVICE double gsc__exp2(double t)
{
    if (gsc__is_nan(t))
        return t;
    t = t < -1200.0 ? -1200.0 : t > 1200.0 ? 1200.0 : t;
    int whole = (int)(t < 0.0 ? t - 0.5 : t + 0.5);
    double z = (t - (double)whole) * 0.69314718055994531, series = 1.0;
    for (int k = 15; k >= 1; k--)
        series = series * gsc__divide(z, (double)k) + 1.0;
    return gsc__times_power_of_two(series, whole);
}

/* x^p for x >= 0 or NaN, and p > 0; relative error about 2^-52 * (1 + |p log2 x|). */
GSC_DEVICE double gsc__power(double x, double p)
{
    if (!gsc__is_finite(x) || x == 0.0)
        return x;
    return gsc__exp2(p * gsc__log2(x));
}

/* sqrt of the three sums together, in the scale of the greatest one that is not empty. */
GSC_DEVICE double gsc__euclidean(const double sums[3])
{
    const int twice = -2 * GSC_NORM_PRESCALE;
    double tiny = gsc__times_power_of_two(sums[1], twice);
    if (!(sums[2] == 0.0)) {
        double rest = gsc__times_power_of_two(sums[0] + tiny, twice);
        return gsc__times_power_of_two(gsc__square_root(sums[2] + rest), GSC_NORM_PRESCALE);
    }
    if (!(sums[0] == 0.0))
        return gsc__square_root(sums[0] + tiny);
    return gsc__times_power_of_two(gsc__square_root(sums[1]), -GSC_NORM_PRESCALE);
}

/* The norm; NaN if something is. p infinite: the largest magnitude alone. */
GSC_DEVICE double gsc__norm(double p, const double sums[3], int exponent, double max_abs)
{
    double norm;
    if (p == gsc__infinity()) {
        norm = max_abs;
    } else if (p == 1.0) {
        double tiny = gsc__times_power_of_two(sums[1], -GSC_NORM_PRESCALE);
        norm = sums[0] + tiny + gsc__times_power_of_two(sums[2], GSC_NORM_PRESCALE);
    } else if (p == 2.0) {
        norm = gsc__euclidean(sums);
    } else {
        norm = gsc__times_power_of_two(gsc__power(sums[0], gsc__divide(1.0, p)), exponent);
        norm = norm < max_abs ? max_abs : norm; /* powers beyond about 1000 underflow */
    }
    return gsc__is_nan(norm) ? gsc__nan() : norm;
}

GSC_DEVICE double gsc__coefficient(double max_norm, double norm)
{
    if (!gsc__is_finite(norm))
        return 1.0;
    double coefficient = gsc__divide(max_norm, norm + 1e-6);
    return coefficient < 1.0 ? coefficient : 1.0;
}

/* The largest magnitude of a pass over all kinds: NaN if one is NaN. */
GSC_DEVICE double gsc__max_abs(const gsc__cuda_pass *pass)
{
    double max = 0.0;
    for (int kind = 0; kind < GSC_KINDS; kind++) {
        uint64_t bits = pass->max_bits[kind];
        if (bits > gsc__kind_infinity((gsc__kind)kind))
            return gsc__nan();
        double value = gsc__element((gsc__kind)kind, &bits, 0); /* little-endian */
        max = value > max ? value : max;
    }
    return max;
}

#endif
