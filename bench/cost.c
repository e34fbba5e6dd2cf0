/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c: how cost grows with elements and with tensors; docs/plot-cost draws it. */
#include "limits.h"
#include "lists.h"
#include "report.h"
#include "topics.h"

static void measure_elements(bench *b, bench_store *store, size_t n)
{
    bench_row row = {.topic = "cost of elements",
                     .what = "unscale_grads",
                     .kind = GSC_F32,
                     .elements = n,
                     .tensors = 1,
                     .threads = 1,
                     .beside = "multiply"};
    if (!bench_wanted(b, &row))
        return;
    limit_elements elements = {GSC_F32, bench_store_data(store), n};
    bench_tensor tensor;
    bench_tensor_flat(&tensor, GSC_F32, elements.data, n);
    bench_compare(b, row, (bench_work){.run = bench_unscale_tensor, .ctx = &tensor}, limit_multiply(&elements));
}

static void measure_tensors(bench *b, size_t n)
{
    enum { EACH = 64 };
    bench_row row = {.topic = "cost of tensors",
                     .what = "scaler_unscale",
                     .kind = GSC_F32,
                     .elements = n * EACH,
                     .tensors = n,
                     .threads = 1,
                     .beside = "multiply"};
    if (!bench_wanted(b, &row))
        return;
    bench_list many;
    bench_list_create(&many, GSC_F32, n, EACH, LIST_NEIGHBOURS);
    limit_elements elements = {GSC_F32, many.memory, n * EACH};
    bench_compare(b, row, (bench_work){.run = bench_list_unscale, .ctx = &many}, limit_multiply(&elements));
    bench_list_free(&many);
}

void bench_cost(bench *b)
{
    size_t most_elements = b->quick ? 10000 : b->full ? 1000000000 : 100000000, most_tensors = b->quick ? 100 : 100000;
    bench_store store = {.kind = GSC_F32, .bytes = most_elements * sizeof(float)};
    for (size_t n = 1; n <= most_elements; n *= 10)
        measure_elements(b, &store, n);
    bench_store_free(&store);
    for (size_t n = 1; n <= most_tensors; n *= 10)
        measure_tensors(b, n);
}
