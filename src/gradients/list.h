/* SPDX-License-Identifier: Apache-2.0 */
/* gradlist.h: what the core asks of the kernels: one list of tensors, checked once, then swept as a whole.
 *
 *     gsc__list_begin(&list, n)            allocates when n grows beyond GSC_LIST_INLINE
 *     gsc__list_add(&list, tensor, …)      n times: checks one tensor, or refuses it by name
 *     gsc__list_finish(&list)              drops identical views listed twice; allocates when a norm is wanted
 *     gsc__sweep_unscale / _check / …       loops over all elements on all threads
 *
 * The tensors and their shapes are borrowed until the sweeps are done. Sweeps and the functions of norms are
 * arithmetic: their caller has entered the environment of base/fpenv.h. The rest needs none. */
#ifndef GSC_GRADIENTS_LIST_H
#define GSC_GRADIENTS_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradients/view.h"
#include "gradscaler/dtype.h"
#include "gradscaler/status.h"
#include "kernels/kernels.h"

enum { GSC_LIST_INLINE = 16 }; /* tensors, and blocks of a norm, that need no allocation */

/* Begins its life in gsc__list_init or zeroed, and must not move. Members are the kernels' business but for
 * `count`.
 */
typedef struct gsc__list {
    size_t count;    /* tensors with elements, each once: what the sweeps see */
    size_t elements; /* of them */
    gsc__view *views;
    gsc__run *runs; /* the elements, neighbours joined, where `plain` */
    size_t run_count;
    bool plain;      /* all are dense and of the first one's kind */
    bool ascending;  /* each begins above the one before: identical ones are not among them */
    bool same;       /* so far, this is the last list again: only count is behind */
    size_t complete; /* count of the last list; 0 while one is being made */
    size_t last;     /* what `complete` was then */
    size_t capacity;
    gsc__view *more_views; /* capacity of them; NULL: few_views */
    gsc__run *more_runs;
    size_t *table;      /* for finding duplicates */
    size_t blocks;      /* of all tensors; only where a norm is wanted */
    gsc__partial *sums; /* one partial norm per block */
    size_t sums_capacity;
    gsc__partial *more_sums; /* sums_capacity of them; NULL: few_sums */
    gsc__view few_views[GSC_LIST_INLINE];
    gsc__run few_runs[GSC_LIST_INLINE];
    gsc__partial few_sums[GSC_LIST_INLINE];
} gsc__list;

typedef struct gsc__list_rules {
    bool writes; /* elements will be written: refuse strides that reach one twice */
    bool allow_fp16;
    const char *api; /* the public function, for messages */
} gsc__list_rules;

/* Cheaper than zeroing a list on the stack. */
void gsc__list_init(gsc__list *list);
gsc_status gsc__list_begin(gsc__list *list, size_t n);
/* tensor NULL or without elements: passed over. index says in messages which one it is. */
gsc_status gsc__list_add(gsc__list *list, const DLTensor *tensor, size_t index, const gsc__list_rules *rules);

/* Where tensors come from, and for messages their names: `gsc_scaler_unscale: gradient 3 ("fc.weight") is float16; …`.
 */
typedef struct gsc__list_source {
    void *self;
    DLTensor *(*tensor)(void *self, size_t index);
    const char *(*name)(void *self, size_t index); /* may be NULL */
} gsc__list_source;
gsc_status gsc__list_add_each(gsc__list *list, size_t n, const gsc__list_source *source, const gsc__list_rules *rules);
/* May allocate the partial sums (GSC_ERR_MEMORY) when the total size grows and want_norm is set. */
gsc_status gsc__list_finish(gsc__list *list, bool want_norm);
void gsc__list_free(gsc__list *list);

#endif
