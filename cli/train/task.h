/* SPDX-License-Identifier: Apache-2.0 */
/* task.h: what a run learns: the data, the sizes of its network, and its loss. */
#ifndef CLI_TRAIN_TASK_H
#define CLI_TRAIN_TASK_H

#include "gradscaler/data.h"
#include "gradscaler/nn.h"

#include <stdbool.h>

#define TASK_MAX_LAYERS 4

typedef struct train_task {
    const char *data;      /* as the summary names it */
    const char *unit;      /* what the examples are called */
    const char *rate_unit; /* and how many of them a second, in short */
    gsc_dataset *train;
    gsc_dataset *test; /* NULL: a regression, which has no accuracy */
    int64_t sizes[TASK_MAX_LAYERS];
    size_t layers;
    double loss_factor; /* the loss is multiplied by this before the backward pass; losses are told without it */
} train_task;

/* Where --data leads to. */
typedef struct data_source {
    const char *name;
    const char *folder; /* NULL: the synthetic data */
    char installed[4096];
} data_source;

/* Finds the data that --data names (NULL: Fashion-MNIST where it is installed, else the synthetic data, and says so).
 * false, after a line on stderr: not there. */
bool data_source_find(const char *data, data_source *out);

/* Reads or makes the data; source is borrowed. Release with task_release, also after an error. */
gsc_status task_load(const data_source *source, train_task *out);
void task_release(train_task *task);

/* Puts the batch on the tape and returns the mean loss of the network's answers, without the factor; *logits: these
 * answers. NULL with a message on failure. */
gsc_tensor *task_loss(const train_task *task, gsc_module *model, gsc_tape *tape, const DLTensor *x, const DLTensor *y,
                      gsc_tensor **logits);
/* The loss times the factor. */
gsc_tensor *task_weigh(const train_task *task, gsc_tape *tape, gsc_tensor *loss);

#endif
