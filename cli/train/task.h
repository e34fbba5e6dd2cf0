/* SPDX-License-Identifier: Apache-2.0 */
/* task.h: what a run learns: the data, the sizes of its network, and its loss. */
#ifndef CLI_TRAIN_TASK_H
#define CLI_TRAIN_TASK_H

#include "gradscaler/data.h"
#include "gradscaler/nn.h"

#include <stdbool.h>

#define TASK_MAX_LAYERS 4

typedef struct train_task {
    const char *data;      /* the name of the data in messages and summaries */
    const char *unit;      /* what an example is, in the plural */
    const char *rate_unit; /* for the speed, in short: examples a second */
    gsc_dataset *train;
    gsc_dataset *test; /* NULL: none */
    int64_t sizes[TASK_MAX_LAYERS];
    size_t layers;
    gsc_tensor *(*loss)(gsc_tensor *outputs, gsc_tensor *targets);
    bool has_accuracy;  /* targets are labels, outputs a score for each class */
    double loss_factor; /* the loss is multiplied by this before the backward pass; reported losses are without it */
} train_task;

void task_release(train_task *task); /* zeroed is fine */

/* Puts a batch on the tape and returns the network's mean loss over it, without the factor, and its *outputs. NULL with
 * a message on failure. */
gsc_tensor *task_loss(const train_task *task, gsc_module *model, gsc_tape *tape, const DLTensor *x, const DLTensor *y,
                      gsc_tensor **outputs);
/* The loss times the factor. */
gsc_tensor *task_multiply_loss(const train_task *task, gsc_tape *tape, gsc_tensor *loss);

#endif
