/* SPDX-License-Identifier: Apache-2.0 */
/* fingerprint.h: by which a run that goes on knows its data again. */
#ifndef CLI_TRAIN_FINGERPRINT_H
#define CLI_TRAIN_FINGERPRINT_H

#include "train/task.h"

typedef struct data_sum {
    int64_t examples;
    uint64_t checksum; /* of inputs and targets, in order */
} data_sum;

typedef struct fingerprint {
    data_sum train, test; /* test: zero for a regression */
} fingerprint;

gsc_status fingerprint_take(const train_task *task, fingerprint *out);

#endif
