/* SPDX-License-Identifier: Apache-2.0 */
/* passes.h: what every pass over a record's items does with what it finds. */
#ifndef GSC_CUDA_KERNELS_PASSES_H
#define GSC_CUDA_KERNELS_PASSES_H

#include "cuda/kernels/elements.h"

/* A piece of a tensor that a warp, or half of one, works on. */
struct gsc__item {
    const gsc__cuda_tensor *tensor;
    const gsc__device_dim *dims; /* of the tensor; walked where it is not dense */
    char *start;                 /* of the tensor */
    uint64_t first;              /* element of the tensor */
    uint32_t count;              /* 0: no item */
    bool dense;
};

GSC_DEVICE_INLINE gsc__item gsc__make_item(const gsc__cuda_tensor *tensor, const gsc__device_dim *dims, uint64_t first)
{
    gsc__item item;
    item.tensor = tensor;
    item.dims = dims;
    item.start = (char *)(uintptr_t)tensor->start;
    item.first = first;
    item.count = gsc__item_length(tensor->count - first);
    item.dense = tensor->dense != 0;
    return item;
}

GSC_DEVICE_INLINE gsc__item gsc__find_item(const gsc__cuda_table *table, uint32_t index)
{
    const gsc__cuda_tensor *tensor = &table->tensors[table->item_tensors[index]];
    return gsc__make_item(tensor, table->dims + tensor->first_dim,
                          (uint64_t)(index - tensor->first_item) * GSC_CUDA_ITEM);
}

/* Where the item's i-th element lies, in elements from the tensor's start. */
GSC_DEVICE_INLINE int64_t gsc__item_offset(const gsc__item *item, uint32_t i)
{
    if (item->dense)
        return (int64_t)(item->first + i);
    return gsc__strided_offset(item->dims, item->tensor->ndim, item->first + i, false);
}

/* The largest magnitudes by kind, as bits. */
struct gsc__maxima {
    uint64_t f64;
    uint32_t f32, bf16, f16;
};

GSC_DEVICE_INLINE void gsc__maxima_add(gsc__maxima *maxima, const gsc__kind kind, uint64_t max)
{
    switch (kind) {
    case GSC_F32: maxima->f32 = gsc__larger_u32(maxima->f32, (uint32_t)max); break;
    case GSC_F64: maxima->f64 = gsc__larger(maxima->f64, max); break;
    case GSC_BF16: maxima->bf16 = gsc__larger_u32(maxima->bf16, (uint32_t)max); break;
    default: maxima->f16 = gsc__larger_u32(maxima->f16, (uint32_t)max); break;
    }
}

/* All threads of the block call this once, at the end of a pass. */
GSC_DEVICE void gsc__maxima_publish(gsc__maxima maxima, gsc__cuda_pass *pass)
{
    GSC_SHARED uint64_t by_warp[GSC_CUDA_MAX_THREADS / GSC_WARP][GSC_KINDS];
    for (unsigned width = GSC_WARP / 2; width > 0; width /= 2) {
        maxima.f64 = gsc__larger(maxima.f64, gsc__warp_xor_u64(maxima.f64, width));
        maxima.f32 = gsc__larger_u32(maxima.f32, gsc__warp_xor_u32(maxima.f32, width));
        /* Both are of 16 bits. */
        uint32_t halves = maxima.bf16 << 16 | maxima.f16, other = gsc__warp_xor_u32(halves, width);
        maxima.bf16 = gsc__larger_u32(maxima.bf16, other >> 16);
        maxima.f16 = gsc__larger_u32(maxima.f16, other & 0xffffu);
    }
    unsigned warp = gsc__thread() / GSC_WARP, warps = gsc__block_threads() / GSC_WARP;
    if (gsc__lane() == 0) {
        by_warp[warp][GSC_F32] = maxima.f32;
        by_warp[warp][GSC_F64] = maxima.f64;
        by_warp[warp][GSC_BF16] = maxima.bf16;
        by_warp[warp][GSC_F16] = maxima.f16;
    }
    gsc__block_barrier();
    if (gsc__thread() >= GSC_KINDS)
        return;
    uint64_t max = 0;
    for (unsigned w = 0; w < warps; w++)
        max = gsc__larger(max, by_warp[w][gsc__thread()]);
    if (max > 0)
        gsc__atomic_max_u64(&pass->max_bits[gsc__thread()], max);
}

/* Counts what is not finite in the item that begins at element `first`. stored: the products stand in place of the
 * elements. All threads of the warp call this with the same item. */
GSC_DEVICE_RARE void gsc__count_item(const gsc__cuda_tensor *tensor, const gsc__device_dim *dims, uint64_t first,
                                     double factor, bool stored, gsc__cuda_count *counts)
{
    const gsc__item item = gsc__make_item(tensor, dims, first);
    const gsc__kind kind = (gsc__kind)tensor->kind;
    const uint64_t infinity = gsc__kind_infinity(kind);
    uint64_t infs = 0, nans = 0, first_inverted = 0;
    gsc__warp_barrier(); /* other threads of the warp have stored */
    for (uint32_t i = gsc__lane(); i < item.count; i += GSC_WARP) {
        uint64_t y = gsc__load_bits(kind, item.start, gsc__item_offset(&item, i));
        if (!stored)
            y = gsc__product(kind, y, gsc__make_factor(factor));
        uint64_t magnitude = gsc__magnitude(kind, y);
        if (magnitude < infinity)
            continue;
        infs += magnitude == infinity;
        nans += magnitude > infinity;
        int64_t index = tensor->row_major_start + (int64_t)(item.first + i);
        if (tensor->ndim > 0)
            index = tensor->row_major_start + gsc__strided_offset(item.dims, tensor->ndim, item.first + i, true);
        first_inverted = gsc__larger(first_inverted, ~(uint64_t)index);
    }
    for (unsigned width = GSC_WARP / 2; width > 0; width /= 2) {
        infs += gsc__warp_xor_u64(infs, width);
        nans += gsc__warp_xor_u64(nans, width);
        first_inverted = gsc__larger(first_inverted, gsc__warp_xor_u64(first_inverted, width));
    }
    if (gsc__lane() != 0)
        return;
    gsc__cuda_count *count = &counts[tensor->index];
    gsc__atomic_add_u64(&count->infs, infs);
    gsc__atomic_add_u64(&count->nans, nans);
    gsc__atomic_max_u64(&count->first_inverted, first_inverted);
}

#endif
