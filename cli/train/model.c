/* SPDX-License-Identifier: Apache-2.0 */
/* model.c: the networks by name. */
#include "train/model.h"

#include <inttypes.h>
#include <stdio.h>

const char *const model_names[] = {"mlp", NULL};

static gsc_status mlp_create(const train_task *task, gsc_random *random, gsc_module **out)
{
    return gsc_module_mlp(task->sizes, task->layers, GSC_ACTIVATION_RELU, random, out);
}

/* In the order of model_names. */
static gsc_status (*const creators[])(const train_task *task, gsc_random *random, gsc_module **out) = {mlp_create};

gsc_status model_create(int32_t model, const train_task *task, uint64_t seed, gsc_module **out)
{
    gsc_random random = gsc_random_init(seed, 0);
    return creators[model](task, &random, out);
}

void model_describe(const train_task *task, char *out, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < task->layers && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%" PRId64, i > 0 ? "-" : "", task->sizes[i]);
}
