/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h: a kernel over all elements of a list, on all threads.
 *
 * Work is cut into blocks of GSC_GRADIENT_BLOCK elements that begin at each tensor's first element, so that where a
 * block begins depends on neither addresses nor threads. Tasks are whole blocks; their number depends on the elements,
 * not on the tensors. */
#ifndef GSC_GRADIENTS_SWEEP_H
#define GSC_GRADIENTS_SWEEP_H

#include "gradients/list.h"
#include "gradients/tasks.h"
#include "kernels/kernels.h"

typedef struct gsc__sweep {
    const gsc__list *list;
    gsc__kernel *const *kernels; /* by kind */
    double factor[GSC_KINDS];
    bool stores;            /* the kernel changes elements */
    gsc__partial *partials; /* one per block of the list, or NULL */
} gsc__sweep;

/* Runs it; max_bits[kind] becomes the largest that the kernels returned. */
void gsc__sweep_run(const gsc__sweep *sweep, uint64_t max_bits[GSC_KINDS]);

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

/* What a check saw, over all dtypes. */
typedef struct gsc__check_result {
    bool found_inf;
    double max_abs; /* of the results; NaN if one is NaN, infinity if one is infinite, 0 if there are none */
} gsc__check_result;

gsc__check_result gsc__check_result_from_bits(const uint64_t max_bits[GSC_KINDS]);

/* Runs kernels with one factor for all kinds. */
gsc__check_result gsc__sweep_kernels(const gsc__list *list, gsc__kernel *const *kernels, double factor, bool stores);

/* x = x * r as docs/numbers.md has it: r is rounded to float32 once for float32, bfloat16 and float16; the product is
 * formed in float32 (float64 for float64) and rounded to the stored dtype. r == 1 writes nothing. */
gsc__check_result gsc__sweep_unscale(const gsc__list *list, double r);
/* The same without writing: what the results would be. */
gsc__check_result gsc__sweep_check(const gsc__list *list, double r);

/* x = x * factor in each dtype's arithmetic (factor rounded to float32 for all but float64). */
void gsc__sweep_multiply(const gsc__list *list, double factor);

#endif
