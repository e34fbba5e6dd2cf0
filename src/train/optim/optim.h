/* SPDX-License-Identifier: Apache-2.0 */
/* optim_internal.h: what an optimizer is made of. optim_check.c checks what it is asked to be, optim.c
 * creates it, optim_step.c steps it. */
#ifndef GSC_TRAIN_OPTIM_OPTIM_H
#define GSC_TRAIN_OPTIM_OPTIM_H

#include "gradscaler/optim.h"
#include "train/optim/kernels.h"

typedef enum gsc__optim_kind { GSC_OPTIM_SGD, GSC_OPTIM_ADAM, GSC_OPTIM_ADAMW } gsc__optim_kind;

typedef struct gsc__optim_param {
    gsc_tensor *tensor; /* borrowed */
    size_t group;
    int64_t step_count;
    bool is_double;
    size_t elements;
    int32_t ndim; /* shape as it was at creation; steps check that it still is */
    int64_t shape[GSC_TENSOR_MAX_DIMS];
    DLTensor state[2]; /* data NULL: no such state */
} gsc__optim_param;

/* One parameter's part of a step, and its place among the elements of all. */
typedef struct gsc__optim_work {
    gsc__update update;
    gsc__update_kernel *kernel;
    size_t param, start, elements;
} gsc__optim_work;

struct gsc_optim {
    gsc_optimizer interface;
    gsc__optim_kind kind;
    size_t group_count, param_count;
    gsc_param_group *groups; /* settings only */
    gsc__optim_param *params;
    gsc__optim_work *work; /* scratch of a step, param_count long: a step allocates nothing */
    void *states;          /* of all parameters, one block */
};

/* ` ("0.weight")` for messages, or nothing for a tensor without a name. */
typedef struct gsc__optim_name_text {
    char text[128];
} gsc__optim_name_text;
gsc__optim_name_text gsc__optim_name(const gsc_tensor *tensor);

/* `function` begins the messages; *param_count is the total over the groups. */
gsc_status gsc__optim_check_groups(gsc__optim_kind kind, const char *function, const gsc_param_group *groups, size_t n,
                                   size_t *param_count);
gsc_status gsc__optim_check_lr(const char *function, size_t group, double lr);
gsc_status gsc__optim_check_step_count(const char *function, size_t param, int64_t count);

/* The callbacks of `interface`. */
gsc_status gsc__optim_step_plain(void *self, const gsc_step_args *args, double *value, bool *has_value);
gsc_status gsc__optim_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling, double *value,
                                  bool *has_value);

#endif
