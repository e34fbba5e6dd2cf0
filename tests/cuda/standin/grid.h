/* SPDX-License-Identifier: Apache-2.0 */
/* grid.h: runs a kernel's grid: a block after the other, the threads of a block as fibers. */
#ifndef GSC_TESTS_STANDIN_GRID_H
#define GSC_TESTS_STANDIN_GRID_H

#include <stdbool.h>
#include <stddef.h>

#include "standin.h"

enum { GRID_MAX_THREADS = 1024, GRID_MAX_SHARED = 48 * 1024, GRID_WARP = 32 };

/* Grids and blocks have one dimension: cuda/device.h knows no other. */
typedef struct grid_launch {
    const standin_kernel *kernel;
    unsigned blocks, threads; /* of a block */
    const void *args;
} grid_launch;

/* Where the __shared__ variables of kernels lie: filled with rubbish before each block. */
void grid_add_shared(char *begin, char *end);
size_t grid_static_shared(void); /* bytes, of all kernels together */

/* Returns false if the kernel did what no kernel may do; grid_complaint() says what. The rest of the grid has not run
 * then. */
bool grid_run(const grid_launch *launch);
const char *grid_complaint(void);

#endif
