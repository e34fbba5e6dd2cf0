/* SPDX-License-Identifier: Apache-2.0 */
/* tensors.c: many small gradients through a scaler, beside a single one of as many elements. */
#include "lists.h"
#include "report.h"
#include "topics.h"

enum { EACH = 64 };

static void measure_many(bench *b, const char *what, list_order order, size_t tensors, double bar)
{
    bench_row row = {.topic = "many tensors",
                     .what = what,
                     .kind = GSC_F32,
                     .elements = tensors * EACH,
                     .tensors = tensors,
                     .threads = 1,
                     .beside = "one tensor",
                     .sense = BENCH_COST,
                     .bar = bar};
    if (!bench_wanted(b, &row))
        return;
    bench_list many, one;
    bench_list_create(&many, GSC_F32, tensors, EACH, order);
    bench_list_create(&one, GSC_F32, 1, tensors * EACH, LIST_NEIGHBOURS);
    bench_compare(b, row, (bench_work){.run = bench_list_unscale, .ctx = &many},
                  (bench_work){.run = bench_list_unscale, .ctx = &one});
    bench_list_free(&many);
    bench_list_free(&one);
}

void bench_tensors(bench *b)
{
    static const size_t counts[] = {100, 1000, 10000, 100000};
    for (size_t i = 0; i < (b->quick ? 2 : 4); i++) {
        double bar =
            counts[i] == 10000 ? 4 : 0; /* docs/performance.md; none if shuffled: each tensor costs page misses */
        measure_many(b, "scaler_unscale, neighbours", LIST_NEIGHBOURS, counts[i], bar);
        measure_many(b, "scaler_unscale, gaps between", LIST_GAPS, counts[i], bar);
        measure_many(b, "scaler_unscale, shuffled", LIST_SHUFFLED, counts[i], 0);
    }
}
