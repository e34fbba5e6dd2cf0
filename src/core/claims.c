/* SPDX-License-Identifier: Apache-2.0 */
/* claims.c: sorted runs of claims, merged as they become as long as their neighbours. */
#include "core/claims.h"

#include <stdlib.h>
#include <string.h>

#include "base/try.h"

void gsc__claims_begin(gsc__claims *claims, uint64_t iteration)
{
    if (claims->iteration == iteration)
        return;
    claims->iteration = iteration;
    claims->count = 0;
    claims->runs = 0;
}

static gsc_status reserve(gsc__claims *claims, size_t more)
{
    size_t count = claims->count + more, capacity = 2 * count;
    if (count <= claims->capacity)
        return GSC_OK;
    bool fits = capacity >= count && capacity <= SIZE_MAX / sizeof *claims->list;
    gsc__claim *list = fits ? malloc(capacity * sizeof *list) : NULL;
    gsc__claim *work = list ? malloc(capacity * sizeof *work) : NULL;
    if (!work) {
        free(list);
        return gsc_fail(GSC_ERR_MEMORY, "no memory to note where %zu gradients are", count);
    }
    if (claims->count > 0)
        memcpy(list, claims->list, claims->count * sizeof *list);
    free(claims->list);
    free(claims->work);
    claims->list = list;
    claims->work = work;
    claims->capacity = capacity;
    return GSC_OK;
}

static void set_reach(gsc__claim *run, size_t n)
{
    uintptr_t reach = 0;
    for (size_t i = 0; i < n; i++) {
        reach = run[i].end > reach ? run[i].end : reach;
        run[i].reach = reach;
    }
}

static void merge_last_two(gsc__claims *claims)
{
    size_t b_count = claims->run_length[claims->runs - 1], a_count = claims->run_length[claims->runs - 2];
    size_t n = a_count + b_count;
    const gsc__claim *a = claims->list + claims->count - n, *b = a + a_count;
    for (size_t i = 0, j = 0; i + j < n;) {
        bool take_a = j == b_count || (i < a_count && a[i].start <= b[j].start);
        claims->work[i + j] = take_a ? a[i] : b[j];
        i += take_a;
        j += !take_a;
    }
    memcpy(claims->list + claims->count - n, claims->work, n * sizeof *claims->work);
    claims->run_length[--claims->runs - 1] = n;
}

/* The claims behind the last run become one. */
static void add_run(gsc__claims *claims, size_t n)
{
    claims->count += n;
    claims->run_length[claims->runs++] = n;
    while (claims->runs > 1 && claims->run_length[claims->runs - 2] < 2 * claims->run_length[claims->runs - 1])
        merge_last_two(claims);
    size_t length = claims->run_length[claims->runs - 1];
    set_reach(claims->list + claims->count - length, length);
}

gsc_status gsc__claims_add(gsc__claims *claims, const gsc__extents *extents, const void *key, uint64_t number)
{
    GSC_TRY(reserve(claims, extents->count));
    for (size_t first = 0, i = 0; i < extents->count; i++) {
        const gsc__extent *extent = &extents->list[i];
        claims->list[claims->count + i - first] =
            (gsc__claim){.start = extent->start, .end = extent->end, .key = key, .number = number, .position = i};
        bool ascends = i + 1 < extents->count && extent[1].start >= extent->start;
        if (!ascends) {
            add_run(claims, i + 1 - first);
            first = i + 1;
        }
    }
    return GSC_OK;
}

/* How many claims of a run start below an address. */
static size_t count_below(const gsc__claim *run, size_t n, uintptr_t address)
{
    size_t low = 0;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        if (run[middle].start < address)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

bool gsc__claims_visit(const gsc__claims *claims, uintptr_t start, uintptr_t end, gsc__claim_visit *visit, void *ctx)
{
    const gsc__claim *run = claims->list;
    for (int r = 0; r < claims->runs; r++) {
        for (size_t i = count_below(run, claims->run_length[r], end); i > 0 && run[i - 1].reach > start; i--)
            if (run[i - 1].end > start && visit(ctx, &run[i - 1]))
                return true;
        run += claims->run_length[r];
    }
    return false;
}

void gsc__claims_free(gsc__claims *claims)
{
    free(claims->list);
    free(claims->work);
}
