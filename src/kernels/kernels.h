/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h: loops over contiguous elements, compiled once per instruction set.
 *
 * To add a kernel: write its body in loops.h, name it in GSC_KERNELS and in gsc__kernel_table; every instruction set,
 * the dispatch and the tests of all kernels follow from that. Kernels expect the environment of base/fpenv.h. */
#ifndef GSC_KERNELS_KERNELS_H
#define GSC_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype_kind.h"
#include "base/isa.h"

/* Elements that lie one after the other. Thousands of small tensors cost one call. */
typedef struct gsc__run {
    void *data;
    size_t count;
} gsc__run;

/* What the norm and count kernels say of each run. */
typedef union gsc__partial {
    double sums[3]; /* norm1, norm2: of |y|^p where max |y| is ordinary, tiny (y prescaled by 2^GSC_PRESCALE) or huge
                       (by 2^-GSC_PRESCALE); the other two are 0 */
    struct {
        uint64_t infs, nans;
        uint64_t first; /* of either, within the run; its length without any */
    } counts;
} gsc__partial;

/* Squares of magnitudes in [2^-GSC_SAFE, 2^GSC_SAFE] neither over- nor underflow, nor do sums of 2^63 of them. */
enum { GSC_SAFE = 480, GSC_PRESCALE = 600 };

/* Returns the largest magnitude among the results as the bits of the element type: found_inf, infinity against NaN, and
 * max |g| in one number (clamp and count return 0). partials: one per run (norm1, norm2, count), else NULL. */
typedef uint64_t gsc__kernel(const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials);

typedef struct gsc__kernel_table {
    const char *isa;
    /* y = x * factor, as docs/numbers.md rounds it; unscale stores y, check does not. */
    gsc__kernel *unscale[GSC_KINDS];
    gsc__kernel *check[GSC_KINDS];
    /* The same of the elements as they are, whatever the factor; of float64 the upper half of the maximum. */
    gsc__kernel *look[GSC_KINDS];
    gsc__kernel *norm1[GSC_KINDS]; /* sum |y| */
    gsc__kernel *norm2[GSC_KINDS]; /* sum y^2 */
    gsc__kernel *count[GSC_KINDS]; /* infinite and NaN y, and where they begin */
    gsc__kernel *clamp[GSC_KINDS]; /* x to [-factor, factor], a value of the element type; NaN stays */
} gsc__kernel_table;

/* Each kernel, once. */
#define GSC_KERNELS(K)                                                                                                 \
    K(unscale, F32)                                                                                                    \
    K(unscale, F64)                                                                                                    \
    K(unscale, BF16)                                                                                                   \
    K(unscale, F16)                                                                                                    \
    K(check, F32)                                                                                                      \
    K(check, F64)                                                                                                      \
    K(check, BF16)                                                                                                     \
    K(check, F16)                                                                                                      \
    K(look, F32)                                                                                                       \
    K(look, F64)                                                                                                       \
    K(look, BF16)                                                                                                      \
    K(look, F16)                                                                                                       \
    K(norm1, F32)                                                                                                      \
    K(norm1, F64)                                                                                                      \
    K(norm1, BF16)                                                                                                     \
    K(norm1, F16)                                                                                                      \
    K(norm2, F32)                                                                                                      \
    K(norm2, F64)                                                                                                      \
    K(norm2, BF16)                                                                                                     \
    K(norm2, F16)                                                                                                      \
    K(count, F32)                                                                                                      \
    K(count, F64)                                                                                                      \
    K(count, BF16)                                                                                                     \
    K(count, F16)                                                                                                      \
    K(clamp, F32)                                                                                                      \
    K(clamp, F64)                                                                                                      \
    K(clamp, BF16)                                                                                                     \
    K(clamp, F16)

#define GSC_DECLARE_TABLE(isa, name) extern const gsc__kernel_table gsc__kernels_##isa;
GSC_ISAS(GSC_DECLARE_TABLE)
#undef GSC_DECLARE_TABLE

/* The table in use: chosen at the first call. */
const gsc__kernel_table *gsc__kernels(void);
/* Of those that this processor has, the index-th, best first; NULL past the last one. */
const gsc__kernel_table *gsc__kernels_present(size_t index);
/* Makes a present one the table in use (for tests and benchmarks); false: unknown or absent, nothing changes. Not while
 * a loop runs. */
bool gsc__kernels_select(const char *isa);

#endif
