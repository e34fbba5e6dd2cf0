/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h: a kernel over all elements of a list, on all threads.
 *
 * Work is cut into blocks of GSC_GRADIENT_BLOCK elements that begin at each tensor's first element, so that where a
 * block begins depends on neither addresses nor threads. Tasks are whole blocks; their number depends on the elements,
 * not on the tensors. */
#ifndef GSC_GRADIENTS_SWEEP_H
#define GSC_GRADIENTS_SWEEP_H

#include "gradients/layout.h"
#include "gradients/list.h"
#include "kernels/kernels.h"

enum {
    GSC_TASK_MIN = 32768,               /* elements that are worth waking a thread for */
    GSC_PARALLEL_MIN = 2 * GSC_TASK_MIN /* with fewer the caller works alone */
};

typedef struct gsc__sweep {
    const gsc__list *list;
    gsc__kernel *const *kernels; /* by kind */
    double factor[GSC_KINDS];
    bool stores;            /* the kernel changes elements */
    gsc__partial *partials; /* one per block of the list, or NULL */
} gsc__sweep;

/* Runs it; max_bits[kind] becomes the largest that the kernels returned. */
void gsc__sweep_run(const gsc__sweep *sweep, uint64_t max_bits[GSC_KINDS]);

/* A task count for gsc_parallel_run, and the elements of each task but the last. */
size_t gsc__task_split(size_t elements, size_t *elements_per_task);

/* The last of the views that begins at or before an element of the concatenated list. */
static inline size_t gsc__find_view(const gsc__list *list, size_t element)
{
    size_t low = 0, high = list->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (list->views[middle].first_element <= element)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static inline size_t gsc__whole_blocks(size_t elements) { return gsc__gradient_blocks(elements) * GSC_GRADIENT_BLOCK; }

/* Calls visit for every part of a view that task `index` of such a split has to do: elements [from, to), whole blocks.
 * A block belongs to the task that has its first element. Inlined with the visit, which small tensors notice. */
typedef void gsc__visit(void *ctx, const gsc__view *view, size_t from, size_t to);
static inline void gsc__list_visit(const gsc__list *list, size_t index, size_t elements_per_task, gsc__visit *visit,
                                   void *ctx)
{
    size_t first = index * elements_per_task, elements = list->elements;
    size_t end = elements - first > elements_per_task ? first + elements_per_task : elements;
    for (size_t v = gsc__find_view(list, first); v < list->count && list->views[v].first_element < end; v++) {
        const gsc__view *view = &list->views[v];
        if (view->first_element >= first && view->count <= end - view->first_element) {
            visit(ctx, view, 0, view->count);
            continue;
        }
        size_t from = first > view->first_element ? gsc__whole_blocks(first - view->first_element) : 0;
        size_t to = gsc__whole_blocks(end - view->first_element);
        to = to < view->count ? to : view->count;
        if (from < to)
            visit(ctx, view, from, to);
    }
}

/* A sweep of kernels with one factor for all kinds, and what they saw. */
gsc__check_result gsc__sweep_kernels(const gsc__list *list, gsc__kernel *const *kernels, double factor, bool stores);

gsc__check_result gsc__check_result_from_bits(const uint64_t max_bits[GSC_KINDS]);

#endif
