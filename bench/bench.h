/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h: what all parts of the benchmark share: the options, the topics, and how a failure ends the program. */
#ifndef GSC_BENCH_BENCH_H
#define GSC_BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include "gradscaler/status.h"

struct bench_row;

typedef struct bench {
    bool quick;       /* small sizes, few rounds: does it run at all? */
    bool full;        /* sizes that take minutes or many gigabytes, too */
    int threads;      /* "all threads" */
    int rounds;       /* 0: as many as the time for a row allows */
    const char *only; /* rows whose name contains this; NULL: all */

    struct bench_row *rows; /* those measured so far */
    size_t count, capacity;
} bench;

/* A topic measures its rows and appends them (report.h). */
typedef void bench_topic(bench *b);
bench_topic bench_kernels, bench_functions, bench_layouts, bench_tensors, bench_overflow, bench_calls, bench_threads,
    bench_adamw, bench_cost;

/* Thread counts to measure with: 1 and, where it is another number, "all". Returns how many there are. */
size_t bench_thread_counts(const bench *b, int counts[2]);

/* Ends the program with a message. */
_Noreturn void bench_die(const char *format, ...) GSC_PRINTF(1, 2);
/* A call of the library that has to succeed. */
#define bench_must(call) bench_must_be_ok((call), #call)
void bench_must_be_ok(gsc_status status, const char *call);

#endif
