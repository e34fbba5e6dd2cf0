/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h: a kernel over all elements of a list, on all threads.
 *
 * The elements are cut into blocks that begin at each tensor's first element, so that neither addresses nor the number
 * of threads move a block. Tasks are whole blocks; how many there are depends on the elements, not on the tensors.
 * Sweeps are arithmetic: the caller has entered the environment of base/fpenv.h. */
#ifndef GSC_GRADIENTS_SWEEP_H
#define GSC_GRADIENTS_SWEEP_H

#include "base/blocks.h"
#include "gradients/list.h"
#include "gradients/tasks.h"
#include "kernels/kernels.h"

/* What a check saw, over all dtypes. */
typedef struct gsc__check_result {
    bool found_inf;
    double max_abs; /* of the results; NaN if one is NaN, infinity if one is infinite, 0 if there are none */
} gsc__check_result;

/* x = x * r as docs/numbers.md has it: r is rounded to float32 once for float32, bfloat16 and float16; the product is
 * formed in float32 (float64 for float64) and rounded to the stored dtype. r == 1 writes nothing. */
gsc__check_result gsc__sweep_unscale(const gsc__list *list, double r);
/* The same without writing: what the results would be. */
gsc__check_result gsc__sweep_check(const gsc__list *list, double r);
/* x = x * factor in each dtype's arithmetic (factor rounded to float32 for all but float64). */
void gsc__sweep_multiply(const gsc__list *list, double factor);

/* Any kernels with one factor for all kinds. stores: they change elements. */
gsc__check_result gsc__sweep_kernels(const gsc__list *list, gsc__kernel *const *kernels, double factor, bool stores);

/* Any kernels, with a factor for each kind. */
typedef struct gsc__sweep {
    const gsc__list *list;
    gsc__kernel *const *kernels; /* by kind */
    double factor[GSC_KINDS];
    bool stores;            /* the kernels change elements */
    gsc__partial *partials; /* one per block of the list, or NULL */
} gsc__sweep;

/* max_bits[kind] becomes the largest number that the kernels returned. */
void gsc__sweep_run(const gsc__sweep *sweep, uint64_t max_bits[GSC_KINDS]);

gsc__check_result gsc__check_result_from_bits(const uint64_t max_bits[GSC_KINDS]);

/* Any other work by view: calls visit with the elements [first, end) of each view that belong to a task. A block
 * belongs to the task that has its first element. Inlined together with visit, which matters for small tensors. */
typedef void gsc__visit(void *ctx, const gsc__view *view, size_t first, size_t end);

static inline size_t gsc__whole_blocks(size_t elements) { return gsc__gradient_blocks(elements) * GSC_GRADIENT_BLOCK; }

static inline void gsc__list_visit(const gsc__list *list, size_t index, size_t elements_per_task, gsc__visit *visit,
                                   void *ctx)
{
    gsc__range task = gsc__part(list->elements, elements_per_task, index);
    size_t v = gsc__find_part(&list->views[0].first_element, sizeof *list->views, list->count, task.first);
    for (; v < list->count && list->views[v].first_element < task.end; v++) {
        const gsc__view *view = &list->views[v];
        if (view->first_element >= task.first && view->count <= task.end - view->first_element) {
            visit(ctx, view, 0, view->count);
            continue;
        }
        size_t first = task.first > view->first_element ? gsc__whole_blocks(task.first - view->first_element) : 0;
        size_t end = gsc__whole_blocks(task.end - view->first_element);
        end = end < view->count ? end : view->count;
        if (first < end)
            visit(ctx, view, first, end);
    }
}

#endif
