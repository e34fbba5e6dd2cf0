/* SPDX-License-Identifier: Apache-2.0 */
/* check.h: what the check functions of several ops need. */
#ifndef GSC_TRAIN_TAPE_CHECK_H
#define GSC_TRAIN_TAPE_CHECK_H

#include "train/tape/op.h"

/* All inputs must have one floating-point dtype, which becomes the result's. */
gsc_status gsc__check_one_float(gsc__call *call);
/* The result gets the shape of the first input. */
void gsc__keep_shape(gsc__call *call);

#endif
