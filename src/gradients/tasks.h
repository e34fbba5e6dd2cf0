/* SPDX-License-Identifier: Apache-2.0 */
/* tasks.h: how many tasks a loop over elements is cut into, and the blocks that tasks work on. */
#ifndef GSC_GRADIENTS_TASKS_H
#define GSC_GRADIENTS_TASKS_H

#include <stddef.h>

#include "base/blocks.h"

enum {
    GSC_GRADIENT_BLOCK = 4096,           /* elements; a packed block fits the first cache and a small stack */
    GSC_TASK_MIN = 32768,                /* elements that are worth giving to a thread that is awake */
    GSC_PARALLEL_MIN = 2 * GSC_TASK_MIN, /* with fewer the calling thread works alone */
    GSC_ASLEEP_MIN = 1 << 20 /* the same while the pool sleeps: a thread comes 30 to 50 µs after the call */
};

static inline size_t gsc__gradient_blocks(size_t elements) { return gsc__parts(elements, GSC_GRADIENT_BLOCK); }

/* Elements of the block that begins at `first`, where the elements end at `end`. */
static inline size_t gsc__block_length(size_t first, size_t end)
{
    return end - first < GSC_GRADIENT_BLOCK ? end - first : GSC_GRADIENT_BLOCK;
}

/* Returns a task count for gsc_parallel_run; sets the elements of each task but the last. */
size_t gsc__task_split(size_t elements, size_t *elements_per_task);
/* The same for loops that take no longer than reading memory does: they are done before a sleeping thread comes. */
size_t gsc__task_split_quick(size_t elements, size_t *elements_per_task);

#endif
