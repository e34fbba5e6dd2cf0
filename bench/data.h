/* SPDX-License-Identifier: Apache-2.0 */
/* data.h: memory, values, tensors and scalers to measure with. */
#ifndef GSC_BENCH_DATA_H
#define GSC_BENCH_DATA_H

#include "base/dtype_kind.h"
#include "gradscaler/gradscaler.h"

const char *bench_kind_name(gsc__kind kind); /* "float32" */
DLDataType bench_kind_dtype(gsc__kind kind);

/* Zeroed pages, which bench_memory_free returns to the system. Ends the program if there is no memory. */
void *bench_memory(size_t bytes);
void bench_memory_free(void *memory, size_t bytes);

/* Finite pseudo-random values of both signs with magnitudes in [1, 2): they stay normal when doubled and halved. */
void bench_fill(gsc__kind kind, void *data, size_t n);
typedef enum bench_special { BENCH_ONE, BENCH_INFINITY, BENCH_NAN } bench_special;
void bench_set_special(gsc__kind kind, void *data, size_t index, bench_special what);

/* Memory filled by bench_fill at its first use, so that rows which --only excludes cost nothing. Set kind and bytes;
 * the rest is 0. */
typedef struct bench_store {
    gsc__kind kind;
    size_t bytes;
    void *data;
} bench_store;
void *bench_store_data(bench_store *store);
void bench_store_free(bench_store *store);

/* A tensor of one or two dimensions on the caller's memory. It points into itself: do not copy it. */
typedef struct bench_tensor {
    DLTensor tensor;
    int64_t shape[2], strides[2];
    unsigned turn; /* counts calls of bench_unscale_tensor */
} bench_tensor;
void bench_tensor_flat(bench_tensor *tensor, gsc__kind kind, void *data, size_t n);
void bench_tensor_matrix(bench_tensor *tensor, gsc__kind kind, void *data, int64_t rows, int64_t columns,
                         int64_t row_stride, int64_t column_stride);
/* gsc_unscale_grads of a bench_tensor with scales 2 and 1/2 in turn, so that any number of calls keeps the values. */
void bench_unscale_tensor(void *tensor);

/* Scalers with the fixed scales 2 and 1/2, for the same purpose. */
typedef struct bench_scalers {
    gsc_scaler *pair[2];
    unsigned turn;
} bench_scalers;
void bench_scalers_create(bench_scalers *scalers);
void bench_scalers_destroy(bench_scalers *scalers);
gsc_scaler *bench_scalers_next(bench_scalers *scalers);

/* A step function that does nothing. */
gsc_status bench_no_step(void *ctx);

#endif
