/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: the tape and the differentiable operations on it.
 *
 * A tape records operations and owns every tensor that they return in one arena. An op finds its tape through its
 * operands: at least one of them belongs to a tape, the others are parameters or belong to the same one.
 * An op given NULL returns NULL, and an op that fails sets the message (gsc_last_error) and returns NULL, so that a
 * chain is checked once, at its end, and the first error's message stays. Activations and their gradients are stored in
 * the dtype that autocast.h gives them, so half precision underflows and overflows here as on a device; parameters and
 * their gradients keep the parameter's dtype. A tape belongs to one thread at a time; parameters that tapes of several
 * threads share must not be changed meanwhile, so their backward passes need a lock.
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
#include "gradscaler/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gsc_tape gsc_tape;

GSC_API gsc_status gsc_tape_create(gsc_tape **out);
GSC_API void gsc_tape_destroy(gsc_tape *tape); /* NULL is fine; its tensors go with it */
/* Releases every tensor of the tape at once, so that none of them may be used any more; parameters are not touched. The
 * memory is kept: a loop of equal iterations allocates nothing from its third one on. */
GSC_API void gsc_tape_clear(gsc_tape *tape);
/* Gradients of `root` (one element, on this tape) are added to every parameter, and to every input, that requires one
 * and that it depends on; GSC_ERR_VALUE if there is none. Results of ops have theirs (gsc_tensor_grad) until the tape
 * is cleared. root NULL (a failed chain): GSC_ERR_VALUE and the chain's message stays. A tape runs backward once:
 * GSC_ERR_STATE the second time, until gsc_tape_clear. On GSC_ERR_MEMORY parameter gradients may be incomplete: zero
 * them. */
GSC_API gsc_status gsc_tape_backward(gsc_tape *tape, gsc_tensor *root);

/* Puts constant values on the tape: a copy of `values` (compact or strided, any dtype of tensor.h, on the CPU). */
GSC_API gsc_tensor *gsc_tape_input(gsc_tape *tape, const DLTensor *values);
/* A parameter's handle on the tape, for ops whose operands are all parameters: the tensor.h functions act on the
 * parameter itself. A tensor that is on the tape is returned as it is. */
GSC_API gsc_tensor *gsc_tape_param(gsc_tape *tape, gsc_tensor *param);

/* Elementwise, with NumPy's broadcasting; mixed dtypes give the widest. */
GSC_API gsc_tensor *gsc_add(gsc_tensor *a, gsc_tensor *b);
GSC_API gsc_tensor *gsc_mul(gsc_tensor *a, gsc_tensor *b);
/* a [m, k] times b [k, n]: [m, n]. Accumulates in float32 (float64 for float64). */
GSC_API gsc_tensor *gsc_matmul(gsc_tensor *a, gsc_tensor *b);
/* x [m, in] times the transpose of weight [out, in], plus bias [out] (NULL: none): [m, out]. */
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
