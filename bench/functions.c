/* SPDX-License-Identifier: Apache-2.0 */
/* functions.c: the public functions on one compact tensor, on one thread and on all, beside the least that they need.
 */
#include <string.h>

#include "data.h"
#include "limits.h"
#include "must.h"
#include "report.h"
#include "sizes.h"
#include "topics.h"

typedef struct subject {
    bench_tensor tensor; /* first, so that bench_unscale_tensor can take a subject */
    limit_elements elements;
    DLTensor *list[1];
    bench_scalers scalers;
    double norm;
} subject;

static void run_check(void *ctx)
{
    bool found_inf;
    bench_must(gsc_check_grads(((subject *)ctx)->list, 1, &found_inf));
}

static void run_norm(void *ctx)
{
    subject *s = ctx;
    bench_must(gsc_grad_norm(s->list, 1, 2.0, &s->norm));
}

/* Clips by 2^-20, so that many calls hardly change the values. */
static void run_clip(void *ctx)
{
    subject *s = ctx;
    bench_must(gsc_clip_grad_norm(s->list, 1, s->norm * (1 - 0x1p-20), 2.0, &s->norm));
}

static void run_scale(void *ctx)
{
    subject *s = ctx;
    bench_must(gsc_scaler_scale(bench_scalers_next(&s->scalers), &s->tensor.tensor, &s->tensor.tensor));
}

static void run_statistics(void *ctx)
{
    gsc_grad_stats stats;
    bench_must(gsc_grad_statistics(&((subject *)ctx)->tensor.tensor, &stats));
}

typedef struct function {
    const char *name;
    void (*run)(void *ctx);
    const char *beside;
    bench_work (*limit)(limit_elements *elements);
    size_t max_mib; /* without --full; limits the time that slow functions take */
    bool overflows; /* the last element is infinite */
} function;

static const function functions[] = {
    {"unscale_grads", bench_unscale_tensor, "multiply", limit_multiply, 256, false},
    {"unscale_grads, overflow", bench_unscale_tensor, "multiply", limit_multiply, 256, true},
    {"check_grads", run_check, "read", limit_read, 256, false},
    {"grad_norm", run_norm, "read", limit_read, 256, false},
    {"clip_grad_norm", run_clip, "read + multiply", limit_read_multiply, 256, false},
    {"scaler_scale", run_scale, "multiply", limit_multiply, 32, false},
    {"grad_statistics", run_statistics, "read", limit_read, 32, false},
};

/* docs/performance.md; 0: none. On one thread prefetching beats the reference; more share the memory's bandwidth, of
 * which the reference then uses as much. */
static double function_bar(const function *f, gsc__kind kind, size_t bytes, int threads)
{
    bool wide = kind == GSC_F32 || kind == GSC_F64, in_memory = bytes == 256 * bench_mib;
    if (f->run == run_check)
        return !wide || !in_memory ? 0 : threads == 1 ? 1.0 : 0.95;
    if (f->run != bench_unscale_tensor)
        return 0;
    if (in_memory && wide)
        return threads == 1 ? 1.05 : 0.95;
    if (in_memory)
        return kind == GSC_BF16 && strcmp(gsc_isa(), "avx512") == 0 ? 0.9 : 0;
    if (!wide || bytes < 16 * bench_kib || bytes > 32 * bench_mib)
        return 0;
    return bytes < 128 * bench_kib ? 0.6 : 0.9;
}

static void measure_function(bench *b, const function *f, bench_store *store, size_t bytes, int threads)
{
    gsc__kind kind = store->kind;
    size_t count = bytes / gsc__kind_size(kind);
    bench_row row = {.topic = "functions",
                     .what = f->name,
                     .kind = kind,
                     .elements = count,
                     .tensors = 1,
                     .threads = threads,
                     .beside = f->beside,
                     .bar = function_bar(f, kind, bytes, threads)};
    if ((bytes > f->max_mib * bench_mib && !b->full) || !bench_wanted(b, &row))
        return;
    subject s = {.elements = {.kind = kind, .data = bench_store_data(store), .count = count}};
    s.list[0] = &s.tensor.tensor;
    bench_tensor_flat(&s.tensor, kind, s.elements.data, count);
    bench_scalers_create(&s.scalers);
    bench_must(gsc_grad_norm(s.list, 1, 2.0, &s.norm));
    bench_set_special(kind, s.elements.data, count - 1, f->overflows ? BENCH_INFINITY : BENCH_ONE);
    bench_compare(b, row, (bench_work){.run = f->run, .ctx = &s}, f->limit(&s.elements));
    bench_set_special(kind, s.elements.data, count - 1, BENCH_ONE);
    bench_scalers_destroy(&s.scalers);
}

void bench_functions(bench *b)
{
    size_t sizes[BENCH_SIZES_MAX], n_sizes = bench_sizes(b, sizes);
    int threads[2];
    size_t n_threads = bench_thread_counts(b, threads);
    for (gsc__kind kind = 0; kind < GSC_KINDS; kind++) {
        bench_store store = {.kind = kind, .bytes = bench_largest_size(b)};
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
            for (size_t t = 0; t < n_threads; t++)
                for (size_t k = 0; k < n_sizes; k++)
                    measure_function(b, &functions[i], &store, sizes[k], threads[t]);
        bench_store_free(&store);
    }
}
