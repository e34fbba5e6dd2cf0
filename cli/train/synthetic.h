/* SPDX-License-Identifier: Apache-2.0 */
/* synthetic.h: a small regression that float16 cannot learn without loss scaling.
 *
 * A network of 16-64-1 learns the answers of a fixed one of the same shape. Its loss carries a factor so small that
 * every gradient that passes through float16 is below half of the smallest subnormal, 2^-25, and rounds to zero. The
 * learning rate makes up for the factor, so that float32 learns as if it were 1. */
#ifndef CLI_TRAIN_SYNTHETIC_H
#define CLI_TRAIN_SYNTHETIC_H

#include "train/task.h"

/* Makes the data, the same in every run. As task_load. */
gsc_status synthetic_load(train_task *out);

#endif
