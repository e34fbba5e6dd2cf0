/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h: memory that is given out in sequence and taken back all at once. After gsc__arena_clear the next chunk is as
 * large as all earlier ones together, so a loop of equal iterations allocates nothing from its third one on. */
#ifndef GSC_TRAIN_TENSOR_ARENA_H
#define GSC_TRAIN_TENSOR_ARENA_H

#include <stddef.h>

#define GSC_ARENA_ALIGNMENT 64 /* a cache line, and the widest vector */

typedef struct gsc__arena_chunk gsc__arena_chunk;

/* All zero is an empty arena. */
typedef struct gsc__arena {
    gsc__arena_chunk *last; /* the one in use, linked to the earlier ones; NULL: none */
    size_t total;           /* bytes of all chunks */
    size_t reserve;         /* the minimum size of the next chunk */
} gsc__arena;

/* A state of the arena to return to. */
typedef struct gsc__arena_mark {
    gsc__arena_chunk *chunk;
    size_t used;
} gsc__arena_mark;

/* Aligned, not initialised. NULL with a message (GSC_ERR_MEMORY): no memory. size 0 gives a valid pointer. */
void *gsc__arena_alloc(gsc__arena *arena, size_t size);
/* Gives back everything allocated since the mark. Chunks that become empty are freed; the next chunk is as large. */
gsc__arena_mark gsc__arena_get_mark(const gsc__arena *arena);
void gsc__arena_rewind(gsc__arena *arena, gsc__arena_mark mark);
void gsc__arena_clear(gsc__arena *arena);
void gsc__arena_free(gsc__arena *arena);

#endif
