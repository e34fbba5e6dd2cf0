/* SPDX-License-Identifier: Apache-2.0 */
/* dispatch.c: chooses the kernels of the best instruction set, or of the one that GSC_ISA names. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/isa.h"
#include "gradscaler/runtime.h"
#include "gradscaler/status.h"
#include "kernels/kernels.h"

typedef struct candidate {
    const gsc__kernel_table *table;
    bool (*present)(void);
} candidate;

/* Best first. */
#define CANDIDATE(isa) {&gsc__kernels_##isa, gsc__has_##isa},
static const candidate candidates[] = {GSC_ISAS(CANDIDATE)};

static _Atomic(const gsc__kernel_table *) in_use;

const gsc__kernel_table *gsc__kernels_present(size_t index)
{
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++)
        if (candidates[i].present() && index-- == 0)
            return candidates[i].table;
    return NULL;
}

static const gsc__kernel_table *find_present(const char *isa)
{
    const gsc__kernel_table *table;
    for (size_t i = 0; (table = gsc__kernels_present(i)) != NULL; i++)
        if (strcmp(table->isa, isa) == 0)
            return table;
    return NULL;
}

bool gsc__kernels_select(const char *isa)
{
    const gsc__kernel_table *table = find_present(isa);
    if (table)
        atomic_store(&in_use, table);
    return table != NULL;
}

const gsc__kernel_table *gsc__kernels(void)
{
    const gsc__kernel_table *table = atomic_load_explicit(&in_use, memory_order_acquire);
    if (table)
        return table;
    const char *requested = getenv("GSC_ISA");
    const gsc__kernel_table *choice = requested ? find_present(requested) : NULL;
    if (!choice)
        choice = gsc__kernels_present(0);
    /* If several threads get here at once, the choice of the first one holds for all. */
    return atomic_compare_exchange_strong(&in_use, &table, choice) ? choice : table;
}

const char *gsc_isa(void) { return gsc__kernels()->isa; }
