/* SPDX-License-Identifier: Apache-2.0 */
/* elements.h: the arithmetic of single elements as docs/numbers.md has it, and where an element lies. `kind` is a
 * constant wherever these are inlined. */
#ifndef GSC_CUDA_KERNELS_ELEMENTS_H
#define GSC_CUDA_KERNELS_ELEMENTS_H

#include "cuda/device.h"

/* What elements are multiplied by. */
struct gsc__factor {
    float f32;
    double f64;
};

GSC_DEVICE_INLINE gsc__factor gsc__make_factor(double factor)
{
    gsc__factor out = {(float)factor, factor};
    return out;
}

/* Elements of an item, where so many are left. */
GSC_DEVICE_INLINE uint32_t gsc__item_length(uint64_t left)
{
    const uint64_t most = GSC_CUDA_ITEM;
    return (uint32_t)(left < most ? left : most);
}

/* An element, or what was computed from it, as bits. */
GSC_DEVICE_INLINE uint64_t gsc__load_bits(const gsc__kind kind, const char *data, int64_t index)
{
    switch (gsc__kind_size(kind)) {
    case 2: return ((const uint16_t *)(const void *)data)[index];
    case 4: return ((const uint32_t *)(const void *)data)[index];
    default: return ((const uint64_t *)(const void *)data)[index];
    }
}

GSC_DEVICE_INLINE void gsc__store_bits(const gsc__kind kind, char *data, int64_t index, uint64_t bits)
{
    switch (gsc__kind_size(kind)) {
    case 2: ((uint16_t *)(void *)data)[index] = (uint16_t)bits; break;
    case 4: ((uint32_t *)(void *)data)[index] = (uint32_t)bits; break;
    default: ((uint64_t *)(void *)data)[index] = bits; break;
    }
}

GSC_DEVICE_INLINE uint64_t gsc__magnitude(const gsc__kind kind, uint64_t bits)
{
    return bits & (UINT64_MAX >> (65 - 8 * gsc__kind_size(kind)));
}

/* Processors keep sign and payload of a NaN and set its quiet bit; a GPU's multiplication does not. */
GSC_DEVICE_INLINE uint32_t gsc__product_f32(uint32_t x, float factor)
{
    uint32_t y = gsc__float_bits(gsc__bits_float(x) * factor);
    return (x & 0x7fffffffu) > 0x7f800000u ? x | 0x00400000u : y;
}

GSC_DEVICE_INLINE uint64_t gsc__product_f64(uint64_t x, double factor)
{
    uint64_t y = gsc__double_bits(gsc__bits_double(x) * factor);
    return (x & INT64_MAX) > 0x7ff0000000000000u ? x | 0x0008000000000000u : y;
}

/* The product of a bfloat16, given and returned in the upper half of a word; the lower half becomes arbitrary. The
 * lower half of a NaN product is zero like that of its factor, so rounding leaves NaNs as they are. */
GSC_DEVICE_INLINE uint32_t gsc__product_bf16(uint32_t upper, float factor)
{
    uint32_t bits = gsc__product_f32(upper, factor);
    return bits + 0x7fffu + ((bits >> 16) & 1u);
}

GSC_DEVICE_INLINE uint32_t gsc__product_f16(uint32_t x, float factor)
{
    uint32_t wide = gsc__float_bits(gsc__f16_to_f32((uint16_t)x));
    return gsc__f32_to_f16(gsc__bits_float(gsc__product_f32(wide, factor)));
}

GSC_DEVICE_INLINE uint64_t gsc__product(const gsc__kind kind, uint64_t x, gsc__factor factor)
{
    switch (kind) {
    case GSC_F32: return gsc__product_f32((uint32_t)x, factor.f32);
    case GSC_F64: return gsc__product_f64(x, factor.f64);
    case GSC_BF16: return gsc__product_bf16((uint32_t)x << 16, factor.f32) >> 16;
    default: return gsc__product_f16((uint32_t)x, factor.f32);
    }
}

GSC_DEVICE_INLINE uint64_t gsc__larger(uint64_t a, uint64_t b) { return a > b ? a : b; }
GSC_DEVICE_INLINE uint32_t gsc__larger_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* The products of two 16-bit elements in a word; *max: the largest magnitude so far. */
GSC_DEVICE_INLINE uint32_t gsc__product_halves(const gsc__kind kind, uint32_t x, float factor, uint32_t *max)
{
    uint32_t low, high;
    if (kind == GSC_BF16) {
        low = gsc__product_bf16(x << 16, factor) >> 16;
        high = gsc__product_bf16(x & 0xffff0000u, factor) & 0xffff0000u;
    } else {
        low = gsc__product_f16(x & 0xffffu, factor);
        high = gsc__product_f16(x >> 16, factor) << 16;
    }
    *max = gsc__larger_u32(*max, gsc__larger_u32(low & 0x7fffu, (high >> 16) & 0x7fffu));
    return low | high;
}

GSC_DEVICE_INLINE gsc__vector gsc__product_vector(const gsc__kind kind, gsc__vector x, gsc__factor factor,
                                                  uint64_t *max)
{
    gsc__vector y;
    uint32_t largest = 0;
    if (kind == GSC_F64) {
        GSC_UNROLL
        for (int i = 0; i < 4; i += 2) {
            uint64_t bits = gsc__product_f64((uint64_t)x.words[i + 1] << 32 | x.words[i], factor.f64);
            *max = gsc__larger(*max, bits & INT64_MAX);
            y.words[i] = (uint32_t)bits;
            y.words[i + 1] = (uint32_t)(bits >> 32);
        }
        return y;
    }
    GSC_UNROLL
    for (int i = 0; i < 4; i++) {
        if (kind == GSC_F32) {
            y.words[i] = gsc__product_f32(x.words[i], factor.f32);
            largest = gsc__larger_u32(largest, y.words[i] & 0x7fffffffu);
        } else {
            y.words[i] = gsc__product_halves(kind, x.words[i], factor.f32, &largest);
        }
    }
    *max = gsc__larger_u32((uint32_t)*max, largest);
    return y;
}

/* The magnitude with these bits as a double, exactly; NaN for NaNs. */
GSC_DEVICE_INLINE double gsc__magnitude_f64(const gsc__kind kind, uint64_t bits)
{
    switch (kind) {
    case GSC_F32: return (double)gsc__bits_float((uint32_t)bits);
    case GSC_F64: return gsc__bits_double(bits);
    case GSC_BF16: return (double)gsc__bf16_to_f32((uint16_t)bits);
    default: return (double)gsc__f16_to_f32((uint16_t)bits);
    }
}

/* Where the element lies that is the index-th in the order of the dims, in elements from the start. weights: the dims'
 * strides, or what they add to the row-major index. Divisions of 32 bits take a fraction of those of 64. */
GSC_DEVICE_INLINE int64_t gsc__strided_offset(const gsc__device_dim *dims, uint32_t ndim, uint64_t index,
                                              bool row_major)
{
    int64_t offset = 0;
    for (uint32_t d = 0; d < ndim; d++) {
        uint64_t shape = (uint64_t)dims[d].shape, quotient;
        if ((index | shape) <= UINT32_MAX)
            quotient = (uint32_t)index / (uint32_t)shape;
        else
            quotient = index / shape;
        offset += (int64_t)(index - quotient * shape) * (row_major ? dims[d].row_major : dims[d].stride);
        index = quotient;
    }
    return offset;
}

#endif
