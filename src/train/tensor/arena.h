/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h: memory that is given out in sequence and taken back all at once. What was used before gsc__arena_clear comes
 * back as one block, so a loop that needs the same memory each time allocates nothing from its third round on. */
#ifndef GSC_TRAIN_TENSOR_ARENA_H
#define GSC_TRAIN_TENSOR_ARENA_H

#include <stddef.h>

#define GSC_ARENA_ALIGNMENT 64 /* a cache line, and the widest vector */

typedef struct gsc__arena_chunk gsc__arena_chunk;

/* All zero is an empty arena. */
typedef struct gsc__arena {
    gsc__arena_chunk *last; /* the one being filled, linked to the earlier ones; NULL: none */
    size_t total;           /* bytes of all chunks */
    size_t reserve;         /* the next chunk's least size */
} gsc__arena;

/* A place in the arena to come back to. */
typedef struct gsc__arena_mark {
    gsc__arena_chunk *chunk;
    size_t used;
} gsc__arena_mark;

/* Aligned, not initialised. NULL with a message (GSC_ERR_MEMORY) when there is none. size 0 gives a valid pointer. */
void *gsc__arena_alloc(gsc__arena *arena, size_t size);
/* Gives back all that was allocated since the mark. Chunks that it empties are freed; the next one is as large. */
gsc__arena_mark gsc__arena_get_mark(const gsc__arena *arena);
void gsc__arena_rewind(gsc__arena *arena, gsc__arena_mark mark);
void gsc__arena_clear(gsc__arena *arena);
void gsc__arena_free(gsc__arena *arena);

#endif
