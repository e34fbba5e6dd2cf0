/* SPDX-License-Identifier: Apache-2.0 */
/* list.h: the tensors of one call, each checked once, for loops over all their elements.
 *
 *     gsc__list_begin(&list, n)            allocates when n grows beyond GSC_LIST_INLINE
 *     gsc__list_add(&list, tensor, …)      n times: checks one tensor, or refuses it by name
 *     gsc__list_finish(&list, …)           drops identical views listed twice, refuses others that share elements
 *     gsc__sweep_unscale, gsc__norm_sum …  loops over all elements on all threads
 *
 * The tensors and their shapes are borrowed until the loops are done. While a list repeats the previous one, which is
 * what optimizers do in every iteration, its views and runs are still valid and only have to be compared. */
#ifndef GSC_GRADIENTS_LIST_H
#define GSC_GRADIENTS_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradients/distinct.h"
#include "gradients/view.h"
#include "gradscaler/dtype.h"
#include "gradscaler/status.h"
#include "kernels/kernels.h"

enum { GSC_LIST_INLINE = 16 }; /* tensors, and blocks of a norm, that need no allocation */

/* Starts in gsc__list_init or zeroed, and must not move. */
typedef struct gsc__list {
    size_t count;    /* tensors with elements, each once */
    size_t elements; /* in all of them */
    gsc__view *views;
    gsc__run *runs; /* the elements, neighbours joined, if `plain` */
    size_t run_count;
    bool plain;            /* all views are dense and of the first one's kind */
    bool ascending;        /* each view begins behind the end of the one before: none share elements */
    uintptr_t end;         /* of the last view */
    bool matches_previous; /* the views so far are the previous list's first `count`; the totals above are of all */
    size_t previous_count; /* views left of the previous list; 0 once this one differs from it */
    size_t capacity;       /* of heap_views and heap_runs */
    gsc__view *heap_views; /* NULL: inline_views */
    gsc__run *heap_runs;
    size_t addresses_capacity;    /* two for each tensor */
    gsc__address *heap_addresses; /* for finding views that share elements; NULL: on the stack */
    size_t blocks;                /* of all tensors; only where a norm is wanted */
    gsc__partial *sums;           /* one partial norm per block */
    size_t sums_capacity;         /* of heap_sums */
    gsc__partial *heap_sums;      /* NULL: inline_sums */
    gsc__view inline_views[GSC_LIST_INLINE];
    gsc__run inline_runs[GSC_LIST_INLINE];
    gsc__partial inline_sums[GSC_LIST_INLINE];
} gsc__list;

typedef struct gsc__list_rules {
    bool writes; /* elements will be written: refuse strides that reach one twice, and views that share some; the same
                    for all calls of one list */
    bool allow_fp16;
    const gsc__served *served; /* as in gsc__view_rules; the same for all calls of one list */
    bool distinct;             /* for gsc__list_finish: the caller knows that no two views share elements */
    const char *api;           /* the public function, for messages */
} gsc__list_rules;

/* Cheaper than zeroing a list on the stack. */
void gsc__list_init(gsc__list *list);
gsc_status gsc__list_begin(gsc__list *list, size_t n);
/* tensor NULL or without elements: passed over. index says in messages which one it is. */
gsc_status gsc__list_add(gsc__list *list, const DLTensor *tensor, size_t index, const gsc__list_rules *rules);

/* Where tensors come from, and their names for messages: `gsc_scaler_unscale: gradient 3 ("fc.weight") is float16; …`.
 */
typedef struct gsc__list_source {
    void *self;
    DLTensor *(*tensor)(void *self, size_t index);
    const char *(*name)(void *self, size_t index); /* may be NULL */
    const DLTensor *failed; /* what tensor() returns when it fails, with a message; NULL: it does not fail */
} gsc__list_source;
/* Returns GSC_ERR_OPTIMIZER for a tensor() that failed; the message ends in its own, or says that there is none. */
gsc_status gsc__list_tensor_failed(const gsc__list_source *source, size_t index, const char *api, bool has_message);
gsc_status gsc__list_add_each(gsc__list *list, size_t n, const gsc__list_source *source, const gsc__list_rules *rules);

/* Drops identical views; refuses (GSC_ERR_VALUE) two others that share elements, where rules->writes. source may be
 * NULL: then messages have no names. May allocate the partial sums (GSC_ERR_MEMORY) when the total size grows and
 * want_norm is set. */
gsc_status gsc__list_finish(gsc__list *list, const gsc__list_source *source, const gsc__list_rules *rules,
                            bool want_norm);
void gsc__list_free(gsc__list *list);

#endif
