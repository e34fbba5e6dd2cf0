/* SPDX-License-Identifier: Apache-2.0 */
/* test_kernels.h: the kernels with which the stand-in itself is tested. C and C++. */
#ifndef GSC_TESTS_STANDIN_TEST_KERNELS_H
#define GSC_TESTS_STANDIN_TEST_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* All kernels here take the same arguments. */
typedef struct test_args {
    float *to;
    const float *from;
    uint64_t *counter;
    size_t count;
    float value;
} test_args;

#define TEST_KERNELS(X)                                                                                                \
    X(fill)              /* to[i] = value */                                                                           \
    X(add)               /* to[i] += from[i] */                                                                        \
    X(note_thread)       /* to[0] = the thread's index: the last one's remains */                                      \
    X(note_block)        /* to[0] = the block's index */                                                               \
    X(rotate)            /* in each block to[i] = from[i + 1], through shared memory and a barrier */                  \
    X(rotate_carelessly) /* the same without a barrier */                                                              \
    X(read_shared)       /* to[0] = shared memory that nobody wrote */                                                 \
    X(warp_sum)          /* to[thread] = the sum of from over its warp */                                              \
    X(warp_any)          /* to[thread] = whether any of the warp has from > 0 */                                       \
    X(count_threads)     /* an atomic addition by each thread */                                                       \
    X(count_carelessly)  /* a pause between reading and writing */                                                     \
    X(leave_early)       /* thread 0 returns before a barrier */                                                       \
    X(two_barriers)      /* half of the threads wait at another one */                                                 \
    X(two_warp_ops)      /* half of the lanes are in another operation */                                              \
    X(lane_leaves)       /* lane 5 returns before a shuffle */                                                         \
    X(lane_leaves_sync)  /* lane 5 returns before a barrier of the warp */                                             \
    X(warp_misses)       /* half of the lanes wait for the others at a barrier of the block */                         \
    X(half_up)           /* to[0] = 1 + 2^-24, rounded as the environment has it */                                    \
    X(misaligned)        /* a vector at from + 1 */                                                                    \
    X(largest)           /* to[warp] = the largest magnitude of 4096 elements: as fast as a check can be */

#endif
