/* SPDX-License-Identifier: Apache-2.0 */
/* op_list.h: every op, once. The functions' prototypes, the table and the test harness are made from the list.
 *
 * X(name, autocast policy, required inputs, inputs, tolerance, the inputs' names)
 * tolerance: how far results and gradients may be from the exact ones where the inputs are around 1, in units of the
 * dtype's epsilon times the larger of 1 and their magnitude. */
#ifndef GSC_TRAIN_OPS_OP_LIST_H
#define GSC_TRAIN_OPS_OP_LIST_H

#include "train/tape/cast.h"
#include "train/tape/op.h"

#define GSC_OPS(X)                                                                                                     \
    X(add, WIDEST, 2, 2, 1, "a", "b")                                                                                  \
    X(mul, WIDEST, 2, 2, 4, "a", "b")                                                                                  \
    X(matmul, LOWER, 2, 2, 8, "a", "b")                                                                                \
    X(linear, LOWER, 2, 3, 8, "x", "weight", "bias")                                                                   \
    X(relu, KEEP, 1, 1, 1, "x")                                                                                        \
    X(tanh, KEEP, 1, 1, 4, "x")                                                                                        \
    GSC_CAST_OP(X)                                                                                                     \
    X(sum, FLOAT32, 1, 1, 1, "x")                                                                                      \
    X(mean, FLOAT32, 1, 1, 2, "x")                                                                                     \
    X(reshape, KEEP, 1, 1, 0, "x")                                                                                     \
    X(mse_loss, FLOAT32, 2, 2, 2, "x", "target")                                                                       \
    X(cross_entropy_loss, FLOAT32, 2, 2, 4, "logits", "labels")                                                        \
    X(scale_loss, KEEP, 1, 1, 1, "loss")

GSC_OPS(GSC_OP_DECLARE)

#define GSC_OP_ID(name, ...) GSC_OP_##name,
enum { GSC_OPS(GSC_OP_ID) GSC_OP_COUNT };
#undef GSC_OP_ID

extern const gsc__op gsc__op_table[GSC_OP_COUNT];

/* gsc_linear for a caller that knows whether there is a bias: NULL is none, whatever has failed before. */
gsc_tensor *gsc__linear(gsc_tensor *x, gsc_tensor *weight, gsc_tensor *bias);

#endif
