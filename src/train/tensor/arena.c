/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c: memory that is given out in sequence and taken back all at once. */
#include "train/tensor/arena.h"

#include <stdint.h>
#include <stdlib.h>

#include "gradscaler/status.h"

enum { LEAST_CHUNK = 64 * 1024 };

struct gsc__arena_chunk {
    gsc__arena_chunk *previous;
    size_t size, used; /* bytes behind the header */
};

enum { HEADER = GSC_ARENA_ALIGNMENT };
_Static_assert(sizeof(gsc__arena_chunk) <= HEADER, "the header must fit in front of the first aligned byte");

static size_t round_up(size_t size)
{
    return (size + GSC_ARENA_ALIGNMENT - 1) / GSC_ARENA_ALIGNMENT * GSC_ARENA_ALIGNMENT;
}

static gsc__arena_chunk *add_chunk(gsc__arena *arena, size_t size)
{
    size = size < arena->reserve ? arena->reserve : size;
    size =
        size < arena->total / 2 ? round_up(arena->total / 2) : size; /* grows geometrically, so that chunks are few */
    size = size < LEAST_CHUNK ? LEAST_CHUNK : size;
    gsc__arena_chunk *chunk = aligned_alloc(GSC_ARENA_ALIGNMENT, HEADER + size);
    if (!chunk) {
        gsc_fail(GSC_ERR_MEMORY, "the tape needs %zu bytes more and the system has none", size);
        return NULL;
    }
    chunk->previous = arena->last;
    chunk->size = size;
    chunk->used = 0;
    arena->last = chunk;
    arena->total += size;
    arena->reserve = 0;
    return chunk;
}

void *gsc__arena_alloc(gsc__arena *arena, size_t size)
{
    if (size > SIZE_MAX / 4) {
        gsc_fail(GSC_ERR_MEMORY, "the tape cannot hold a tensor of %zu bytes", size);
        return NULL;
    }
    size = round_up(size);
    gsc__arena_chunk *chunk = arena->last;
    if (!chunk || chunk->size - chunk->used < size)
        chunk = add_chunk(arena, size);
    if (!chunk)
        return NULL;
    void *memory = (char *)chunk + HEADER + chunk->used;
    chunk->used += size;
    return memory;
}

gsc__arena_mark gsc__arena_get_mark(const gsc__arena *arena)
{
    return (gsc__arena_mark){.chunk = arena->last, .used = arena->last ? arena->last->used : 0};
}

static void drop_last(gsc__arena *arena)
{
    gsc__arena_chunk *chunk = arena->last;
    arena->last = chunk->previous;
    arena->total -= chunk->size;
    free(chunk);
}

void gsc__arena_rewind(gsc__arena *arena, gsc__arena_mark mark)
{
    size_t peak = arena->total;
    while (arena->last != mark.chunk)
        drop_last(arena);
    if (mark.chunk)
        mark.chunk->used = mark.used;
    if (arena->total < peak && arena->reserve < peak - arena->total)
        arena->reserve = peak - arena->total; /* the next call will need as much scratch memory */
}

void gsc__arena_clear(gsc__arena *arena)
{
    if (arena->last && !arena->last->previous && arena->reserve == 0) {
        arena->last->used = 0;
        return;
    }
    size_t wanted = arena->total + arena->reserve;
    gsc__arena_free(arena);
    arena->reserve = wanted;
}

void gsc__arena_free(gsc__arena *arena)
{
    while (arena->last)
        drop_last(arena);
    arena->reserve = 0;
}
