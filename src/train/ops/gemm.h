/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h: a matrix product of any floating-point dtype. */
#ifndef GSC_TRAIN_OPS_GEMM_H
#define GSC_TRAIN_OPS_GEMM_H

#include "train/tape/tape.h"

/* The product that gsc__gemm describes, also of float64 and of sizes 0. All operands are compact: lda, ldb and ldc are
 * not read. bias NULL: none. Scratch memory comes from the tape and is given back. Accumulates in float32 (float64 for
 * float64); the half dtypes are rounded once, at the end. The same bits for every thread count. */
gsc_status gsc__gemm_run(gsc_tape *tape, gsc__gemm gemm, const void *a, const void *b, const void *bias, void *c);

#endif
