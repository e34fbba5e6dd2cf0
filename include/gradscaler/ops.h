/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: the differentiable operations, recorded on a tape (tape.h).
 *
 * An op finds its tape through its operands: at least one of them belongs to a tape, the others are parameters or
 * belong to the same one. An op given NULL returns NULL, and an op that fails sets the message (gsc_last_error) and
 * returns NULL, so that a chain is checked once, at its end, and the first error's message stays. Activations and their
 * gradients are stored in the dtype that autocast.h gives them, so half precision underflows and overflows here as on a
 * device; parameters and their gradients keep the parameter's dtype.
 *
 * Results are the same bits for every thread count (gsc_set_num_threads). Matrix products come from oneDNN, which is
 * held to the library's threads; they are the same bits on one machine.
 *
 *     gsc_tape_clear(tape);
 *     gsc_tensor *x = gsc_tape_input(tape, images), *y = gsc_tape_input(tape, labels);
 *     gsc_tensor *loss = gsc_cross_entropy_loss(gsc_linear(x, weight, bias), y);
 *     status = gsc_tape_backward(tape, gsc_scale_loss(scaler, loss));      // also where one of the ops failed
 */
#ifndef GRADSCALER_OPS_H
#define GRADSCALER_OPS_H

#include "gradscaler/scaler.h"
#include "gradscaler/tape.h"
#include "gradscaler/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elementwise, with NumPy's broadcasting; mixed dtypes give the widest. */
GSC_API gsc_tensor *gsc_add(gsc_tensor *a, gsc_tensor *b);
GSC_API gsc_tensor *gsc_mul(gsc_tensor *a, gsc_tensor *b);
/* a [m, k] times b [k, n]: [m, n]. Accumulates in float32 (float64 for float64). */
GSC_API gsc_tensor *gsc_matmul(gsc_tensor *a, gsc_tensor *b);
/* x [m, in] times the transpose of weight [out, in], plus bias [out] (NULL: none): [m, out]. After an op of this thread
 * has failed, bias NULL counts as that op's result: NULL is returned and the message stays, until a tape is created,
 * cleared or run backward. */
GSC_API gsc_tensor *gsc_linear(gsc_tensor *x, gsc_tensor *weight, gsc_tensor *bias);
GSC_API gsc_tensor *gsc_relu(gsc_tensor *x);
GSC_API gsc_tensor *gsc_tanh(gsc_tensor *x);
GSC_API gsc_tensor *gsc_cast(gsc_tensor *x, DLDataType dtype); /* between floating-point dtypes, rounded once */
/* All elements: 0-d. mean of no elements is NaN. */
GSC_API gsc_tensor *gsc_sum(gsc_tensor *x);
GSC_API gsc_tensor *gsc_mean(gsc_tensor *x);
/* The same elements in another shape; one size may be -1: what remains. */
GSC_API gsc_tensor *gsc_reshape(gsc_tensor *x, int32_t ndim, const int64_t *shape);
/* Mean of (x - target)^2 over all elements, equal shapes: 0-d. */
GSC_API gsc_tensor *gsc_mse_loss(gsc_tensor *x, gsc_tensor *target);
/* Mean over the rows of -log softmax(logits)[label]; logits [m, classes], labels int64 [m] in [0, classes): 0-d. */
GSC_API gsc_tensor *gsc_cross_entropy_loss(gsc_tensor *logits, gsc_tensor *labels);
/* loss * the scaler's scale at this moment, as float32 or float64; the loss itself when the scaler is disabled. The
 * gradient is multiplied by that same scale, also if the scaler has been updated in between. */
GSC_API gsc_tensor *gsc_scale_loss(gsc_scaler *scaler, gsc_tensor *loss);

#ifdef __cplusplus
}
#endif
#endif
