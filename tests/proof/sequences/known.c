/* SPDX-License-Identifier: Apache-2.0 */
/* known.c: a hash table that grows, and digests. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "known.h"

typedef struct entry {
    digest state;
    uint64_t count; /* 0: empty */
} entry;

struct known {
    pthread_mutex_t mutex;
    entry *entries; /* open addressing, at most three quarters full */
    size_t capacity, used;
};

static uint64_t mix(uint64_t x, uint64_t multiplier)
{
    x *= multiplier;
    return x ^ (x >> 29);
}

digest digest_start(uint64_t salt) { return (digest){.low = salt, .high = ~salt}; }

static void add_word(digest *d, uint64_t word)
{
    d->low = mix(d->low ^ word, 0x9e3779b97f4a7c15u);
    d->high = mix(d->high + word, 0xd1342543de82ef95u);
}

void digest_add(digest *d, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t word = 0;
        memcpy(&word, (const char *)bytes + i, n - i < sizeof word ? n - i : sizeof word);
        add_word(d, word);
    }
}

void digest_add_heap(digest *d, const void *bytes, size_t n)
{
    const uint64_t start = (uintptr_t)bytes, pointer_mark = (uint64_t)1 << 63;
    const unsigned char *at = bytes;
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, at + i, sizeof word);
        add_word(d, word - start < n ? (word - start) ^ pointer_mark : word);
    }
}

known *known_create(void)
{
    known *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->capacity = (size_t)1 << 16;
    k->entries = calloc(k->capacity, sizeof *k->entries);
    if (!k->entries || pthread_mutex_init(&k->mutex, NULL) != 0) {
        free(k->entries);
        free(k);
        return NULL;
    }
    return k;
}

void known_destroy(known *k)
{
    if (!k)
        return;
    pthread_mutex_destroy(&k->mutex);
    free(k->entries);
    free(k);
}

/* Where the state is, or where it belongs. */
static entry *slot(entry *entries, size_t capacity, digest state)
{
    size_t i = (size_t)state.low & (capacity - 1);
    while (entries[i].count != 0 && (entries[i].state.low != state.low || entries[i].state.high != state.high))
        i = (i + 1) & (capacity - 1);
    return &entries[i];
}

static bool grow(known *k)
{
    entry *larger = calloc(2 * k->capacity, sizeof *larger);
    if (!larger)
        return false;
    for (size_t i = 0; i < k->capacity; i++) {
        if (k->entries[i].count != 0)
            *slot(larger, 2 * k->capacity, k->entries[i].state) = k->entries[i];
    }
    free(k->entries);
    k->entries = larger;
    k->capacity *= 2;
    return true;
}

uint64_t known_find(known *k, digest state)
{
    pthread_mutex_lock(&k->mutex);
    uint64_t count = slot(k->entries, k->capacity, state)->count;
    pthread_mutex_unlock(&k->mutex);
    return count;
}

bool known_add(known *k, digest state, uint64_t count)
{
    pthread_mutex_lock(&k->mutex);
    bool fits = 4 * k->used < 3 * k->capacity || grow(k);
    if (fits) {
        entry *e = slot(k->entries, k->capacity, state);
        k->used += e->count == 0;
        *e = (entry){.state = state, .count = count};
    }
    pthread_mutex_unlock(&k->mutex);
    return fits;
}
