/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c: each kernel of src/kernels/kernels.h on one thread, beside the loop that does the least to the same
 * elements. */
#include "kernels/kernels.h"

#include <stdlib.h>

#include "data.h"
#include "gradients/tasks.h"
#include "limits.h"
#include "must.h"
#include "report.h"
#include "sizes.h"
#include "topics.h"

typedef struct kernel_call {
    gsc__kernel *kernel;
    gsc__run *runs;
    gsc__partial *partials; /* NULL: the kernel has none */
    size_t n_runs;
} kernel_call;

static void call_kernel(void *ctx)
{
    const kernel_call *call = ctx;
    call->kernel(call->runs, call->n_runs, 1.0, call->partials);
}

/* Runs of one block if the kernel has a partial result for each run, as sweeps call it; else one run of all elements.
 */
static void cut_into_runs(kernel_call *call, const limit_elements *elements, bool has_partials)
{
    size_t step = has_partials ? GSC_GRADIENT_BLOCK : elements->count;
    call->n_runs = (elements->count + step - 1) / step;
    call->runs = malloc(call->n_runs * sizeof *call->runs);
    call->partials = has_partials ? malloc(call->n_runs * sizeof *call->partials) : NULL;
    if (!call->runs || (has_partials && !call->partials))
        bench_die("no memory for %zu runs", call->n_runs);
    for (size_t k = 0; k < call->n_runs; k++) {
        size_t first = k * step;
        call->runs[k].data = (char *)elements->data + first * gsc__kind_size(elements->kind);
        call->runs[k].count = elements->count - first < step ? elements->count - first : step;
    }
}

static void measure_kernel(bench *b, gsc__operation op, bench_store *store, size_t bytes)
{
    const gsc__operation_info info = gsc__operation_describe(op);
    limit_elements elements = {.kind = store->kind, .count = bytes / gsc__kind_size(store->kind)};
    bench_row row = {.topic = "kernels",
                     .what = info.name,
                     .kind = elements.kind,
                     .elements = elements.count,
                     .tensors = 1,
                     .threads = 1,
                     .beside = info.stores ? "multiply" : "read"};
    if (!bench_wanted(b, &row))
        return;
    elements.data = bench_store_data(store);
    kernel_call call = {.kernel = gsc__kernels()->kernels[op][store->kind]};
    cut_into_runs(&call, &elements, info.partials != GSC_NO_PARTIALS);
    bench_compare(b, row, (bench_work){.run = call_kernel, .ctx = &call},
                  info.stores ? limit_multiply(&elements) : limit_read(&elements));
    free(call.runs);
    free(call.partials);
}

void bench_kernels(bench *b)
{
    size_t sizes[BENCH_SIZES_MAX], n_sizes = bench_sizes(b, sizes);
    for (gsc__kind kind = 0; kind < GSC_KINDS; kind++) {
        bench_store store = {.kind = kind, .bytes = bench_largest_size(b)};
        for (gsc__operation op = 0; op < GSC_OPERATIONS; op++)
            for (size_t i = 0; i < n_sizes; i++)
                measure_kernel(b, op, &store, sizes[i]);
        bench_store_free(&store);
    }
}
