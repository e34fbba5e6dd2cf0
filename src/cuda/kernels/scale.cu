/* SPDX-License-Identifier: Apache-2.0 */
/* scale.cu: out = in * scale for pairs of tensors that came with the kernel's argument. */
#include "cuda/kernels/elements.h"

enum { PAIR_DIM_WORDS = sizeof(gsc__cuda_pair_dim) / sizeof(uint64_t) };

/* The pair's elements [first, first + count), and where its dims stand in the argument. */
struct pair_item {
    gsc__cuda_pair pair;
    const uint64_t *dims; /* shape, in_stride, out_stride of each */
    uint64_t first;
    uint32_t count;
};

/* Widens a float32 that may be a NaN, as processors do: sign and payload stay, the quiet bit is set. */
GSC_DEVICE_INLINE uint64_t widen_f32(uint32_t bits)
{
    if ((bits & 0x7fffffffu) <= 0x7f800000u)
        return gsc__double_bits((double)gsc__bits_float(bits));
    return (uint64_t)(bits & 0x80000000u) << 32 | 0x7ff8000000000000u | (uint64_t)(bits & 0x007fffffu) << 29;
}

/* The element in out's kind, which is float32 or float64 where it differs from in's. */
GSC_DEVICE_INLINE uint64_t widen(gsc__kind in, gsc__kind out, uint64_t bits)
{
    if (in == out)
        return bits;
    uint32_t f32 = (uint32_t)bits;
    if (in == GSC_BF16)
        f32 = gsc__float_bits(gsc__bf16_to_f32((uint16_t)bits));
    else if (in == GSC_F16)
        f32 = gsc__float_bits(gsc__f16_to_f32((uint16_t)bits));
    return out == GSC_F64 ? widen_f32(f32) : f32;
}

GSC_DEVICE_INLINE void scale_one(const gsc__kind in_kind, const gsc__kind out_kind, const pair_item *item,
                                 int64_t in_offset, int64_t out_offset, gsc__factor factor)
{
    uint64_t x = gsc__load_bits(in_kind, (const char *)(uintptr_t)item->pair.in, in_offset);
    uint64_t y = x;
    if (in_kind != out_kind || factor.f64 != 1.0) /* a product with 1 would make signalling NaNs quiet */
        y = gsc__product(out_kind, widen(in_kind, out_kind, x), factor);
    gsc__store_bits(out_kind, (char *)(uintptr_t)item->pair.out, out_offset, y);
}

GSC_DEVICE_INLINE void scale_strided(const pair_item *item, gsc__factor factor)
{
    const gsc__kind in_kind = (gsc__kind)item->pair.in_kind, out_kind = (gsc__kind)item->pair.out_kind;
    for (uint32_t i = gsc__lane(); i < item->count; i += GSC_WARP) {
        uint64_t left = item->first + i;
        int64_t in_offset = item->pair.ndim ? 0 : (int64_t)left, out_offset = in_offset;
        for (uint32_t d = 0; d < item->pair.ndim; d++) {
            const uint64_t *dim = item->dims + d * PAIR_DIM_WORDS;
            const int64_t index = (int64_t)(left % dim[0]);
            left /= dim[0];
            in_offset += index * (int64_t)dim[1];
            out_offset += index * (int64_t)dim[2];
        }
        scale_one(in_kind, out_kind, item, in_offset, out_offset, factor);
    }
}

/* Both dense, of one kind, and equally aligned. */
GSC_DEVICE_INLINE void scale_dense(const gsc__kind kind, const pair_item *item, gsc__factor factor)
{
    const uint32_t size = (uint32_t)gsc__kind_size(kind), per_vector = (uint32_t)sizeof(gsc__vector) / size;
    const uint32_t lane = gsc__lane();
    const char *in = (const char *)(uintptr_t)item->pair.in + item->first * size;
    char *out = (char *)(uintptr_t)item->pair.out + item->first * size;
    uint32_t head = (uint32_t)(-(uintptr_t)in % sizeof(gsc__vector)) / size;
    head = head < item->count ? head : item->count;
    const uint32_t vectors = (item->count - head) / per_vector, tail = head + vectors * per_vector;
    const gsc__vector *from = (const gsc__vector *)(const void *)(in + (size_t)head * size);
    gsc__vector *to = (gsc__vector *)(void *)(out + (size_t)head * size);
    uint64_t unused_max = 0;
    for (uint32_t i = lane; i < vectors; i += GSC_WARP) {
        gsc__vector x = gsc__load_vector(&from[i]);
        if (factor.f64 != 1.0)
            x = gsc__product_vector(kind, x, factor, &unused_max);
        gsc__store_vector(&to[i], x);
    }
    const int64_t first = (int64_t)item->first;
    if (lane < head)
        scale_one(kind, kind, item, first + lane, first + lane, factor);
    if (tail + lane < item->count)
        scale_one(kind, kind, item, first + tail + lane, first + tail + lane, factor);
}

GSC_DEVICE_INLINE void scale_item(const pair_item *item, gsc__factor factor)
{
    const gsc__cuda_pair *pair = &item->pair;
    if (pair->ndim > 0 || pair->in_kind != pair->out_kind || (pair->in ^ pair->out) % sizeof(gsc__vector) != 0) {
        scale_strided(item, factor);
        return;
    }
    switch (pair->in_kind) {
    case GSC_F32: scale_dense(GSC_F32, item, factor); break;
    case GSC_F64: scale_dense(GSC_F64, item, factor); break;
    case GSC_BF16: scale_dense(GSC_BF16, item, factor); break;
    default: scale_dense(GSC_F16, item, factor); break;
    }
}

GSC_DEVICE pair_item find_pair(const gsc__cuda_scale_args *args, uint32_t index)
{
    const gsc__cuda_pair *pairs = (const gsc__cuda_pair *)(const void *)args->words;
    uint32_t p = 0;
    while (p + 1 < args->pair_count && pairs[p + 1].first_item <= index)
        p++;
    pair_item item;
    item.pair = pairs[p];
    item.dims = args->words + args->pair_count * (sizeof(gsc__cuda_pair) / sizeof(uint64_t)) +
                (size_t)item.pair.first_dim * PAIR_DIM_WORDS;
    item.first = (uint64_t)(index - item.pair.first_item) * GSC_CUDA_ITEM;
    item.count = gsc__item_length(item.pair.count - item.first);
    return item;
}

GSC_CUDA_KERNEL(scale)
{
    const gsc__factor factor = gsc__make_factor(args.scale ? (double)*args.scale : 1.0);
    const unsigned warps = gsc__block_threads() / GSC_WARP;
    for (uint64_t i = (uint64_t)gsc__block() * warps + gsc__thread() / GSC_WARP; i < args.item_count;
         i += (uint64_t)gsc__grid_blocks() * warps) {
        const pair_item item = find_pair(&args, (uint32_t)i);
        scale_item(&item, factor);
    }
}
