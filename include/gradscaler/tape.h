/* SPDX-License-Identifier: Apache-2.0 */
/* tape.h: the tape, which records operations and runs them backward.
 *
 * A tape owns every tensor that the operations of ops.h return, in one arena. It belongs to one thread at a time;
 * parameters that tapes of several threads share must not be changed meanwhile, so their backward passes need a lock.
 */
#ifndef GRADSCALER_TAPE_H
#define GRADSCALER_TAPE_H

#include "gradscaler/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gsc_tape gsc_tape;

GSC_API gsc_status gsc_tape_create(gsc_tape **out);
GSC_API void gsc_tape_free(gsc_tape *tape); /* NULL is fine; its tensors go with it */
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

#ifdef __cplusplus
}
#endif

/* Names of version 0.1.0, kept so that programs written for it compile unchanged. */
#define gsc_tape_destroy gsc_tape_free

#endif
