/* SPDX-License-Identifier: Apache-2.0 */
/* lists.h: an optimizer with a list of small gradients in memory. */
#ifndef GSC_BENCH_LISTS_H
#define GSC_BENCH_LISTS_H

#include "data.h"

typedef enum list_order {
    LIST_NEIGHBOURS, /* one after the other in memory */
    LIST_GAPS,       /* ascending addresses with gaps between */
    LIST_SHUFFLED,   /* gaps between, addresses in random order */
} list_order;

typedef struct bench_list {
    gsc_optimizer *optimizer; /* with bench_no_step */
    bench_scalers scalers;
    gsc__kind kind;
    gsc_buffer *buffers;
    size_t tensors;
    void *memory;
    size_t bytes;
} bench_list;

void bench_list_create(bench_list *list, gsc__kind kind, size_t tensors, size_t elements_each, list_order order);
void bench_list_free(bench_list *list);
/* Sets the last element of each of the last `n` tensors. */
void bench_list_set_special(bench_list *list, size_t n, bench_special what);

/* Work for a bench_list: gsc_scaler_unscale, gsc_scaler_update. */
void bench_list_unscale(void *list);
/* Work for a bench_list: gsc_scaler_step, gsc_scaler_update. */
void bench_list_step(void *list);

#endif
