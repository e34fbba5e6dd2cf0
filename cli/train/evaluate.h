/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.h: loss and accuracy of a network on a whole data set. */
#ifndef CLI_TRAIN_EVALUATE_H
#define CLI_TRAIN_EVALUATE_H

#include "train/task.h"

typedef struct evaluation {
    double loss;     /* mean over all examples, without the task's factor */
    double accuracy; /* share of examples whose largest output is the label's; NaN: the task has no accuracy */
} evaluation;

/* Clears the tape. Stops early after a signal (interrupt.h); then both numbers are NaN. */
gsc_status evaluate(const train_task *task, gsc_module *model, gsc_tape *tape, const gsc_dataset *dataset,
                    evaluation *out);

#endif
