/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate.h: how well a network does on a whole data set. */
#ifndef CLI_TRAIN_EVALUATE_H
#define CLI_TRAIN_EVALUATE_H

#include "train/task.h"

typedef struct evaluation {
    double loss;     /* mean over all examples, without the task's factor */
    double accuracy; /* share of examples whose largest answer is the label's, NaN for a regression */
} evaluation;

/* Clears the tape. A signal that asks to stop (interrupt.h) cuts it short; both numbers are NaN then. */
gsc_status evaluate(const train_task *task, gsc_module *model, gsc_tape *tape, const gsc_dataset *dataset,
                    evaluation *out);

#endif
