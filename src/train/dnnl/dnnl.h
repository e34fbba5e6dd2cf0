/* SPDX-License-Identifier: Apache-2.0 */
/* dnnl.h: matrix products through oneDNN, version 2 and 3 alike. Nothing else includes oneDNN's headers. */
#ifndef GSC_TRAIN_DNNL_DNNL_H
#define GSC_TRAIN_DNNL_DNNL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype_kind.h"
#include "gradscaler/status.h"

/* C [m, n] = A [m, k] times B [k, n], plus bias [n] to each row; all of one dtype. lda, ldb and ldc are the distances
 * between the starts of two stored rows, in elements. A transposed operand is stored as [k, m] or [n, k]. m, n, k > 0.
 */
typedef struct gsc__gemm {
    gsc__kind kind; /* float32, bfloat16 or float16 */
    bool transpose_a, transpose_b, has_bias;
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
} gsc__gemm;

typedef struct gsc__dnnl_matmul gsc__dnnl_matmul;

/* The oneDNN objects of a tape, which belongs to one thread at a time. All zero until gsc__dnnl_init. */
typedef struct gsc__dnnl {
    void *engine;
    gsc__dnnl_matmul *matmuls; /* the most recently used ones, GSC_DNNL_MATMULS at most */
    int count;
    uint64_t clock;
} gsc__dnnl;

enum { GSC_DNNL_MATMULS = 64 };

gsc_status gsc__dnnl_init(gsc__dnnl *dnnl);
void gsc__dnnl_free(gsc__dnnl *dnnl);

/* The primitive for this product, made at the first call for it. NULL with a message on failure. A primitive stays
 * valid during the next GSC_DNNL_MATMULS - 1 calls. */
const gsc__dnnl_matmul *gsc__dnnl_find(gsc__dnnl *dnnl, const gsc__gemm *gemm);
/* Whether oneDNN computes it fast and rightly on this processor (faults.h). If not, compute in float32 instead. */
bool gsc__dnnl_is_usable(const gsc__dnnl_matmul *matmul);
/* Bytes of scratch memory that one run needs. */
size_t gsc__dnnl_scratch_bytes(const gsc__dnnl_matmul *matmul);
/* Computes on the calling thread alone, accumulating in float32. Several threads may run one primitive at a time, each
 * with its own scratch memory. */
gsc_status gsc__dnnl_run(const gsc__dnnl *dnnl, const gsc__dnnl_matmul *matmul, const void *a, const void *b,
                         const void *bias, void *c, void *scratch);

#endif
