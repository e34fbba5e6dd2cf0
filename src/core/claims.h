/* SPDX-License-Identifier: Apache-2.0 */
/* claims.h: whose gradients lie where, in one iteration: a claim for each gradient, found by address.
 *
 * Claims are kept in sorted runs, each at least twice as long as the next one: adding n of them costs O(log n) each,
 * and so does finding those at an address. */
#ifndef GSC_CORE_CLAIMS_H
#define GSC_CORE_CLAIMS_H

#include "core/extents.h"

typedef struct gsc__claim {
    uintptr_t start, end;
    uintptr_t reach; /* the greatest end of the claims of this run up to this one */
    const void *key; /* the optimizer's */
    uint64_t number; /* of the check that made the claim */
    size_t position; /* in the optimizer's extents */
} gsc__claim;

enum { GSC_CLAIM_RUNS = 64 };

/* Starts zeroed. */
typedef struct gsc__claims {
    gsc__claim *list, *work;
    size_t count, capacity;
    size_t run_length[GSC_CLAIM_RUNS];
    int runs;
    uint64_t iteration; /* the claims belong to this one */
} gsc__claims;

/* Forgets the claims of other iterations. */
void gsc__claims_begin(gsc__claims *claims, uint64_t iteration);
/* One for each extent. Allocates when there were never so many (GSC_ERR_MEMORY). */
gsc_status gsc__claims_add(gsc__claims *claims, const gsc__extents *extents, const void *key, uint64_t number);
/* Calls `visit` for each claim whose addresses intersect [start, end), until it returns true; returns that. */
typedef bool gsc__claim_visit(void *ctx, const gsc__claim *claim);
bool gsc__claims_visit(const gsc__claims *claims, uintptr_t start, uintptr_t end, gsc__claim_visit *visit, void *ctx);
void gsc__claims_free(gsc__claims *claims);

#endif
