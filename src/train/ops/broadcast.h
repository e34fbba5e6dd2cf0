/* SPDX-License-Identifier: Apache-2.0 */
/* broadcast.h: NumPy's broadcasting, and the sums that reverse it in the backward pass. */
#ifndef GSC_TRAIN_OPS_BROADCAST_H
#define GSC_TRAIN_OPS_BROADCAST_H

#include "train/tape/op.h"

/* Fills in call->ndim and call->shape from the shapes of inputs 0 and 1. */
gsc_status gsc__broadcast_shape(gsc__call *call);

/* A tensor seen with the shape of a result that it is broadcast to. Dimensions of size 1 are dropped; neighbouring
 * dimensions whose elements one stride reaches are merged. */
typedef struct gsc__broadcast_view {
    const void *data;
    gsc__kind kind;
    int32_t ndim; /* 0: one element */
    int64_t size[GSC_TENSOR_MAX_DIMS];
    int64_t stride[GSC_TENSOR_MAX_DIMS]; /* in elements; 0: broadcast along it */
} gsc__broadcast_view;

gsc__broadcast_view gsc__broadcast_view_of(const gsc_tensor *tensor, const gsc_tensor *result);

/* Elements first … first + n - 1 of the view as `out_kind` (float32 or float64), n <= GSC_STRIP. Returns a pointer to
 * them where they have that dtype and are contiguous, else copies them to strip and returns that. */
const void *gsc__broadcast_load(const gsc__broadcast_view *view, size_t first, size_t n, gsc__kind out_kind,
                                void *strip);

/* Sums `gradient`, which has the result's shape, over the dimensions that `tensor` was broadcast along. The sums have
 * the tensor's shape; both have its dtype. Adds in float64 and rounds once. */
gsc_status gsc__broadcast_sum(gsc_tape *tape, const gsc_tensor *result, const void *gradient, const gsc_tensor *tensor,
                              void *sums);

#endif
