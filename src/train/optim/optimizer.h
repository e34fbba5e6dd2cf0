/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.h: the struct behind gsc_optim. optim.c creates optimizers, check.c checks what they are created from,
 * step.c steps them. */
#ifndef GSC_TRAIN_OPTIM_OPTIMIZER_H
#define GSC_TRAIN_OPTIM_OPTIMIZER_H

#include "base/dtype_kind.h"
#include "base/optim_settings.h"
#include "gradscaler/optim.h"
#include "train/optim/kernels.h"

typedef struct gsc__optim_param {
    gsc_tensor *tensor; /* borrowed */
    size_t group;
    int64_t step_count;
    gsc__kind kind; /* GSC_F32 or GSC_F64 */
    size_t elements;
    int32_t ndim; /* the shape at creation; steps check that it is still the same */
    int64_t shape[GSC_TENSOR_MAX_DIMS];
    DLTensor state[GSC_OPTIM_STATES]; /* data NULL: no such state */
} gsc__optim_param;

/* One parameter's part of a step. The elements of all parts are numbered consecutively: this one's from `start` on. */
typedef struct gsc__optim_work {
    gsc__update update;
    gsc__update_kernel *kernel;
    size_t param_index; /* in gsc_optim.params */
    size_t start, elements;
} gsc__optim_work;

struct gsc_optim {
    gsc_optimizer interface;
    gsc__optim_kind kind;
    size_t group_count, param_count;
    gsc__optim_settings *groups;
    gsc__optim_param *params;
    gsc__optim_work *work; /* scratch of a step, param_count long: a step allocates nothing */
    void *states;          /* of all parameters, one block */
};

#endif
