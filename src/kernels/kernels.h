/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h: loops over contiguous elements, compiled once per instruction set.
 *
 * To add a kernel: write its body in a loops_*.h and name it in GSC_KERNELS; its entries in every instruction set's
 * table, the benchmark and the tests of all kernels follow from that. Kernels expect the environment of base/fpenv.h.
 */
#ifndef GSC_KERNELS_KERNELS_H
#define GSC_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype_kind.h"
#include "base/isa.h"

/* Contiguous elements. A kernel takes many runs, so that thousands of small tensors cost one call. */
typedef struct gsc__run {
    void *data;
    size_t count;
} gsc__run;

/* One run's result of a norm or count kernel. */
typedef union gsc__partial {
    double sums[3]; /* norm1, norm2: the sum of |y|^p, in [0] if max |y| is ordinary, in [1] if it is tiny (y prescaled
                       by 2^GSC_PRESCALE), in [2] if it is huge (by 2^-GSC_PRESCALE); the other two are 0 */
    struct {
        uint64_t infs, nans;
        uint64_t first; /* index in the run of the first of either; the length of the run if there is none */
    } counts;
} gsc__partial;

/* In double, squares of magnitudes in [2^-GSC_SAFE, 2^GSC_SAFE] neither over- nor underflow, nor do sums of 2^63 of
 * them. A run's largest magnitude is ordinary in [2^-GSC_SAFE, 2^GSC_SAFE), tiny below and huge above. */
enum { GSC_SAFE = 480, GSC_PRESCALE = 600 };

/* Returns the largest magnitude among the results as the bits of the element type, which tells found_inf, infinity from
 * NaN, and max |g|. clamp and count return 0. partials: one per run, or NULL for kernels that have none. */
typedef uint64_t gsc__kernel(const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials);

/* Which member of its partials a kernel fills in. */
typedef enum gsc__partials { GSC_NO_PARTIALS, GSC_SUMS, GSC_COUNTS } gsc__partials;

/* Each operation, once: X(operation, whether it stores to the elements, its partials). y = x * factor, as
 * docs/numbers.md rounds it. The upper half of a maximum, with the lower half 0, tells whether there was an overflow;
 * comparing it takes half the work, which makes gsc_unscale_grads of 16 KiB 24 % faster on AVX2. */
#define GSC_KERNELS(X)                                                                                                 \
    X(unscale, true, GSC_NO_PARTIALS)      /* stores y */                                                              \
    X(unscale_flag, true, GSC_NO_PARTIALS) /* the same, but of float64 the upper half of max |y| */                    \
    X(check, false, GSC_NO_PARTIALS)       /* max |y| alone */                                                         \
    X(check_raw, false, GSC_NO_PARTIALS)   /* max |x|, whatever the factor; of float64 its upper half */               \
    X(norm1, false, GSC_SUMS)              /* sum |y| */                                                               \
    X(norm2, false, GSC_SUMS)              /* sum y^2 */                                                               \
    X(count, false, GSC_COUNTS)            /* infinite and NaN y, and where they begin */                              \
    X(clamp, true, GSC_NO_PARTIALS)        /* x to [-factor, factor], a value of the element type; NaN stays */

/* The kinds that each operation has a kernel for. */
#define GSC_KERNEL_KINDS(X, op) X(op, F32) X(op, F64) X(op, BF16) X(op, F16)

typedef enum gsc__operation {
#define GSC_DECLARE_OPERATION(op, stores, partials) GSC_KERNEL_##op,
    GSC_KERNELS(GSC_DECLARE_OPERATION)
#undef GSC_DECLARE_OPERATION
        GSC_OPERATIONS
} gsc__operation;

/* What the list says of an operation. */
typedef struct gsc__operation_info {
    const char *name;
    bool stores;
    gsc__partials partials;
} gsc__operation_info;

static inline gsc__operation_info gsc__operation_describe(gsc__operation op)
{
    static const gsc__operation_info ops[GSC_OPERATIONS] = {
#define GSC_DESCRIBE_OPERATION(op, stores, partials) {#op, stores, partials},
        GSC_KERNELS(GSC_DESCRIBE_OPERATION)
#undef GSC_DESCRIBE_OPERATION
    };
    return ops[op];
}

typedef struct gsc__kernel_table {
    const char *isa;
    union {
        gsc__kernel *kernels[GSC_OPERATIONS][GSC_KINDS];
        struct { /* the same, by name */
#define GSC_DECLARE_KERNEL(op, stores, partials) gsc__kernel *op[GSC_KINDS];
            GSC_KERNELS(GSC_DECLARE_KERNEL)
#undef GSC_DECLARE_KERNEL
        };
    };
} gsc__kernel_table;

#define GSC_DECLARE_TABLE(isa) extern const gsc__kernel_table gsc__kernels_##isa;
GSC_ISAS(GSC_DECLARE_TABLE)
#undef GSC_DECLARE_TABLE

/* The table in use, chosen at the first call. */
const gsc__kernel_table *gsc__kernels(void);
/* The index-th table that this processor can run, best first; NULL past the last one. */
const gsc__kernel_table *gsc__kernels_present(size_t index);
/* For tests and benchmarks: makes the table of this name the one in use. Returns false and changes nothing if the name
 * is unknown or the processor cannot run it. Must not be called while a kernel runs. */
bool gsc__kernels_select(const char *isa);

#endif
