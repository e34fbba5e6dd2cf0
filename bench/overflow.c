/* SPDX-License-Identifier: Apache-2.0 */
/* A step that overflows, report included, beside a clean one. */
#include "lists.h"
#include "report.h"

static void measure_overflow(bench *b, const char *what, gsc_kind kind, size_t tensors, size_t each, size_t bad,
                             int threads)
{
    bench_row row = {.topic = "overflow",
                     .what = what,
                     .kind = kind,
                     .elements = tensors * each,
                     .tensors = tensors,
                     .threads = threads,
                     .beside = "clean step",
                     .sense = BENCH_COST,
                     .bar = 2.5 /* docs/performance.md */};
    if (!bench_wanted(b, &row))
        return;
    bench_list overflowing, clean;
    bench_list_create(&overflowing, kind, tensors, each, LIST_NEIGHBOURS);
    bench_list_create(&clean, kind, tensors, each, LIST_NEIGHBOURS);
    bench_list_set_infinite(&overflowing, bad);
    bench_compare(b, row, (bench_work){.run = bench_list_step, .ctx = &overflowing},
                  (bench_work){.run = bench_list_step, .ctx = &clean});
    bench_list_free(&overflowing);
    bench_list_free(&clean);
}

void bench_overflow(bench *b)
{
    static const gsc_kind kinds[] = {GSC_F32, GSC_BF16};
    size_t large = b->quick ? 100000 : (size_t)1 << 25, many = b->quick ? 100 : 10000;
    int threads[2];
    size_t n_threads = bench_thread_counts(b, threads);
    for (size_t i = 0; i < 2 * n_threads; i++) {
        gsc_kind kind = kinds[i / n_threads];
        int n = threads[i % n_threads];
        measure_overflow(b, "step, the last element", kind, 1, large, 1, n);
        measure_overflow(b, "step, in the last tensor", kind, many, 64, 1, n);
        measure_overflow(b, "step, in every tensor", kind, many, 64, many, n);
    }
}
