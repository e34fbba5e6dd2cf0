/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c: malloc, calloc, realloc and free of the proof. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"

/* The linker makes __wrap_malloc of malloc and malloc of __real_malloc. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void __real_free(void *memory);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void __wrap_free(void *memory);

/* Before each block. */
typedef union header {
    struct {
        size_t size, is_free;
    } block;
    max_align_t alignment;
} header;

static _Thread_local heap *current;

void heap_use(heap *h) { current = h; }

void heap_copy(heap *to, const heap *from)
{
    to->used = from->used;
    memcpy(to->bytes, from->bytes, from->used);
}

static size_t rounded(size_t size) { return (size + sizeof(header) - 1) / sizeof(header) * sizeof(header); }

/* The first free block of exactly this size. */
static header *find_free(size_t size)
{
    for (size_t at = 0; at < current->used;) {
        header *h = (header *)(void *)(current->bytes + at);
        if (h->block.is_free && h->block.size == size)
            return h;
        at += sizeof *h + rounded(h->block.size);
    }
    return NULL;
}

static header *append(size_t size)
{
    if (size > HEAP_BYTES || HEAP_BYTES - current->used < rounded(size) + sizeof(header))
        return NULL;
    header *h = (header *)(void *)(current->bytes + current->used);
    current->used += sizeof *h + rounded(size);
    h->block.size = size;
    memset(h + 1, 0, rounded(size));
    return h;
}

static void *allocate(size_t size)
{
    header *h = find_free(size);
    if (!h)
        h = append(size);
    if (!h)
        return NULL;
    h->block.is_free = 0;
    return h + 1;
}

static void release(void *memory)
{
    header *h = (header *)memory - 1;
    h->block.is_free = 1;
    memset(memory, 0, h->block.size);
}

static int is_ours(const void *memory) { return current && (uintptr_t)memory - (uintptr_t)current->bytes < HEAP_BYTES; }

void *__wrap_malloc(size_t size) { return current ? allocate(size) : __real_malloc(size); }

void *__wrap_calloc(size_t count, size_t size)
{
    if (!current)
        return __real_calloc(count, size);
    return count == 0 || size <= HEAP_BYTES / count ? allocate(count * size) : NULL;
}

void *__wrap_realloc(void *memory, size_t size)
{
    if (!current)
        return __real_realloc(memory, size);
    void *larger = allocate(size);
    if (larger && memory) {
        size_t before = ((header *)memory)[-1].block.size;
        memcpy(larger, memory, before < size ? before : size);
        release(memory);
    }
    return larger;
}

void __wrap_free(void *memory)
{
    if (is_ours(memory))
        release(memory);
    else
        __real_free(memory);
}
