/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h: one run of the benchmark: its options and the rows measured so far. */
#ifndef GSC_BENCH_BENCH_H
#define GSC_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>

struct bench_row;

typedef struct bench {
    bool quick;       /* small sizes and few rounds: a smoke run */
    bool full;        /* also sizes that take minutes or many gigabytes */
    int threads;      /* how many "all threads" are */
    int rounds;       /* 0: as many as the time for a row allows */
    const char *only; /* measure rows whose name contains this; NULL: all */

    struct bench_row *rows; /* report.h */
    size_t count, capacity;
} bench;

/* The thread counts to measure with: 1 and, if that is another number, all threads. Returns how many there are. */
static inline size_t bench_thread_counts(const bench *b, int counts[2])
{
    counts[0] = 1;
    counts[1] = b->threads;
    return b->threads > 1 ? 2 : 1;
}

#endif
