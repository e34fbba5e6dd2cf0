/* SPDX-License-Identifier: Apache-2.0 */
/* overflow.c: a step that overflows, with its report, beside a clean one. */
#include "lists.h"
#include "report.h"
#include "topics.h"

typedef struct overflow {
    const char *what;
    bench_special value;
    size_t tensors, each, overflowing; /* `overflowing` of the tensors have `value` in one of their `each` elements */
    double bar;                        /* docs/performance.md; 0: none */
} overflow;

static void measure_overflow(bench *b, const overflow *o, gsc__kind kind, int threads)
{
    bench_row row = {.topic = "overflow",
                     .what = o->what,
                     .kind = kind,
                     .elements = o->tensors * o->each,
                     .tensors = o->tensors,
                     .threads = threads,
                     .beside = "clean step",
                     .sense = BENCH_COST,
                     .bar = o->bar};
    if (!bench_wanted(b, &row))
        return;
    bench_list overflowing, clean;
    bench_list_create(&overflowing, kind, o->tensors, o->each, LIST_NEIGHBOURS);
    bench_list_create(&clean, kind, o->tensors, o->each, LIST_NEIGHBOURS);
    bench_list_set_special(&overflowing, o->overflowing, o->value);
    bench_compare(b, row, (bench_work){.run = bench_list_step, .ctx = &overflowing},
                  (bench_work){.run = bench_list_step, .ctx = &clean});
    bench_list_free(&overflowing);
    bench_list_free(&clean);
}

void bench_overflow(bench *b)
{
    static const gsc__kind kinds[] = {GSC_F32, GSC_F64, GSC_BF16};
    const size_t large = b->quick ? 100000 : (size_t)1 << 24, each = b->quick ? 1000 : 100000;
    const size_t many = b->quick ? 100 : 10000;
    /* No bar if every tiny tensor overflows: there the report takes longer than the gradients. */
    const overflow overflows[] = {
        {"step, inf, last element", BENCH_INFINITY, 1, large, 1, 2.5},
        {"step, NaN, last element", BENCH_NAN, 1, large, 1, 2.5},
        {"step, inf, every tensor", BENCH_INFINITY, 100, each, 100, 2.5},
        {"step, inf, last tensor", BENCH_INFINITY, many, 64, 1, 2.5},
        {"step, inf, every tiny tensor", BENCH_INFINITY, many, 64, many, 0},
    };
    int threads[2];
    size_t n_threads = bench_thread_counts(b, threads);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t t = 0; t < n_threads; t++)
            for (size_t i = 0; i < sizeof overflows / sizeof *overflows; i++)
                measure_overflow(b, &overflows[i], kinds[k], threads[t]);
}
