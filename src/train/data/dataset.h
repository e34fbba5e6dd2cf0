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
    /* Classification: bytes take a quarter of the memory of floats. */
    uint8_t *pixels; /* [count, features] */
    uint8_t *labels; /* [count] */
    /* Regression. */
    float *x; /* [count, features] */
    float *y; /* [count, targets] */
};

#endif
