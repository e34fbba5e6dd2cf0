/* SPDX-License-Identifier: Apache-2.0 */
/* optim_shared.h: what the host code and the kernels of the optimizers share. Plain C. */
#ifndef GSC_CUDA_OPTIM_SHARED_H
#define GSC_CUDA_OPTIM_SHARED_H

#include <stdint.h>

#include "base/dtype_kind.h"
#include "base/optim_rules.h"

/* Elements that a warp takes at a time. Less than a scan's: nothing is added up, and small models fill a device, too.
 */
enum { GSC_CUDA_OPTIM_ITEM = 1024, GSC_CUDA_OPTIM_STATES = 2 };

/* A parameter: what stays as it was at creation. */
typedef struct gsc__cuda_optim_param {
    uint64_t count;                         /* elements, may be 0 */
    uint64_t states[GSC_CUDA_OPTIM_STATES]; /* addresses; 0: no such state */
    uint32_t first_item;                    /* items of the parameters before this one; each has one at least */
    uint32_t group;
    uint32_t kind; /* GSC_F32 or GSC_F64 */
    uint32_t unused;
} gsc__cuda_optim_param;

/* And what each step may find changed: addresses of elements. */
typedef struct gsc__cuda_optim_place {
    uint64_t param, grad; /* grad 0: absent, the parameter is passed over */
    uint64_t grad_kind;
} gsc__cuda_optim_place;

/* One parameter's step, made by optim_prepare. */
typedef union gsc__cuda_optim_factors {
    gsc__sgd_factors_f32 sgd_f32;
    gsc__sgd_factors_f64 sgd_f64;
    gsc__adam_factors_f32 adam_f32;
    gsc__adam_factors_f64 adam_f64;
} gsc__cuda_optim_factors;

/* An optimizer, in device memory. Arrays are by parameter, but groups and item_params. */
typedef struct gsc__cuda_optim_table {
    gsc__optim_settings *groups;
    gsc__cuda_optim_param *params;
    gsc__cuda_optim_place *places;
    gsc__cuda_optim_factors *factors;
    int64_t *step_counts;
    int64_t *new_step_counts; /* where those of set_step_counts arrive */
    uint32_t *item_params;    /* the parameter of each item */
    uint32_t param_count, item_count;
    uint32_t kind; /* a gsc__optim_kind */
    uint32_t unused;
} gsc__cuda_optim_table;

/* Fills in item_params. A thread takes an item. */
typedef struct gsc__cuda_optim_items_args {
    gsc__cuda_optim_table table;
} gsc__cuda_optim_items_args;

/* step_counts = new_step_counts. A thread takes a parameter. */
typedef struct gsc__cuda_optim_counts_args {
    gsc__cuda_optim_table table;
} gsc__cuda_optim_counts_args;

/* Fills in factors. A thread takes a parameter. The multiplier is the first that is there: *multiplier64_dev,
 * *multiplier_dev, multiplier. */
typedef struct gsc__cuda_optim_prepare_args {
    gsc__cuda_optim_table table;
    double multiplier;
    const float *multiplier_dev;
    const double *multiplier64_dev;
} gsc__cuda_optim_prepare_args;

/* Makes the step, counts included, unless *found_inf is other than 0; found_inf may be NULL. A warp takes an item. */
typedef struct gsc__cuda_optim_sgd_args {
    gsc__cuda_optim_table table;
    const float *found_inf;
} gsc__cuda_optim_sgd_args;

typedef gsc__cuda_optim_sgd_args gsc__cuda_optim_adam_args;

#endif
