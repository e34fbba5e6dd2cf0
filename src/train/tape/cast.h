/* SPDX-License-Identifier: Apache-2.0 */
/* cast.h: the cast op. It belongs to the tape, because autocast applies it to the inputs of other ops. */
#ifndef GSC_TRAIN_TAPE_CAST_H
#define GSC_TRAIN_TAPE_CAST_H

#include "train/tape/op.h"

/* Its line in the list of ops (ops/op_list.h). */
#define GSC_CAST_OP(X) X(cast, KEEP, 1, 1, 1, "x")

GSC_CAST_OP(GSC_OP_DECLARE)

extern const gsc__op gsc__cast_op;

#endif
