/* SPDX-License-Identifier: Apache-2.0 */
/* norm.cu: sums of |y|^p over items, and over all items in a fixed order.
 *
 * p = 1 and 2 have the bits of the CPU's kernels/loops_norm.h and gradients/norm.c: an item is a block there; element i
 * belongs to lane i % 16, whose sum is one thread's, so that half a warp takes an item; the lanes and then the items
 * are added up in the same trees. */
#include "cuda/kernels/norm_math.h"
#include "cuda/kernels/passes.h"

enum {
    NORM_LANES = 16,
    NORM_UNROLLED = 8 /* elements that a thread loads before it needs the first */
};

struct lane_sum {
    double sum;
    uint64_t max;
};

/* Adds |y * prescale|^p of this thread's elements. */
GSC_DEVICE_INLINE void add_element(const gsc__kind kind, unsigned p, uint64_t y, double prescale, lane_sum *lane)
{
    uint64_t bits = gsc__magnitude(kind, y);
    lane->max = gsc__larger(lane->max, bits);
    double magnitude = gsc__magnitude_f64(kind, bits);
    if (kind == GSC_F64)
        magnitude *= prescale;
    lane->sum += p == 1 ? magnitude : magnitude * magnitude;
}

GSC_DEVICE_INLINE lane_sum sum_lane(const gsc__kind kind, unsigned p, const gsc__item *item, gsc__factor factor,
                                    bool stores, double prescale)
{
    lane_sum lane = {0.0, 0};
    uint32_t i = gsc__thread() % NORM_LANES;
    for (; item->dense && i + (NORM_UNROLLED - 1) * NORM_LANES < item->count; i += NORM_UNROLLED * NORM_LANES) {
        uint64_t x[NORM_UNROLLED];
        GSC_UNROLL
        for (uint32_t u = 0; u < NORM_UNROLLED; u++)
            x[u] = gsc__load_bits(kind, item->start, (int64_t)(item->first + i + u * NORM_LANES));
        GSC_UNROLL
        for (uint32_t u = 0; u < NORM_UNROLLED; u++) {
            uint64_t y = gsc__product(kind, x[u], factor);
            if (stores)
                gsc__store_bits(kind, item->start, (int64_t)(item->first + i + u * NORM_LANES), y);
            add_element(kind, p, y, prescale, &lane);
        }
    }
    for (; i < item->count; i += NORM_LANES) {
        int64_t offset = gsc__item_offset(item, i);
        uint64_t y = gsc__product(kind, gsc__load_bits(kind, item->start, offset), factor);
        if (stores)
            gsc__store_bits(kind, item->start, offset, y);
        add_element(kind, p, y, prescale, &lane);
    }
    return lane;
}

GSC_DEVICE_INLINE uint64_t half_warp_max(uint64_t max)
{
    for (unsigned width = NORM_LANES / 2; width > 0; width /= 2)
        max = gsc__larger(max, gsc__warp_xor_u64(max, width));
    return max;
}

/* In the order of the CPU: lane i += lane i + width. */
GSC_DEVICE_INLINE double half_warp_sum(double sum)
{
    for (unsigned width = NORM_LANES / 2; width > 0; width /= 2)
        sum += gsc__warp_xor_f64(sum, width);
    return sum;
}

GSC_DEVICE_INLINE lane_sum sum_any_kind(unsigned p, const gsc__item *item, gsc__factor factor, bool stores)
{
    switch (item->tensor->kind) {
    case GSC_F32: return sum_lane(GSC_F32, p, item, factor, stores, 1.0);
    case GSC_F64: return sum_lane(GSC_F64, p, item, factor, stores, 1.0);
    case GSC_BF16: return sum_lane(GSC_BF16, p, item, factor, stores, 1.0);
    default: return sum_lane(GSC_F16, p, item, factor, stores, 1.0);
    }
}

/* Which of the three sums an item's belongs to, by its largest magnitude: only float64's squares can leave double's
 * range. */
GSC_DEVICE_INLINE unsigned range_of_item(const gsc__item *item, uint64_t max)
{
    if (item->count == 0 || item->tensor->kind != GSC_F64 || max == 0)
        return 0;
    int exponent = (int)(max >> 52) - 1023;
    return exponent < -GSC_NORM_SAFE ? 1 : exponent >= GSC_NORM_SAFE ? 2 : 0;
}

/* The item's partial sum, in the half-warp that has the item. */
GSC_DEVICE_INLINE gsc__cuda_partial finish_sum(unsigned p, const gsc__item *item, gsc__factor factor, bool stored,
                                               lane_sum lane, uint64_t max)
{
    unsigned range = range_of_item(item, max);
    if (range != 0) { /* a second time, prescaled; what was stored is y */
        gsc__factor again = stored ? gsc__make_factor(1.0) : factor;
        int prescale = range == 1 ? GSC_NORM_PRESCALE : -GSC_NORM_PRESCALE;
        lane.sum = sum_lane(GSC_F64, p, item, again, false, gsc__power_of_two(prescale)).sum;
    }
    double sum = half_warp_sum(lane.sum);
    gsc__cuda_partial partial = {{0.0, 0.0, 0.0}};
    partial.sums[0] = range == 0 ? sum : 0.0;
    partial.sums[1] = range == 1 ? sum : 0.0;
    partial.sums[2] = range == 2 ? sum : 0.0;
    return partial;
}

/* Counts what is not finite in the items of both halves. bad: this half's item has such elements. */
GSC_DEVICE_INLINE void count_halves(const gsc__cuda_table *table, uint64_t first, bool bad, gsc__factor factor,
                                    bool stored, gsc__cuda_count *counts)
{
    const unsigned half = gsc__lane() / NORM_LANES;
    for (unsigned h = 0; h < 2; h++) {
        if (!gsc__warp_any(bad && half == h))
            continue;
        const gsc__item item = gsc__find_item(table, (uint32_t)(first + h));
        gsc__count_item(item.tensor, item.dims, item.first, factor.f64, stored, counts);
    }
}

