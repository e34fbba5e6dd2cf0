/* SPDX-License-Identifier: Apache-2.0 */
/* heap.h: a small heap per thread. A scaler keeps its whole state in memory that it has allocated, so restoring the
 * bytes of the heap restores the scaler. So every sequence of calls can be tried without starting each one anew. The
 * program is linked with --wrap for malloc, calloc, realloc and free: only calls of what is linked into it come here,
 * the C library keeps its own functions.
 *
 * Blocks start as zeros, freed ones are zeroed and given to the next request of their size, so that different calls
 * that lead to the same state leave the same bytes. */
#ifndef GSC_TESTS_SEQUENCES_HEAP_H
#define GSC_TESTS_SEQUENCES_HEAP_H

#include <stddef.h>

enum { HEAP_BYTES = 1 << 16 };

typedef struct heap {
    size_t used;
    _Alignas(max_align_t) unsigned char bytes[HEAP_BYTES];
} heap;

/* This thread allocates here from now on; NULL: in the C library's heap again. A full heap answers NULL. */
void heap_use(heap *h);
/* Copies what is used. */
void heap_copy(heap *to, const heap *from);

#endif
