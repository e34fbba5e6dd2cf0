/* SPDX-License-Identifier: Apache-2.0 */
/* model.h: the networks that --model names. */
#ifndef CLI_TRAIN_MODEL_H
#define CLI_TRAIN_MODEL_H

#include "train/task.h"

/* The names, in the order of model_create's `model`; ends in NULL. */
extern const char *const model_names[];

/* A network of the task's sizes; its initial weights depend on `seed`. Free it with gsc_module_free. */
gsc_status model_create(int32_t model, const train_task *task, uint64_t seed, gsc_module **out);

/* The sizes of the layers, e.g. "784-512-256-10". */
void model_describe(const train_task *task, char *out, size_t size);

#endif
