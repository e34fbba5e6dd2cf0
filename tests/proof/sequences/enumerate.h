/* SPDX-License-Identifier: Apache-2.0 */
/* enumerate.h: all sequences of a variant, and random ones of all variants mixed. Both end the program with 1 at the
 * first difference between scaler and model. */
#ifndef GSC_TESTS_SEQUENCES_ENUMERATE_H
#define GSC_TESTS_SEQUENCES_ENUMERATE_H

#include "alphabet.h"

enum { MAX_LENGTH = 12, MAX_THREADS = 64 };

typedef struct enumeration {
    uint64_t sequences; /* of 1 to `length` calls */
    uint64_t calls;     /* made for them */
} enumeration;

/* Compares after every call of every sequence. Sequences that lead to one state, the scaler's memory and the model
 * equal to the last bit, have the same continuations: these are tried once and counted for each. each: tried for each.
 */
enumeration enumerate(const variant *v, int length, bool each, int threads);
/* Tries `count` sequences of `length` calls on 1 to 4 optimizers; options, calls and gradients come from the seed.
 * on_device: the subjects' place is one. */
void walk_at_random(uint64_t seed, uint64_t count, int length, int threads, bool on_device);

#endif
