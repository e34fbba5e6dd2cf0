/* SPDX-License-Identifier: Apache-2.0 */
/* topics.h: the topics of the benchmark, each in the source file of its name. */
#ifndef GSC_BENCH_TOPICS_H
#define GSC_BENCH_TOPICS_H

#include "bench.h"

/* Measures the rows of a topic and appends them (report.h). */
typedef void bench_topic(bench *b);
bench_topic bench_kernels, bench_functions, bench_layouts, bench_tensors, bench_overflow, bench_calls, bench_threads,
    bench_adamw, bench_cost;

#endif
