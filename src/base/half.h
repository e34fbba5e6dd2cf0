/* SPDX-License-Identifier: Apache-2.0 */
/* half.h: float16 and bfloat16 to float32 and back, rounded to nearest even, subnormals kept. NaNs are quieted and keep
 * the upper bits of their payload, as VCVTPH2PS and VCVTPS2PH do, so that every instruction set gives the same bits.
 * Choices are made with masks, not branches: loops over these vectorise. They rely on the environment of fpenv.h. */
#ifndef GSC_BASE_HALF_H
#define GSC_BASE_HALF_H

#include <stdint.h>
#include <string.h>

#include "base/device_code.h"

GSC_INLINE uint32_t gsc__float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

GSC_INLINE float gsc__bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

GSC_INLINE uint32_t gsc__select(int condition, uint32_t yes, uint32_t no)
{
    uint32_t mask = 0u - (uint32_t)condition;
    return (yes & mask) | (no & ~mask);
}

GSC_INLINE float gsc__bf16_to_f32(uint16_t half) { return gsc__bits_float((uint32_t)half << 16); }

GSC_INLINE uint16_t gsc__f32_to_bf16(float value)
{
    uint32_t bits = gsc__float_bits(value);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    uint32_t quiet_nan = (bits >> 16) | 0x40u;
    return (uint16_t)gsc__select((bits & 0x7fffffffu) > 0x7f800000u, quiet_nan, rounded);
}

GSC_INLINE float gsc__f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7fffu;
    uint32_t normal = (magnitude << 13) + (112u << 23); /* rebias the exponent from 15 to 127 */
    /* An exponent field of 0 counts as 1 without the hidden bit: build it with the hidden bit, then subtract that. */
    uint32_t subnormal = gsc__float_bits(gsc__bits_float(normal + (1u << 23)) - gsc__bits_float(113u << 23));
    uint32_t special = (normal + (112u << 23)) | gsc__select(magnitude > 0x7c00u, 0x00400000u, 0u);
    uint32_t bits = gsc__select(magnitude < 0x0400u, subnormal, normal);
    return gsc__bits_float(sign | gsc__select(magnitude >= 0x7c00u, special, bits));
}

GSC_INLINE uint16_t gsc__f32_to_f16(float value)
{
    uint32_t bits = gsc__float_bits(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    /* 0.5 has an ulp of 2^-24, float16's smallest subnormal: the addition does the rounding. */
    uint32_t subnormal = gsc__float_bits(gsc__bits_float(magnitude) + 0.5f) - gsc__float_bits(0.5f);
    uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x03ffu);
    uint32_t half = gsc__select(magnitude < 0x38800000u, subnormal, normal); /* 2^-14 */
    half = gsc__select(magnitude >= 0x477ff000u, 0x7c00u, half);             /* 65520, halfway to 2^16 */
    half = gsc__select(magnitude > 0x7f800000u, nan, half);
    return (uint16_t)(sign | half);
}

#endif
