/* SPDX-License-Identifier: Apache-2.0 */
/* ops_gemm.h: a matrix product of any floating-point dtype. */
#ifndef GSC_TRAIN_OPS_GEMM_H
#define GSC_TRAIN_OPS_GEMM_H

#include "train/tape/tape.h"

/* As gsc__gemm says, also for float64 and for sizes of 0; all is compact, lda, ldb and ldc are not read. bias NULL:
 * none. Scratch memory comes from the tape and is given back. Accumulates in float32 (float64 for float64); the half
 * dtypes are rounded once, at the end. The same bits for every thread count. */
gsc_status gsc__gemm_run(gsc_tape *tape, gsc__gemm gemm, const void *a, const void *b, const void *bias, void *c);

#endif
