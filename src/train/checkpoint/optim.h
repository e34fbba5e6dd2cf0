/* SPDX-License-Identifier: Apache-2.0 */
/* optim.h: optimizers as a list of named tensors, which optimizer.safetensors holds. */
#ifndef GSC_TRAIN_CHECKPOINT_OPTIM_H
#define GSC_TRAIN_CHECKPOINT_OPTIM_H

#include <stdint.h>

#include "gradscaler/checkpoint.h"

/* First come `scalar_count` tensors over rates and steps, which are copies: learning rates and step counts. The rest
 * are the states, in the optimizers' own memory. */
typedef struct gsc__optim_tensors {
    gsc_named_tensor *tensors;
    size_t count, scalar_count;
    gsc_metadata *kinds; /* one an optimizer */
    size_t kind_count;
    DLTensor *scalars;
    double *rates;
    int64_t *steps, *group_counts;
} gsc__optim_tensors;

gsc_status gsc__optim_tensors_create(const char *who, const gsc_named_optim *optims, size_t n, gsc__optim_tensors *out);
void gsc__optim_tensors_free(gsc__optim_tensors *tensors); /* zeroed is fine */
/* Whether the optimizers would accept the learning rates and step counts. */
gsc_status gsc__optim_tensors_check(const char *who, const gsc__optim_tensors *tensors, const gsc_named_optim *optims,
                                    size_t n);
/* Sets the optimizers' learning rates and step counts. */
void gsc__optim_tensors_apply(const gsc__optim_tensors *tensors, const gsc_named_optim *optims, size_t n);

#endif
