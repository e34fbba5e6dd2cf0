/* SPDX-License-Identifier: Apache-2.0 */
/* synthetic.h: a small regression that float16 cannot learn without loss scaling.
 *
 * A 16-64-1 network learns the outputs of a fixed network of the same shape. Its loss is multiplied by a factor so
 * small that every gradient is below 2^-25 where it passes through float16, half of the smallest subnormal number, and
 * rounds to zero. The learning rate is divided by the factor, so that float32 learns as if it were 1. */
#ifndef CLI_TRAIN_SYNTHETIC_H
#define CLI_TRAIN_SYNTHETIC_H

#include "train/task.h"

/* Generates the data, which are the same in every run. Release *out with task_release, also after an error. */
gsc_status synthetic_load(train_task *out);

#endif
