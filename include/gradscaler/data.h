/* SPDX-License-Identifier: Apache-2.0 */
/* data.h: data sets in memory, the IDX file format, and a loader of shuffled batches. */
#ifndef GRADSCALER_DATA_H
#define GRADSCALER_DATA_H

#include "gradscaler/random.h"
#include "gradscaler/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define GSC_IDX_MAX_DIMS 4

/* One IDX file of unsigned bytes (type code 0x08): shape[ndim] and its elements, row-major. */
typedef struct gsc_idx {
    int32_t ndim;
    int64_t shape[GSC_IDX_MAX_DIMS];
    uint8_t *data;
    size_t count;
} gsc_idx;
/* Reads a file, plain or gzipped (detected by content). Checks every field of the header, and that the data is exactly
 * as long as the header says. Errors name the file and the field: GSC_ERR_IO (cannot be opened or read), GSC_ERR_VALUE
 * (content), GSC_ERR_MEMORY. *out is set on success only; free it with gsc_idx_free. */
GSC_API gsc_status gsc_idx_read(const char *path, gsc_idx *out);
GSC_API void gsc_idx_free(gsc_idx *idx); /* frees the data and zeroes *idx; NULL is fine */

/* Examples with a label (classification) or target values (regression). */
typedef struct gsc_dataset gsc_dataset;
/* Images and labels from a folder in MNIST's layout: <prefix>-images-idx3-ubyte[.gz] and
 * <prefix>-labels-idx1-ubyte[.gz], prefix "train" or "t10k"; the plain file is read if both exist. Images are 3-d and
 * kept as bytes; a loader returns pixel/255. Labels are 1-d and < classes; there is at least one image, and a label for
 * each. Errors: as gsc_idx_read, and GSC_ERR_IO naming both files if neither exists. */
GSC_API gsc_status gsc_dataset_mnist(const char *dir, const char *prefix, int64_t classes, gsc_dataset **out);
/* Copies count rows of `features` floats and of `targets` floats, each at least 1. Errors: GSC_ERR_VALUE,
 * GSC_ERR_MEMORY. */
GSC_API gsc_status gsc_dataset_regression(const float *x, const float *y, size_t count, int64_t features,
                                          int64_t targets, gsc_dataset **out);
/* The same with a label for each row, in [0, classes). GSC_ERR_VALUE also for a label that is not: the message says
 * which. */
GSC_API gsc_status gsc_dataset_classification(const float *x, const int64_t *labels, size_t count, int64_t features,
                                              int64_t classes, gsc_dataset **out);
GSC_API void gsc_dataset_free(gsc_dataset *dataset); /* NULL is fine */
/* 0 for NULL. */
GSC_API size_t gsc_dataset_count(const gsc_dataset *dataset);
GSC_API int64_t gsc_dataset_features(const gsc_dataset *dataset);
GSC_API int64_t gsc_dataset_classes(const gsc_dataset *dataset); /* 0: regression */

typedef struct gsc_loader gsc_loader;
/* Batches of `batch` examples, at least 1; the last one of an epoch is smaller if the count is no multiple. In order,
 * or shuffled: the order depends on seed and epoch alone. Starts at epoch 0. The data set is borrowed: it must outlive
 * the loader. Errors: GSC_ERR_VALUE, GSC_ERR_MEMORY. */
GSC_API gsc_status gsc_loader_create(const gsc_dataset *dataset, size_t batch, bool shuffle, uint64_t seed,
                                     gsc_loader **out);
GSC_API void gsc_loader_free(gsc_loader *loader);            /* NULL is fine */
GSC_API size_t gsc_loader_batches(const gsc_loader *loader); /* in an epoch; 0 for NULL */
/* Moves to the first batch of an epoch. */
GSC_API void gsc_loader_start(gsc_loader *loader, uint64_t epoch);
/* The position: the epoch, and how many of its batches were returned. 0 for NULL. */
GSC_API uint64_t gsc_loader_epoch(const gsc_loader *loader);
GSC_API size_t gsc_loader_batch(const gsc_loader *loader);
/* Moves to a position: the next batch is the one after gsc_loader_start(epoch) and `batch` calls of gsc_loader_next.
 * GSC_ERR_VALUE, nothing changed: `batch` is more than an epoch has. */
GSC_API gsc_status gsc_loader_seek(gsc_loader *loader, uint64_t epoch, size_t batch);
/* The next batch: *x float32 [n, features], *y int64 [n] or float32 [n, targets], compact; borrowed until the next
 * call. Returns n; 0 and NULL tensors at the end of the epoch, until gsc_loader_start; 0 with a message for NULL
 * arguments. */
GSC_API size_t gsc_loader_next(gsc_loader *loader, const DLTensor **x, const DLTensor **y);

#ifdef __cplusplus
}
#endif
#endif
