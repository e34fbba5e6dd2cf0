/* SPDX-License-Identifier: Apache-2.0 */
/* domains.c: the elements and scales that are enumerated. */
#include <float.h>
#include <math.h>

#include "prove.h"

_Static_assert((int)GSC_F32 == REF_FLOAT32 && (int)GSC_F64 == REF_FLOAT64 && (int)GSC_BF16 == REF_BFLOAT16 &&
                   (int)GSC_F16 == REF_FLOAT16,
               "prove_type");

enum { SCALES = 8, POWERS = 127 + 126 + 1 };

double prove_scale(size_t index)
{
    /* Their reciprocals: inexact, 1, powers of two, beyond 2^32, subnormal, the largest. */
    static const double scales[SCALES] = {
        3.0, 1.0, 0x1p16, 0x1p-3, 65535.0, (double)1e-10f, (double)FLT_MAX, (double)FLT_MIN};
    return index < SCALES ? scales[index] : ldexp(1.0, (int)(index - SCALES) - 126);
}

uint64_t prove_limit(ref_type type, size_t index)
{
    uint64_t infinity = ref_infinity(type), least_normal = infinity & (0 - infinity);
    uint64_t half = infinity / 2 & (infinity << 1); /* the number 0.5 */
    const uint64_t limits[] = {half,         0,        1,        least_normal,
                               infinity - 1, infinity, half + 1, half / 2 + 12345 /* some number in between */};
    return limits[index % (sizeof limits / sizeof limits[0])];
}

static void fill_float32(uint64_t block, void *x)
{
    for (size_t i = 0; i < PROVE_BLOCK; i++)
        ((uint32_t *)x)[i] = (uint32_t)(block * PROVE_BLOCK + i);
}

static void fill_half(uint64_t block, void *x)
{
    for (size_t i = 0; i < PROVE_BLOCK; i++)
        ((uint16_t *)x)[i] = (uint16_t)(block * PROVE_BLOCK + i);
}

/* Every exponent, both signs, and mantissas at the edges of roundings, of NaN payloads and of float32. */
static void fill_edges(uint64_t block, void *x)
{
    static const uint64_t mantissas[16] = {0,
                                           1,
                                           2,
                                           3,
                                           0x000000000000fULL,
                                           0x000000fffffffULL,
                                           0x0000010000000ULL,
                                           0x0000020000000ULL,
                                           0x5555555555555ULL,
                                           0x7ffffffffffffULL,
                                           0x8000000000000ULL,
                                           0x8000000000001ULL,
                                           0xaaaaaaaaaaaaaULL,
                                           0xffffffffffffdULL,
                                           0xffffffffffffeULL,
                                           0xfffffffffffffULL};
    for (size_t i = 0; i < PROVE_BLOCK; i++) {
        uint64_t index = block * PROVE_BLOCK + i;
        ((uint64_t *)x)[i] = index << 63 | index >> 5 << 52 | mantissas[index >> 1 & 15];
    }
}

/* The index-th output of splitmix64. */
static uint64_t random_bits(uint64_t index)
{
    uint64_t z = (index + 1) * 0x9e3779b97f4a7c15ULL;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

/* In every other block the exponents are within 64 of each other, so that its norms are finite. */
static void fill_random(uint64_t block, void *x)
{
    uint64_t lowest = random_bits(~block) % (2046 - 64);
    for (size_t i = 0; i < PROVE_BLOCK; i++) {
        uint64_t bits = random_bits(block * PROVE_BLOCK + i), exponent = bits >> 52 & 2047;
        uint64_t near = lowest + exponent % 64;
        ((uint64_t *)x)[i] = block % 2 == 0 ? bits : (bits & ~(UINT64_C(2047) << 52)) | near << 52;
    }
}

const domain prove_domains[DOMAINS] = {
    {"float32, all", "float32", GSC_F32, (UINT64_C(1) << 32) / PROVE_BLOCK, fill_float32, SCALES, 2, false, 1021, 1},
    {"bfloat16, all", "bfloat16", GSC_BF16, 16, fill_half, SCALES + POWERS, SCALES + POWERS, true, 1, 11},
    {"float16, all", "float16", GSC_F16, 16, fill_half, SCALES + POWERS, SCALES + POWERS, true, 1, 11},
    {"float64, edges", "float64", GSC_F64, 16, fill_edges, SCALES, SCALES, true, 1, 1},
    {"float64, random", "float64", GSC_F64, 24576, fill_random, SCALES, 2, false, 1021, 1},
};
