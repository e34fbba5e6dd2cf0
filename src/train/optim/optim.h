/* SPDX-License-Identifier: Apache-2.0 */
/* optim_internal.h: what an optimizer is made of. optim_check.c checks what it is asked to be, optim.c
 * creates it, optim_step.c steps it. */
#ifndef GSC_TRAIN_OPTIM_INTERNAL_H
#define GSC_TRAIN_OPTIM_INTERNAL_H

#include "gradscaler/optim.h"
#include "train/optim/kernels.h"

typedef enum gsc_optim_kind { GSC_OPTIM_SGD, GSC_OPTIM_ADAM, GSC_OPTIM_ADAMW } gsc_optim_kind;

typedef struct gsc_optim_param {
    gsc_tensor *tensor; /* borrowed */
    size_t group;
    int64_t step_count;
    bool is_double;
    size_t elements;
    int32_t ndim; /* shape as it was at creation; steps check that it still is */
    int64_t shape[GSC_TENSOR_MAX_DIMS];
    DLTensor state[2]; /* data NULL: no such state */
} gsc_optim_param;

/* One parameter's part of a step, and its place among the elements of all. */
typedef struct gsc_optim_work {
    gsc_update update;
    gsc_update_kernel *kernel;
    size_t param, start, elements;
} gsc_optim_work;

struct gsc_optim {
    gsc_optimizer interface;
    gsc_optim_kind kind;
    size_t group_count, param_count;
    gsc_param_group *groups; /* settings only */
    gsc_optim_param *params;
    gsc_optim_work *work; /* scratch of a step, param_count long: a step allocates nothing */
    void *states;         /* of all parameters, one block */
};

/* ` ("0.weight")` for messages, or nothing for a tensor without a name. */
typedef struct gsc_optim_name_text {
    char text[128];
} gsc_optim_name_text;
gsc_optim_name_text gsc_optim_name(const gsc_tensor *tensor);

/* `function` begins the messages; *param_count is the total over the groups. */
gsc_status gsc_optim_check_groups(gsc_optim_kind kind, const char *function, const gsc_param_group *groups, size_t n,
                                  size_t *param_count);
gsc_status gsc_optim_check_lr(const char *function, size_t group, double lr);
gsc_status gsc_optim_check_step_count(const char *function, size_t param, int64_t count);

/* The callbacks of `interface`. */
gsc_status gsc_optim_step_plain(void *self, const gsc_step_args *args, double *value, bool *has_value);
gsc_status gsc_optim_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling, double *value,
                                 bool *has_value);

#endif
