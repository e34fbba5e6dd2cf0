/* SPDX-License-Identifier: Apache-2.0 */
/* measure.h: times of several pieces of work, taken in turn (ABAB…), so that what disturbs the machine disturbs all. */
#ifndef GSC_BENCH_MEASURE_H
#define GSC_BENCH_MEASURE_H

#include "bench.h"

typedef struct bench_work {
    void (*run)(void *ctx); /* does it once; may be called any number of times */
    void *ctx;
    int threads; /* for gsc_set_num_threads */
} bench_work;

enum { BENCH_WORKS = 4, BENCH_ROUNDS = 101 };

typedef struct bench_samples {
    int rounds;
    double seconds[BENCH_WORKS][BENCH_ROUNDS]; /* of one run; [work][round] */
} bench_samples;

/* Warms up, finds how often small work has to be repeated within a sample, then takes the samples: more of them where
 * the result is judged. */
void bench_measure(const bench *b, const bench_work *works, size_t n, bool judged, bench_samples *out);

double bench_median(const double *values, int n);
/* The median over the rounds of one work's time divided by another's. */
double bench_median_quotient(const bench_samples *samples, size_t dividend, size_t divisor);

#endif
