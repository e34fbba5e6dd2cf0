/* SPDX-License-Identifier: Apache-2.0 */
/* check.h: what optimizers are created from is checked. */
#ifndef GSC_TRAIN_OPTIM_CHECK_H
#define GSC_TRAIN_OPTIM_CHECK_H

#include "train/optim/optimizer.h"

/* ` ("0.weight")` for messages; empty for a tensor without a name. */
typedef struct gsc__optim_name_text {
    char text[128];
} gsc__optim_name_text;
gsc__optim_name_text gsc__optim_name(const gsc_tensor *tensor);

/* `function` begins the messages; *param_count is the total over the groups. */
gsc_status gsc__optim_check_groups(gsc__optim_kind kind, const char *function, const gsc_param_group *groups, size_t n,
                                   size_t *param_count);

#endif