/* Two items: a half of the warp each; the second half has none where first is the last one. */
GSC_DEVICE_INLINE void sum_pair(const gsc__cuda_sum_args *args, unsigned p, uint64_t first, gsc__factor factor,
                                bool stores, gsc__maxima *maxima)
{
    const uint64_t index = first + gsc__lane() / NORM_LANES;
    const bool has_item = index < args->table.item_count;
    gsc__item item = gsc__find_item(&args->table, (uint32_t)(has_item ? index : first));
    item.count = has_item ? item.count : 0;
    const gsc__kind kind = (gsc__kind)item.tensor->kind;
    const lane_sum lane = sum_any_kind(p, &item, factor, stores);
    const uint64_t max = half_warp_max(lane.max);
    gsc__maxima_add(maxima, kind, max);
    const gsc__cuda_partial partial = finish_sum(p, &item, factor, stores, lane, max);
    if (has_item && gsc__lane() % NORM_LANES == 0)
        args->partials[index] = partial;
    const bool bad = has_item && max >= gsc__kind_infinity(kind);
    if (args->counts && gsc__warp_any(bad))
        count_halves(&args->table, first, bad, factor, stores, args->counts);
}

GSC_CUDA_KERNEL(sum)
{
    const gsc__factor factor = gsc__make_factor(args.pass->factor);
    const bool stores = args.pass->stores && factor.f64 != 1.0;
    const unsigned warps = gsc__block_threads() / GSC_WARP;
    gsc__maxima maxima = {0, 0, 0, 0};
    for (uint64_t i = 2 * ((uint64_t)gsc__block() * warps + gsc__thread() / GSC_WARP); i < args.table.item_count;
         i += 2 * (uint64_t)gsc__grid_blocks() * warps)
        sum_pair(&args, args.p, i, factor, stores, &maxima);
    gsc__maxima_publish(maxima, args.pass);
}

/* The sum of (|y| * 2^-exponent)^p over a warp's item. */
GSC_DEVICE_INLINE double sum_powers(const gsc__item *item, gsc__factor factor, int exponent, double p)
{
    const gsc__kind kind = (gsc__kind)item->tensor->kind;
    double sum = 0.0;
    for (uint32_t i = gsc__lane(); i < item->count; i += GSC_WARP) {
        uint64_t y = gsc__product(kind, gsc__load_bits(kind, item->start, gsc__item_offset(item, i)), factor);
        double magnitude = gsc__magnitude_f64(kind, gsc__magnitude(kind, y));
        sum += gsc__power(gsc__times_power_of_two(magnitude, -exponent), p);
    }
    for (unsigned width = GSC_WARP / 2; width > 0; width /= 2)
        sum += gsc__warp_xor_f64(sum, width);
    return sum;
}

GSC_CUDA_KERNEL(power)
{
    const gsc__factor factor = gsc__make_factor(args.pass->factor);
    const unsigned warps = gsc__block_threads() / GSC_WARP;
    for (uint64_t i = (uint64_t)gsc__block() * warps + gsc__thread() / GSC_WARP; i < args.table.item_count;
         i += (uint64_t)gsc__grid_blocks() * warps) {
        const gsc__item item = gsc__find_item(&args.table, (uint32_t)i);
        double sum = sum_powers(&item, factor, args.pass->exponent, args.p);
        if (gsc__lane() == 0) {
            const gsc__cuda_partial partial = {{sum, 0.0, 0.0}};
            args.partials[i] = partial;
        }
    }
}

GSC_DEVICE_INLINE gsc__cuda_partial add_partials(gsc__cuda_partial a, gsc__cuda_partial b)
{
    for (int bin = 0; bin < 3; bin++)
        a.sums[bin] += b.sums[bin];
    return a;
}

/* The index-th of `nodes` equal parts of the CPU's tree: halves of halves, the first half the smaller one; a part has
 * one leaf or two. */
GSC_DEVICE gsc__cuda_partial tree_node(const gsc__cuda_partial *from, uint32_t count, uint32_t nodes, uint32_t index)
{
    uint32_t first = 0;
    for (uint32_t bit = nodes / 2; bit > 0; bit /= 2) {
        uint32_t half = count / 2;
        if (index & bit) {
            first += half;
            count -= half;
        } else {
            count = half;
        }
    }
    return count == 1 ? from[first] : add_partials(from[first], from[first + 1]);
}

GSC_CUDA_KERNEL(tree)
{
    GSC_SHARED gsc__cuda_partial shared[GSC_CUDA_MAX_THREADS];
    const uint32_t left = args.nodes - gsc__block() * GSC_CUDA_MAX_THREADS, thread = gsc__thread();
    uint32_t nodes = left < gsc__block_threads() ? left : gsc__block_threads();
    gsc__cuda_partial sum = {{0.0, 0.0, 0.0}};
    if (thread < nodes)
        sum = tree_node(args.from, args.count, args.nodes, gsc__block() * GSC_CUDA_MAX_THREADS + thread);
    for (;;) {
        shared[thread] = sum;
        gsc__block_barrier();
        nodes /= 2;
        if (nodes == 0)
            break;
        if (thread < nodes)
            sum = add_partials(shared[2 * thread], shared[2 * thread + 1]);
        gsc__block_barrier();
    }
    if (thread != 0)
        return;
    if (gsc__grid_blocks() > 1)
        args.to[gsc__block()] = sum;
    else
        for (int bin = 0; bin < 3; bin++)
            args.pass->sums[bin] = sum.sums[bin];
}
