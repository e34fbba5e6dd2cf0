/* SPDX-License-Identifier: Apache-2.0 */
/* loops.h: all kernels of one instruction set and their table. Included by isa_*.c, which define
 *
 *     GSC_ISA            the instruction set, as GSC_ISAS has it
 *     GSC_VECTOR         bytes of a vector
 *
 * and, where a comparison and a choice are not the best that the instruction set has for the maxima of two vectors of
 * signed integers, none of them negative,
 *
 *     GSC_MAX_I16, GSC_MAX_I32, GSC_MAX_I64    functions or macros that are
 *     GSC_NO_COMPARE_I64                       if it cannot compare 64-bit integers
 *
 * Each body is inlined into a thin kernel with a constant kind, so the compiler decides everything that depends on the
 * kind. Nothing may depend on the width of vectors: results are the same bits everywhere. */
#include "kernels/kernels.h"

#include "kernels/loops_bits.h"
#include "kernels/loops_vector.h"

#include "kernels/loops_f16.h"
#include "kernels/loops_scan.h"

#include "kernels/loops_clamp.h"
#include "kernels/loops_count.h"
#include "kernels/loops_norm.h"

INLINE uint64_t unscale(gsc__kind kind, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    (void)partials;
    return scan(kind, SCAN_STORE, runs, n_runs, factor);
}

INLINE uint64_t unscale_flag(gsc__kind kind, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    (void)partials;
    return scan(kind, SCAN_FLAG, runs, n_runs, factor);
}

INLINE uint64_t check(gsc__kind kind, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    (void)partials;
    return scan(kind, SCAN_READ, runs, n_runs, factor);
}

INLINE uint64_t check_raw(gsc__kind kind, const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials)
{
    (void)partials;
    return scan(kind, SCAN_RAW, runs, n_runs, factor);
}

#define DEFINE_KERNEL(op, kind)                                                                                        \
    GSC_TARGET static uint64_t op##_##kind(const gsc__run *runs, size_t n_runs, double factor, gsc__partial *partials) \
    {                                                                                                                  \
        return op(GSC_##kind, runs, n_runs, factor, partials);                                                         \
    }
#define DEFINE_KERNELS(op, stores, partials) GSC_KERNEL_KINDS(DEFINE_KERNEL, op)
GSC_KERNELS(DEFINE_KERNELS)

#define TABLE_ENTRY(op, kind) [GSC_##kind] = op##_##kind,
#define TABLE_ROW(op, stores, partials) [GSC_KERNEL_##op] = {GSC_KERNEL_KINDS(TABLE_ENTRY, op)},
const gsc__kernel_table GSC_PASTE(gsc__kernels_, GSC_ISA) = {.isa = GSC_PASTE(GSC_NAME_, GSC_ISA),
                                                             .kernels = {GSC_KERNELS(TABLE_ROW)}};
