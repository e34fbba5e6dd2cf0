/* SPDX-License-Identifier: Apache-2.0 */
#include "train/optim_kernels.h"

#include <math.h>

#define GSC_REAL float
#define GSC_SQRT sqrtf
#define GSC_LOOP(name) name##_f32
#include "train/optim_loops.h"
#undef GSC_REAL
#undef GSC_SQRT
#undef GSC_LOOP

#define GSC_REAL double
#define GSC_SQRT sqrt
#define GSC_LOOP(name) name##_f64
#include "train/optim_loops.h"
#undef GSC_REAL
#undef GSC_SQRT
#undef GSC_LOOP

static const gsc_update_kernels kernels[] = {
    {.sgd = sgd_f32, .sgd_momentum = sgd_momentum_f32, .adam = adam_f32},
    {.sgd = sgd_f64, .sgd_momentum = sgd_momentum_f64, .adam = adam_f64},
};

const gsc_update_kernels *gsc_update_kernels_for(bool is_double) { return &kernels[is_double]; }
