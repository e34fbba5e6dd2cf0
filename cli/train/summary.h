/* SPDX-License-Identifier: Apache-2.0 */
/* summary.h: what a finished run prints on stdout. */
#ifndef CLI_TRAIN_SUMMARY_H
#define CLI_TRAIN_SUMMARY_H

#include "train/evaluate.h"
#include "train/run.h"

typedef struct summary {
    run_state state;
    evaluation after;     /* over the whole training set */
    double test_accuracy; /* NaN for a regression */
    double seconds;       /* of the whole run; of what earlier calls did, the training */
} summary;

/* For people: aligned lines. */
void summary_print(const train_run *run, const summary *s);

/* Whether JSON, which is UTF-8, can hold the name of the data. */
bool summary_can_name(const char *data);

/* One JSON object on one line. false, after a line on stderr: it could not be made. */
bool summary_print_json(const train_run *run, const summary *s);

#endif
