/* SPDX-License-Identifier: Apache-2.0 */
/* apply.h: an op call from inputs to result. */
#ifndef GSC_TRAIN_TAPE_APPLY_H
#define GSC_TRAIN_TAPE_APPLY_H

#include "train/tape/op.h"

/* Finds the tape, casts the inputs as autocast wants, checks, computes and records. NULL where a required input is
 * NULL; NULL with a message after an error. */
gsc_tensor *gsc__op_apply(gsc__call *call);

#endif
