/* SPDX-License-Identifier: Apache-2.0 */
/* sizes.h: the sizes in bytes at which kernels and functions are measured: one for each cache, then memory. */
#ifndef GSC_BENCH_SIZES_H
#define GSC_BENCH_SIZES_H

#include "bench.h"

enum { BENCH_SIZES_MAX = 8 };
static const size_t bench_kib = 1024, bench_mib = 1024 * 1024;

/* Fills in the sizes, ascending, and returns how many there are. */
static inline size_t bench_sizes(const bench *b, size_t sizes[BENCH_SIZES_MAX])
{
    size_t n = 0;
    sizes[n++] = 4 * bench_kib;
    if (b->quick) {
        sizes[n++] = 512 * bench_kib;
        return n;
    }
    sizes[n++] = 16 * bench_kib;
    sizes[n++] = 128 * bench_kib;
    sizes[n++] = bench_mib;
    sizes[n++] = 32 * bench_mib;
    sizes[n++] = 256 * bench_mib;
    if (b->full)
        sizes[n++] = 1024 * bench_mib;
    return n;
}

static inline size_t bench_largest_size(const bench *b)
{
    size_t sizes[BENCH_SIZES_MAX];
    return sizes[bench_sizes(b, sizes) - 1];
}

#endif
