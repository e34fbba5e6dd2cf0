/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h: times pieces of work in turn (ABAB…), so that a disturbance of the machine affects all of them. */
#ifndef GSC_BENCH_MEASURE_H
#define GSC_BENCH_MEASURE_H

#include "bench.h"

typedef struct bench_work {
    void (*run)(void *ctx); /* does the work once; is called many times */
    void *ctx;
    int threads; /* for gsc_set_num_threads */
} bench_work;

enum { BENCH_WORKS = 4, BENCH_ROUNDS = 101 };

typedef struct bench_samples {
    int rounds;
    double seconds[BENCH_WORKS][BENCH_ROUNDS]; /* for one run; [work][round] */
} bench_samples;

/* Warms up, finds how many runs fill a sample, then takes the samples: more of them if the row has a bar. */
void bench_measure(const bench *b, const bench_work *works, size_t n, bool has_bar, bench_samples *out);

double bench_median(const double *values, int n);
/* The median over the rounds of (time of work `dividend`) / (time of work `divisor`). */
double bench_median_quotient(const bench_samples *samples, size_t dividend, size_t divisor);

#endif
