/* SPDX-License-Identifier: Apache-2.0 */
/* loops_bits.h: the attributes of functions, and single elements as bits. loops.h says what the includer defines. */
#ifndef GSC_KERNELS_LOOPS_BITS_H
#define GSC_KERNELS_LOOPS_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/half.h"
#include "base/isa.h"

#define GSC_TARGET GSC_PASTE(GSC_TARGET_, GSC_ISA)
#define INLINE GSC_TARGET static inline __attribute__((always_inline))

INLINE uint64_t double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINE double bits_double(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Magnitudes are signed, because SSE2 and AVX2 compare signed integers only. */
INLINE int32_t magnitude_f32(float value) { return (int32_t)(gsc__float_bits(value) & INT32_MAX); }
INLINE int64_t magnitude_f64(double value) { return (int64_t)(double_bits(value) & INT64_MAX); }

/* An element of `size` bytes. */
INLINE uint64_t load_bits(const void *x, size_t size)
{
    uint16_t bits16;
    uint32_t bits32;
    uint64_t bits64;
    switch (size) {
    case sizeof bits16: memcpy(&bits16, x, sizeof bits16); return bits16;
    case sizeof bits32: memcpy(&bits32, x, sizeof bits32); return bits32;
    default: memcpy(&bits64, x, sizeof bits64); return bits64;
    }
}

INLINE void store_bits(void *x, size_t size, uint64_t bits)
{
    const uint16_t bits16 = (uint16_t)bits;
    const uint32_t bits32 = (uint32_t)bits;
    switch (size) {
    case sizeof bits16: memcpy(x, &bits16, sizeof bits16); break;
    case sizeof bits32: memcpy(x, &bits32, sizeof bits32); break;
    default: memcpy(x, &bits, sizeof bits); break;
    }
}

#endif
