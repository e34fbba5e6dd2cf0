/* SPDX-License-Identifier: Apache-2.0 */
/* overflow.h: which gradients overflowed in a step. */
#ifndef CLI_TRAIN_OVERFLOW_H
#define CLI_TRAIN_OVERFLOW_H

#include "gradscaler/scaler.h"

#include <jansson.h>

#define OVERFLOW_MAX 8        /* gradients that are named; the others are counted */
#define OVERFLOW_NAME_SIZE 64 /* a longer name is cut */
#define OVERFLOW_TEXT_SIZE (OVERFLOW_MAX * ((size_t)OVERFLOW_NAME_SIZE + 64))

typedef struct overflow_gradient {
    char name[OVERFLOW_NAME_SIZE];
    int64_t inf, nan;    /* how many elements are infinite and NaN */
    int64_t first_index; /* of the first of them, row-major */
} overflow_gradient;

typedef struct overflow_report {
    int64_t step;        /* 0: there was no overflow */
    int64_t count, more; /* how many gradients are named, and how many are not */
    overflow_gradient gradients[OVERFLOW_MAX];
} overflow_report;

/* Of the optimizer's last overflow. */
overflow_report overflow_collect(const gsc_scaler *scaler, const gsc_optimizer *optimizer, int64_t step);

/* "0.weight (7 inf, 0 nan), and 3 more" */
void overflow_print(const overflow_report *report, char out[OVERFLOW_TEXT_SIZE]);

/* An array of the gradients as objects. NULL: no memory. */
json_t *overflow_gradients_to_json(const overflow_report *report);
/* {"step", "gradients", "more"}; null without an overflow. NULL: no memory. */
json_t *overflow_to_json(const overflow_report *report);
/* false: the value is none of overflow_to_json. */
bool overflow_from_json(const json_t *value, overflow_report *out);

#endif
