/* SPDX-License-Identifier: Apache-2.0 */
/* step.h: one step of an optimizer, plain or with scaled gradients. */
#ifndef GSC_TRAIN_OPTIM_STEP_H
#define GSC_TRAIN_OPTIM_STEP_H

#include "train/optim/optimizer.h"

/* The callbacks of `interface`. */
gsc_status gsc__optim_step_plain(void *self, const gsc_step_args *args, double *value, bool *has_value);
gsc_status gsc__optim_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling, double *value,
                                  bool *has_value);

#endif
