/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.h: a kernel over all elements of a list, on all threads.
 *
 * Work is cut into blocks of GSC_BLOCK elements that begin at each tensor's first element, so that where a block begins
 * depends on neither addresses nor threads. Tasks are whole blocks; their number depends on the elements, not on the
 * tensors. */
#ifndef GSC_KERNELS_SWEEP_H
#define GSC_KERNELS_SWEEP_H

#include "kernels/gradlist.h"
#include "kernels/kernels.h"
#include "kernels/layout.h"

enum {
    GSC_BLOCK = 4096,      /* elements; a packed block fits the first cache and a small stack */
    GSC_TASK_LEAST = 32768 /* elements that are worth waking a thread for; below twice that the caller works alone */
};

static inline size_t gsc_blocks(size_t elements) { return elements / GSC_BLOCK + (elements % GSC_BLOCK != 0); }

typedef struct gsc_sweep {
    const gsc_gradlist *list;
    gsc_kernel *const *kernels; /* by kind */
    double factor[GSC_KINDS];
    bool stores;           /* the kernel changes elements */
    gsc_partial *partials; /* one per block of the list, or NULL */
} gsc_sweep;

/* Runs it; max_bits[kind] becomes the largest that the kernels returned. Sets the floating-point environment. */
void gsc_sweep_run(const gsc_sweep *sweep, uint64_t max_bits[GSC_KINDS]);

/* A task count for gsc_parallel_run, and the elements of each task but the last. */
size_t gsc_task_split(size_t elements, size_t *elements_per_task);

size_t gsc_gradlist_elements(const gsc_gradlist *list);
size_t gsc_gradlist_blocks(const gsc_gradlist *list);

/* Calls visit for every part of a view that task `index` of such a split has to do: elements [from, to), whole blocks.
 */
typedef void gsc_visit(void *ctx, const gsc_view *view, size_t from, size_t to);
void gsc_gradlist_visit(const gsc_gradlist *list, size_t index, size_t elements_per_task, gsc_visit *visit, void *ctx);

gsc_finding gsc_finding_from_bits(const uint64_t max_bits[GSC_KINDS]);

#endif
