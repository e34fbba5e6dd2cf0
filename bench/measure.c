/* SPDX-License-Identifier: Apache-2.0 */
/* measure.c: times pieces of work in turn. */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include "measure.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "gradscaler/gradscaler.h"

/* A sample takes far longer than reading the clock; a row is short enough for hundreds of rows. */
static const double sample_s = 200e-6, quick_sample_s = 10e-6, row_s = 0.2;
enum { ROUNDS_MIN = 5, ROUNDS_WITH_BAR = 15, ROUNDS_MAX = 31, QUICK_ROUNDS = 3 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Seconds for one run, averaged over `runs`. */
static double sample(const bench_work *work, size_t runs)
{
    gsc_set_num_threads(work->threads);
    double start = now();
    for (size_t i = 0; i < runs; i++)
        work->run(work->ctx);
    return (now() - start) / (double)runs;
}

/* Seconds for `runs` runs. The first sample also warms up pages, caches and threads; either may be interrupted. */
static double quicker_of_two(const bench_work *work, size_t runs)
{
    double first = sample(work, runs), second = sample(work, runs);
    return (first < second ? first : second) * (double)runs;
}

/* Returns how many runs take at least `min_s` together; *seconds: the time that they took. */
static size_t calibrate(const bench_work *work, double min_s, double *seconds)
{
    size_t runs = 1;
    while ((*seconds = quicker_of_two(work, runs)) < min_s)
        runs *= 2;
    return runs;
}

static int choose_rounds(const bench *b, double round_s, bool has_bar)
{
    int min = has_bar ? ROUNDS_WITH_BAR : ROUNDS_MIN;
    if (b->rounds > 0)
        return b->rounds;
    if (b->quick)
        return QUICK_ROUNDS;
    double fit = row_s / round_s;
    return fit < min ? min : fit > (double)ROUNDS_MAX ? ROUNDS_MAX : (int)fit;
}

void bench_measure(const bench *b, const bench_work *works, size_t n, bool has_bar, bench_samples *out)
{
    size_t runs[BENCH_WORKS];
    double round_s = 0;
    for (size_t i = 0; i < n; i++) {
        double seconds;
        runs[i] = calibrate(&works[i], b->quick ? quick_sample_s : sample_s, &seconds);
        round_s += seconds;
    }
    out->rounds = choose_rounds(b, round_s, has_bar);
    for (int round = 0; round < out->rounds; round++)
        for (size_t i = 0; i < n; i++)
            out->seconds[i][round] = sample(&works[i], runs[i]);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(const double *values, int n)
{
    double sorted[BENCH_ROUNDS];
    memcpy(sorted, values, (size_t)n * sizeof *values);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
    return 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]);
}

double bench_median_quotient(const bench_samples *samples, size_t dividend, size_t divisor)
{
    double quotients[BENCH_ROUNDS];
    for (int round = 0; round < samples->rounds; round++)
        quotients[round] = samples->seconds[dividend][round] / samples->seconds[divisor][round];
    return bench_median(quotients, samples->rounds);
}
