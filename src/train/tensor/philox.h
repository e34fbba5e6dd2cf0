/* SPDX-License-Identifier: Apache-2.0 */
/* philox.h: Philox4x32-10, the block function behind random.h (Salmon, Moraes, Dror and Shaw, "Parallel random numbers:
 * as easy as 1, 2, 3", SC'11): a bijection of 128-bit counters for each 64-bit key. */
#ifndef GSC_TRAIN_TENSOR_PHILOX_H
#define GSC_TRAIN_TENSOR_PHILOX_H

#include <stdint.h>

/* Replaces the counter by its block of random words. Constants and order of words as published. */
static inline void gsc__philox4x32(uint32_t words[4], uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = UINT64_C(0xD2511F53) * words[0];
        uint64_t product1 = UINT64_C(0xCD9E8D57) * words[2];
        words[0] = (uint32_t)(product1 >> 32) ^ words[1] ^ key0;
        words[1] = (uint32_t)product1;
        words[2] = (uint32_t)(product0 >> 32) ^ words[3] ^ key1;
        words[3] = (uint32_t)product0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
}

#endif
