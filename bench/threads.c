/* SPDX-License-Identifier: Apache-2.0 */
/* threads.c: the speedup from a second thread beside the speedup of the multiply loop. */
#include "data.h"
#include "limits.h"
#include "report.h"
#include "sizes.h"
#include "topics.h"

static void measure_gain(bench *b, bench_store *store, size_t bytes)
{
    limit_elements elements = {.kind = store->kind, .count = bytes / gsc__kind_size(store->kind)};
    bench_row row = {.topic = "second thread",
                     .what = "unscale_grads",
                     .kind = elements.kind,
                     .elements = elements.count,
                     .tensors = 1,
                     .threads = 2,
                     .beside = "gain of multiply",
                     .sense = BENCH_GAIN,
                     .unit = BENCH_TIMES,
                     .bar = 0.9 /* docs/performance.md */};
    if (!bench_wanted(b, &row))
        return;
    elements.data = bench_store_data(store);
    bench_tensor tensor;
    bench_tensor_flat(&tensor, elements.kind, elements.data, elements.count);
    bench_work works[4] = {{bench_unscale_tensor, &tensor, 1},
                           {bench_unscale_tensor, &tensor, 2},
                           limit_multiply(&elements),
                           limit_multiply(&elements)};
    works[2].threads = 1;
    works[3].threads = 2;
    bench_samples samples;
    bench_measure(b, works, 4, true, &samples);
    row.ours = bench_median_quotient(&samples, 0, 1);
    row.reference = bench_median_quotient(&samples, 2, 3);
    row.ratio = row.ours / row.reference;
    bench_append(b, row);
}

void bench_threads(bench *b)
{
    if (b->threads < 2)
        return;
    static const gsc__kind kinds[] = {GSC_F32, GSC_F64, GSC_BF16};
    size_t largest = b->quick ? bench_mib : 256 * bench_mib;
    for (size_t k = 0; k < 3; k++) {
        bench_store store = {.kind = kinds[k], .bytes = largest};
        for (size_t bytes = bench_mib; bytes <= largest; bytes *= 16)
            measure_gain(b, &store, bytes);
        bench_store_free(&store);
    }
}
