/* SPDX-License-Identifier: Apache-2.0 */
/* blocks.h: cutting elements into parts that tasks work on, and combining what the tasks found. */
#ifndef GSC_BASE_BLOCKS_H
#define GSC_BASE_BLOCKS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* count / size, rounded up. */
static inline size_t gsc__parts(size_t count, size_t size) { return count / size + (count % size != 0); }

/* Elements [first, end). */
typedef struct gsc__range {
    size_t first, end;
} gsc__range;

/* The index-th part of `count` elements cut into parts of `size`, of which the last may be shorter. */
static inline gsc__range gsc__part(size_t count, size_t size, size_t index)
{
    size_t first = index * size, left = count - first;
    return (gsc__range){first, left < size ? count : first + size};
}

/* The index of the last of `count` structs whose number is at most `position`. The structs are `stride` bytes apart and
 * hold ascending numbers, the first of them 0; `numbers` points to the first one. */
static inline size_t gsc__find_part(const size_t *numbers, size_t stride, size_t count, size_t position)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (*(const size_t *)((const char *)numbers + middle * stride) <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static inline void gsc__atomic_max(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t seen = atomic_load_explicit(most, memory_order_relaxed);
    while (value > seen && !atomic_compare_exchange_weak(most, &seen, value))
        ;
}

static inline void gsc__atomic_min(_Atomic uint64_t *least, uint64_t value)
{
    uint64_t seen = atomic_load_explicit(least, memory_order_relaxed);
    while (value < seen && !atomic_compare_exchange_weak(least, &seen, value))
        ;
}

#endif
