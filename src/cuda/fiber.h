/* SPDX-License-Identifier: Apache-2.0 */
/* fiber.h: what kernels that were compiled for the host call, in place of a GPU's instructions. The stand-in for the
 * driver (tests/cuda/standin) defines it: each thread of a block is a fiber there. C and C++. */
#ifndef GSC_CUDA_FIBER_H
#define GSC_CUDA_FIBER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GSC_FIBER_API __attribute__((visibility("default")))

GSC_FIBER_API unsigned gsc__fiber_thread(void);        /* index in its block */
GSC_FIBER_API unsigned gsc__fiber_block(void);         /* index in the grid */
GSC_FIBER_API unsigned gsc__fiber_block_threads(void); /* threads of a block */
GSC_FIBER_API unsigned gsc__fiber_grid_blocks(void);   /* blocks of the grid */
/* `line` is that of the source: threads that wait for one another must do so at the same place. */
GSC_FIBER_API void gsc__fiber_block_barrier(int line);
GSC_FIBER_API void gsc__fiber_warp_barrier(int line);
GSC_FIBER_API bool gsc__fiber_warp_any(bool condition, int line);
/* The value of the thread whose lane is this one's ^ mask. */
GSC_FIBER_API uint32_t gsc__fiber_warp_xor(uint32_t value, unsigned mask, int line);
/* At atomics and fences: another thread of the block may run first. */
GSC_FIBER_API void gsc__fiber_pause(void);
GSC_FIBER_API double gsc__fiber_square_root(double x);

#ifdef __cplusplus
}
#endif

#endif
