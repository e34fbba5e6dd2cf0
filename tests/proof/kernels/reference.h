/* SPDX-License-Identifier: Apache-2.0 */
/* reference.h: what the kernels must give, to the bit.
 *
 * Products, roundings and conversions are done on integers, one element at a time: no code is shared with the library,
 * and no floating-point instruction, mode or compiler option has a say in them. Only the sums of norms are additions of
 * doubles, which is what numbers.md says they are. Elements are neighbours in memory; `bits` are an element's pattern.
 */
#ifndef GSC_PROVE_REFERENCE_H
#define GSC_PROVE_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

typedef enum ref_type { REF_FLOAT32, REF_FLOAT64, REF_BFLOAT16, REF_FLOAT16, REF_TYPES } ref_type;

size_t ref_size(ref_type type);
uint64_t ref_infinity(ref_type type); /* its bits; the sign's bit is the one above */
uint64_t ref_get(ref_type type, const void *x, size_t index);
void ref_set(ref_type type, void *x, size_t index, uint64_t bits);

/* The value of a finite or infinite pattern, exactly; any NaN for a NaN. */
double ref_value(ref_type type, uint64_t bits);

/* 1/scale, rounded once to float64. scale is positive and normal. */
double ref_reciprocal(double scale);

/* y = x * r as numbers.md has it for each dtype. A NaN stays, its highest mantissa bit set. r is positive, finite, and
 * not so small that float32 makes it zero. */
void ref_products(ref_type type, const void *x, size_t n, double r, void *y);

/* The largest bits with the sign's cleared. */
uint64_t ref_maximum(ref_type type, const void *x, size_t n);

void ref_count(ref_type type, const void *x, size_t n, uint64_t *infs, uint64_t *nans);

/* y = x where |x| <= the limit or x is NaN, else the limit with the sign of x. limit: bits, positive. */
void ref_clamp(ref_type type, const void *x, size_t n, uint64_t limit, void *y);

/* |x| as doubles. */
void ref_magnitudes(ref_type type, const void *x, size_t n, double *values);

/* The sum of the p-th powers of magnitudes, p = 1 or 2: in 16 lanes, element i in lane i mod 16, halved until one is
 * left. sums: of ordinary magnitudes; of tiny ones times 2^600; of huge ones, and what is not finite, times 2^-600.
 * Which of them it is depends on the largest magnitude; the other two are 0. Only float64 has tiny and huge ones. */
void ref_sums(ref_type type, const double *values, size_t n, int p, double sums[3]);

#endif
