/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c: the optimizers' loops, compiled for each element type and instruction set. */
#include "train/optim/kernels.h"

#include <stdint.h>
#include <string.h>

#include "base/isa.h"

/* Adam works on four arrays, more than hardware prefetchers follow well. SGD's two and three get slower with it. */
enum {
    LINE = 64,                 /* bytes of a cache line */
    PREFETCH_BYTES = 4 * LINE, /* at a time, of each array */
    PREFETCH_AHEAD = 4096      /* bytes from the element at work */
};

__attribute__((always_inline)) static inline void prefetch_ahead(const void *x)
{
    for (uintptr_t byte = 0; byte < PREFETCH_BYTES; byte += LINE) /* may be past the end: nothing is read */
        __builtin_prefetch((const void *)((uintptr_t)x + PREFETCH_AHEAD + byte));
}

/* Included once per type, because C has no other way to write a formula in operators for both. */
#define GSC_REAL float
#define GSC_LOOP(name) name##_f32
#include "train/optim/loops.h"
#undef GSC_REAL
#undef GSC_LOOP

#define GSC_REAL double
#define GSC_LOOP(name) name##_f64
#include "train/optim/loops.h"
#undef GSC_REAL
#undef GSC_LOOP

#define DEFINE_KERNEL(name, isa)                                                                                       \
    GSC_TARGET_##isa static void name##_##isa(const gsc__update *update, size_t first, size_t count)                   \
    {                                                                                                                  \
        name(update, first, count);                                                                                    \
    }
#define DEFINE_KERNELS(name, isa)                                                                                      \
    DEFINE_KERNEL(name##_f32, isa)                                                                                     \
    DEFINE_KERNEL(name##_f64, isa)
#define DEFINE_KERNELS_OF_ISA(isa) GSC_UPDATE_KERNELS(DEFINE_KERNELS, isa)
GSC_ISAS(DEFINE_KERNELS_OF_ISA)

#define TABLE_ENTRY(name, isa) .name = {name##_f32_##isa, name##_f64_##isa},
#define TABLE(set) {.isa = GSC_NAME_##set, GSC_UPDATE_KERNELS(TABLE_ENTRY, set)},
static const gsc__update_kernels tables[] = {GSC_ISAS(TABLE)};
enum { TABLES = sizeof tables / sizeof tables[0] };

const gsc__update_kernels *gsc__update_kernels_of(const char *isa)
{
    for (size_t i = 0; i < TABLES; i++)
        if (strcmp(tables[i].isa, isa) == 0)
            return &tables[i];
    return &tables[TABLES - 1]; /* the baseline is the last of GSC_ISAS */
}
