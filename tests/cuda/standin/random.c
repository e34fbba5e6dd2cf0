/* SPDX-License-Identifier: Apache-2.0 */
/* random.c: splitmix64. */
#include "random.h"

#include <stdlib.h>
#include <string.h>

static uint64_t seed_now, state;
static bool seeded;

void random_seed(uint64_t seed)
{
    seed_now = seed;
    state = seed * UINT64_C(0x9e3779b97f4a7c15);
    seeded = true;
}

static void seed_from_environment(void)
{
    const char *text = getenv("STANDIN_SEED");
    random_seed(text == NULL ? 1 : strtoull(text, NULL, 10));
}

uint64_t random_seed_now(void)
{
    if (!seeded)
        seed_from_environment();
    return seed_now;
}

uint64_t random_bits(void)
{
    if (!seeded)
        seed_from_environment();
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

size_t random_below(size_t limit) { return (size_t)(((random_bits() >> 32) * (uint64_t)limit) >> 32); }

bool random_share(int percent) { return random_below(100) < (size_t)percent; }

void random_fill(void *memory, size_t bytes)
{
    static const unsigned char rubbish[] = {0xff, 0x7f, 0xff, 0xa5, 0x3c};
    memset(memory, rubbish[random_below(sizeof rubbish)], bytes);
}
