/* SPDX-License-Identifier: Apache-2.0 */
/* fingerprint.h: checksums that identify a run's data on --resume. */
#ifndef CLI_TRAIN_FINGERPRINT_H
#define CLI_TRAIN_FINGERPRINT_H

#include "train/task.h"

typedef struct data_checksum {
    int64_t examples;
    uint64_t checksum; /* of all inputs and targets, in order */
} data_checksum;

typedef struct fingerprint {
    data_checksum train, test; /* test: zero if there is no test set */
} fingerprint;

gsc_status fingerprint_compute(const train_task *task, fingerprint *out);

#endif
