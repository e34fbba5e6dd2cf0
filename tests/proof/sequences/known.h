/* SPDX-License-Identifier: Apache-2.0 */
/* known.h: a table of what has been explored already: from the digest of a state to how many sequences start there. */
#ifndef GSC_TESTS_SEQUENCES_KNOWN_H
#define GSC_TESTS_SEQUENCES_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* 128 bits: that two of 10^9 states get the same has a chance of about 10^-21. */
typedef struct digest {
    uint64_t low, high;
} digest;

digest digest_start(uint64_t salt);
void digest_add(digest *d, const void *bytes, size_t n);
/* The same for a heap that starts at `bytes`. Pointers into it are replaced by offsets, so that equal heaps at
 * different addresses have the same digest. */
void digest_add_heap(digest *d, const void *bytes, size_t n);

/* May be used by several threads at once. */
typedef struct known known;
known *known_create(void);    /* NULL: no memory */
void known_destroy(known *k); /* NULL is fine */
/* 0: not known. */
uint64_t known_find(known *k, digest state);
/* false: no memory. Adding what is there already is fine. */
bool known_add(known *k, digest state, uint64_t count);

#endif
