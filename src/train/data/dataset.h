/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.h: what a data set holds, for the loader. */
#ifndef GSC_TRAIN_DATA_DATASET_H
#define GSC_TRAIN_DATA_DATASET_H

#include <stdint.h>

#include "gradscaler/data.h"

struct gsc_dataset {
    size_t count;
    size_t features;
    int64_t classes; /* 0: regression */
    size_t targets;  /* target values of an example; 0: classification */
    /* The features: one of the two. Bytes take a quarter of the memory of floats. */
    uint8_t *pixels; /* [count, features] */
    float *x;        /* [count, features] */
    /* What is to be learned: one of the two. */
    int64_t *labels; /* classification: [count] */
    float *y;        /* regression: [count, targets] */
};

#endif
