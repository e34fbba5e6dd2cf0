/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.h: sums in float64 over fixed parts and a fixed tree: the same bits for every thread count. */
#ifndef GSC_TRAIN_OPS_REDUCE_H
#define GSC_TRAIN_OPS_REDUCE_H

#include "train/tape/op.h"

/* Sum of elements first … first + n - 1, on the calling thread. */
double gsc__sum_run(gsc__kind kind, const void *elements, size_t first, size_t n);

/* What the index-th part contributes to a sum. */
typedef double gsc__part_sum(const void *ctx, size_t index);
/* *sum = part_sum(ctx, 0) + part_sum(ctx, 1) + …, the calls made on all threads. */
gsc_status gsc__sum_parts(gsc_tape *tape, size_t parts, gsc__part_sum *part_sum, const void *ctx, double *sum);

/* *out = the sum of all elements / divisor, rounded once to their dtype. */
gsc_status gsc__sum_to_one(gsc_tape *tape, gsc__kind kind, const void *elements, size_t n, double divisor, void *out);

#endif
