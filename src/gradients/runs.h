/* SPDX-License-Identifier: Apache-2.0 */
/* runs.h: lists of runs for a kernel call; neighbours in memory become one run. */
#ifndef GSC_GRADIENTS_RUNS_H
#define GSC_GRADIENTS_RUNS_H

#include <stddef.h>

#include "kernels/kernels.h"

/* Appends `count` elements at data to n runs of the same element size, which have room for one more. Elements that
 * begin where the last run ends make it longer. Returns the new number of runs. */
static inline size_t gsc__runs_append(gsc__run *runs, size_t n, void *data, size_t count, size_t element_size)
{
    if (n > 0 && (char *)runs[n - 1].data + runs[n - 1].count * element_size == (char *)data) {
        runs[n - 1].count += count;
        return n;
    }
    runs[n] = (gsc__run){data, count};
    return n + 1;
}

#endif
