/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h: memory that is given out in sequence and taken back all at once. What was used before gsc_arena_clear comes
 * back as one block, so a loop that needs the same memory each time allocates nothing from its third round on. */
#ifndef GSC_TRAIN_ARENA_H
#define GSC_TRAIN_ARENA_H

#include <stddef.h>

#define GSC_ARENA_ALIGNMENT 64 /* a cache line, and the widest vector */

typedef struct gsc_arena_chunk gsc_arena_chunk;

/* All zero is an empty arena. */
typedef struct gsc_arena {
    gsc_arena_chunk *last; /* the one being filled, linked to the earlier ones; NULL: none */
    size_t total;          /* bytes of all chunks */
    size_t reserve;        /* the next chunk's least size */
} gsc_arena;

/* A place in the arena to come back to. */
typedef struct gsc_arena_mark {
    gsc_arena_chunk *chunk;
    size_t used;
} gsc_arena_mark;

/* Aligned, not initialised. NULL with a message (GSC_ERR_MEMORY) when there is none. size 0 gives a valid pointer. */
void *gsc_arena_alloc(gsc_arena *arena, size_t size);
/* Gives back all that was allocated since the mark. Chunks that it empties are freed; the next one is as large. */
gsc_arena_mark gsc_arena_get_mark(const gsc_arena *arena);
void gsc_arena_rewind(gsc_arena *arena, gsc_arena_mark mark);
void gsc_arena_clear(gsc_arena *arena);
void gsc_arena_free(gsc_arena *arena);

#endif
