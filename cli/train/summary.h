/* SPDX-License-Identifier: Apache-2.0 */
/* summary.h: the summary of a finished run, on stdout. */
#ifndef CLI_TRAIN_SUMMARY_H
#define CLI_TRAIN_SUMMARY_H

#include "train/evaluate.h"
#include "train/run.h"

typedef struct summary {
    run_state state;
    evaluation after;     /* over the whole training set */
    double test_accuracy; /* NaN: the task has no accuracy */
    double seconds;       /* of this call, and of the training in earlier parts of the run */
} summary;

/* Aligned lines for people. */
void summary_print(const train_run *run, const summary *s);

/* Whether JSON can hold the name of the data: it must be UTF-8. */
bool summary_can_name(const char *data);

/* One JSON object on one line. false after a line on stderr: it could not be made. */
bool summary_print_json(const train_run *run, const summary *s);

#endif
