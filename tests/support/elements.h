/* SPDX-License-Identifier: Apache-2.0 */
/* elements.h: elements of compact CPU tensors as double, for tests: float32, float64, bfloat16, float16.
 * Slow and obvious on purpose; shares no code with the library. */
#ifndef GSC_TESTS_ELEMENTS_H
#define GSC_TESTS_ELEMENTS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "gradscaler/dtype.h"

/* 16-bit floats by their two numbers: bfloat16 is (7, 127), float16 is (10, 15). */
static inline uint16_t small_float_encode(double x, int mantissa_bits, int bias)
{
    int sign = signbit(x) ? 0x8000 : 0;
    int infinity = (2 * bias + 1) << mantissa_bits;
    if (isnan(x))
        return (uint16_t)(sign | infinity | 1 << (mantissa_bits - 1));
    if (isinf(x))
        return (uint16_t)(sign | infinity);
    int exponent;
    frexp(x, &exponent);
    exponent = x == 0 || exponent < 2 - bias ? 1 - bias : exponent - 1;
    /* The leading bit of a normal significand adds one to the exponent field; rounding up may add another. */
    int significand = (int)lrint(ldexp(fabs(x), mantissa_bits - exponent));
    int bits = ((exponent + bias - 1) << mantissa_bits) + significand;
    return (uint16_t)(sign | (bits < infinity ? bits : infinity));
}

static inline double small_float_decode(uint16_t bits, int mantissa_bits, int bias)
{
    int field = (bits & 0x7fff) >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
    double magnitude;
    if (field == 2 * bias + 1)
        magnitude = mantissa != 0 ? (double)NAN : (double)INFINITY;
    else if (field == 0)
        magnitude = ldexp(mantissa, 1 - bias - mantissa_bits);
    else
        magnitude = ldexp(mantissa + (1 << mantissa_bits), field - bias - mantissa_bits);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

static inline uint16_t to_bf16(double x) { return small_float_encode(x, 7, 127); }
static inline uint16_t to_fp16(double x) { return small_float_encode(x, 10, 15); }
static inline double from_bf16(uint16_t bits) { return small_float_decode(bits, 7, 127); }
static inline double from_fp16(uint16_t bits) { return small_float_decode(bits, 10, 15); }

static inline bool dtype_is(DLDataType a, DLDataType b) { return memcmp(&a, &b, sizeof a) == 0; }

static inline double element_get(const DLTensor *tensor, size_t index)
{
    const char *data = (const char *)tensor->data + tensor->byte_offset;
    if (dtype_is(tensor->dtype, GSC_FLOAT32))
        return (double)((const float *)(const void *)data)[index];
    if (dtype_is(tensor->dtype, GSC_FLOAT64))
        return ((const double *)(const void *)data)[index];
    uint16_t bits = ((const uint16_t *)(const void *)data)[index];
    return dtype_is(tensor->dtype, GSC_BFLOAT16) ? from_bf16(bits) : from_fp16(bits);
}

static inline void element_set(DLTensor *tensor, size_t index, double value)
{
    char *data = (char *)tensor->data + tensor->byte_offset;
    if (dtype_is(tensor->dtype, GSC_FLOAT32))
        ((float *)(void *)data)[index] = (float)value;
    else if (dtype_is(tensor->dtype, GSC_FLOAT64))
        ((double *)(void *)data)[index] = value;
    else
        ((uint16_t *)(void *)data)[index] = dtype_is(tensor->dtype, GSC_BFLOAT16) ? to_bf16(value) : to_fp16(value);
}

#endif
