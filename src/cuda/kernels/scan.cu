/* SPDX-License-Identifier: Apache-2.0 */
/* scan.cu: multiplies and checks the elements of many tensors: a warp takes an item at a time. */
#include "cuda/kernels/passes.h"

enum { SCAN_UNROLLED = 4 /* vectors that a thread loads before it needs the first */ };

GSC_DEVICE_INLINE void scan_element(const gsc__kind kind, char *data, int64_t index, gsc__factor factor, bool stores,
                                    uint64_t *max)
{
    uint64_t y = gsc__product(kind, gsc__load_bits(kind, data, index), factor);
    if (stores)
        gsc__store_bits(kind, data, index, y);
    *max = gsc__larger(*max, gsc__magnitude(kind, y));
}

/* Neighbours: vectors where they are aligned to 16 bytes, and the elements before and behind. */
GSC_DEVICE_INLINE void scan_dense(const gsc__kind kind, char *data, uint32_t count, gsc__factor factor, bool stores,
                                  uint64_t *max)
{
    const uint32_t size = (uint32_t)gsc__kind_size(kind), per_vector = (uint32_t)sizeof(gsc__vector) / size;
    const uint32_t lane = gsc__lane();
    uint32_t head = (uint32_t)(-(uintptr_t)data % sizeof(gsc__vector)) / size;
    head = head < count ? head : count;
    gsc__vector *vectors = (gsc__vector *)(void *)(data + (size_t)head * size);
    const uint32_t vector_count = (count - head) / per_vector, tail = head + vector_count * per_vector;
    uint32_t i = lane;
    for (; i + (SCAN_UNROLLED - 1) * GSC_WARP < vector_count; i += SCAN_UNROLLED * GSC_WARP) {
        gsc__vector x[SCAN_UNROLLED];
        GSC_UNROLL
        for (uint32_t u = 0; u < SCAN_UNROLLED; u++)
            x[u] = gsc__load_vector(&vectors[i + u * GSC_WARP]);
        GSC_UNROLL
        for (uint32_t u = 0; u < SCAN_UNROLLED; u++) {
            x[u] = gsc__product_vector(kind, x[u], factor, max);
            if (stores)
                gsc__store_vector(&vectors[i + u * GSC_WARP], x[u]);
        }
    }
    for (; i < vector_count; i += GSC_WARP) {
        gsc__vector y = gsc__product_vector(kind, gsc__load_vector(&vectors[i]), factor, max);
        if (stores)
            gsc__store_vector(&vectors[i], y);
    }
    if (lane < head)
        scan_element(kind, data, lane, factor, stores, max);
    if (tail + lane < count)
        scan_element(kind, data, tail + lane, factor, stores, max);
}

GSC_DEVICE_INLINE void scan_item(const gsc__kind kind, const gsc__item *item, gsc__factor factor, bool stores,
                                 gsc__cuda_count *counts, gsc__maxima *maxima)
{
    uint64_t max = 0;
    if (item->dense)
        scan_dense(kind, item->start + item->first * gsc__kind_size(kind), item->count, factor, stores, &max);
    else
        for (uint32_t i = gsc__lane(); i < item->count; i += GSC_WARP)
            scan_element(kind, item->start, gsc__item_offset(item, i), factor, stores, &max);
    gsc__maxima_add(maxima, kind, max);
    if (gsc__warp_any(max >= gsc__kind_infinity(kind)) && counts)
        gsc__count_item(item->tensor, item->dims, item->first, factor.f64, stores, counts);
}

GSC_CUDA_KERNEL(scan)
{
    if (args.pass->idle)
        return;
    const gsc__factor factor = gsc__make_factor(args.pass->factor);
    const bool stores = args.pass->stores && factor.f64 != 1.0; /* a product with 1 would make signalling NaNs quiet */
    const unsigned warps = gsc__block_threads() / GSC_WARP;
    gsc__maxima maxima = {0, 0, 0, 0};
    for (uint64_t i = (uint64_t)gsc__block() * warps + gsc__thread() / GSC_WARP; i < args.table.item_count;
         i += (uint64_t)gsc__grid_blocks() * warps) {
        const gsc__item item = gsc__find_item(&args.table, (uint32_t)i);
        switch (item.tensor->kind) {
        case GSC_F32: scan_item(GSC_F32, &item, factor, stores, args.counts, &maxima); break;
        case GSC_F64: scan_item(GSC_F64, &item, factor, stores, args.counts, &maxima); break;
        case GSC_BF16: scan_item(GSC_BF16, &item, factor, stores, args.counts, &maxima); break;
        default: scan_item(GSC_F16, &item, factor, stores, args.counts, &maxima); break;
        }
    }
    gsc__maxima_publish(maxima, args.pass);
}
