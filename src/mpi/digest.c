/* SPDX-License-Identifier: Apache-2.0 */
/* digest.c: 64-bit digests of tensors. Each word goes through a bijection, so tensors that differ in one word alone
 * have different digests. */
#include <string.h>

#include "mpi/internal.h"

enum { LANES = 4, BUFFER = 4096 };
#define WORD sizeof(uint64_t)

static uint64_t mix(uint64_t digest, uint64_t word)
{
    digest = (digest ^ word) * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio: odd, so this is a bijection */
    return digest ^ digest >> 32;
}

uint64_t gsc__mpi_digest_word(uint64_t before, uint64_t word) { return mix(before, word); }

uint64_t gsc__mpi_digest_layout(uint64_t before, const gsc__mpi_view *view)
{
    if (!view->tensor || view->skip) /* every rank passes the same ones over */
        return mix(before, view->skip ? 2 : 1);
    const DLDataType dtype = view->tensor->dtype;
    before = mix(before, 3 | ((uint64_t)dtype.code << 8 | (uint64_t)dtype.bits << 16 | (uint64_t)dtype.lanes << 24));
    return mix(before, view->count);
}

/* Independent lanes: one multiplication waits for the one before. */
static void add_bytes(uint64_t *lanes, const char *bytes, size_t count)
{
    size_t i = 0;
    for (; i + LANES * WORD <= count; i += LANES * WORD) {
        uint64_t words[LANES];
        memcpy(words, bytes + i, sizeof words);
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] = mix(lanes[lane], words[lane]);
    }
    for (; i < count; i += WORD) {
        uint64_t word = 0;
        memcpy(&word, bytes + i, count - i < WORD ? count - i : WORD);
        lanes[0] = mix(lanes[0], word);
    }
}

uint64_t gsc__mpi_digest_elements(uint64_t before, const gsc__mpi_view *view)
{
    uint64_t lanes[LANES] = {before, 1, 2, 3};
    if (view->compact) {
        add_bytes(lanes, view->data, view->count * view->size);
    } else {
        /* In portions of whole lanes, so that the digest is that of a compact copy. */
        char buffer[BUFFER];
        const size_t portion = BUFFER / view->size / 32 * 32;
        for (size_t first = 0; first < view->count; first += portion) {
            const size_t count = view->count - first < portion ? view->count - first : portion;
            gsc__mpi_pack(view, first, count, buffer);
            add_bytes(lanes, buffer, count * view->size);
        }
    }
    for (int lane = 1; lane < LANES; lane++)
        lanes[0] = mix(lanes[0], lanes[lane]);
    return lanes[0];
}
