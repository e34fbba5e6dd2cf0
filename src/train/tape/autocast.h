/* SPDX-License-Identifier: Apache-2.0 */
/* autocast.h: which dtype an op computes in. */
#ifndef GSC_TRAIN_TAPE_AUTOCAST_H
#define GSC_TRAIN_TAPE_AUTOCAST_H

#include <stdint.h>

#include "gradscaler/autocast.h"
#include "train/tensor/tensor.h"

typedef enum gsc__policy {
    GSC_POLICY_KEEP,    /* each input keeps its dtype */
    GSC_POLICY_LOWER,   /* the region's dtype */
    GSC_POLICY_FLOAT32, /* float32 */
    GSC_POLICY_WIDEST,  /* the widest of the inputs' dtypes; outside regions too */
} gsc__policy;

/* Replaces kinds[i], the dtype of input i of n, by the one that it is to be cast to. An absent input is GSC_NO_KIND and
 * stays that. */
void gsc__autocast_kinds(gsc__policy policy, gsc__kind *kinds, int n);

/* A number that no other outermost region of the process has; 0 outside of regions. A cast of a parameter is used again
 * within its region only, because the parameter may change between regions. */
uint64_t gsc__autocast_region(void);

#endif
