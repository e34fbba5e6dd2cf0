/* SPDX-License-Identifier: Apache-2.0 */
/* lists.c: an optimizer with a list of small gradients in memory. */
#include "lists.h"

#include <stdlib.h>

#include "must.h"

enum { GAP = 256 /* bytes: too far for the prefetcher of adjacent lines */ };

/* Fisher-Yates with a fixed seed: the same order in every run. */
static void shuffle(gsc_buffer *buffers, size_t n)
{
    uint64_t state = 1;
    for (size_t i = n; i > 1; i--) {
        state = state * 6364136223846793005u + 1442695040888963407u; /* MMIX, Knuth */
        size_t j = (size_t)(state >> 33) % i;
        gsc_buffer swapped = buffers[j];
        buffers[j] = buffers[i - 1];
        buffers[i - 1] = swapped;
    }
}

void bench_list_create(bench_list *list, gsc__kind kind, size_t tensors, size_t elements_each, list_order order)
{
    size_t step = elements_each * gsc__kind_size(kind) + (order == LIST_NEIGHBOURS ? 0 : GAP);
    *list = (bench_list){.kind = kind, .tensors = tensors, .bytes = tensors * step};
    list->memory = bench_memory(list->bytes);
    list->buffers = malloc(tensors * sizeof *list->buffers);
    if (!list->buffers)
        bench_die("no memory for %zu tensors", tensors);
    for (size_t i = 0; i < tensors; i++) {
        void *data = (char *)list->memory + i * step;
        bench_fill(kind, data, elements_each);
        list->buffers[i] = (gsc_buffer){.data = data, .count = elements_each, .dtype = bench_kind_dtype(kind)};
    }
    if (order == LIST_SHUFFLED)
        shuffle(list->buffers, tensors);
    bench_must(gsc_optimizer_from_buffers(list->buffers, tensors, bench_no_step, NULL, &list->optimizer));
    bench_scalers_create(&list->scalers);
}

void bench_list_free(bench_list *list)
{
    bench_scalers_destroy(&list->scalers);
    gsc_optimizer_free(list->optimizer);
    free(list->buffers);
    bench_memory_free(list->memory, list->bytes);
}

void bench_list_set_special(bench_list *list, size_t n, bench_special what)
{
    for (size_t i = list->tensors - n; i < list->tensors; i++)
        bench_set_special(list->kind, list->buffers[i].data, list->buffers[i].count - 1, what);
}

void bench_list_unscale(void *ctx)
{
    bench_list *list = ctx;
    gsc_scaler *scaler = bench_scalers_next(&list->scalers);
    bench_must(gsc_scaler_unscale(scaler, list->optimizer));
    bench_must(gsc_scaler_update(scaler));
}

void bench_list_step(void *ctx)
{
    bench_list *list = ctx;
    gsc_scaler *scaler = bench_scalers_next(&list->scalers);
    bench_must(gsc_scaler_step(scaler, list->optimizer, NULL, NULL));
    bench_must(gsc_scaler_update(scaler));
}
