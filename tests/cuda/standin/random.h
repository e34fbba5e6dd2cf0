/* SPDX-License-Identifier: Apache-2.0 */
/* random.h: the numbers that decide what the driver is free to choose. */
#ifndef GSC_TESTS_STANDIN_RANDOM_H
#define GSC_TESTS_STANDIN_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void random_seed(uint64_t seed);
uint64_t random_seed_now(void);
uint64_t random_bits(void);
size_t random_below(size_t limit); /* 0 ... limit - 1; limit > 0 */
bool random_share(int percent);
void random_fill(void *memory, size_t bytes); /* rubbish: one byte repeated, most often one that makes NaN */

#endif
