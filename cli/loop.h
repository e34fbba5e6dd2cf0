/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h: the training loop. */
#ifndef CLI_LOOP_H
#define CLI_LOOP_H

#include "options.h"
#include "task.h"

#include "gradscaler/train.h"

/* Everything that one run works on; borrowed by the loop. */
typedef struct train_run {
    const train_options *options;
    const train_task *task;
    gsc_module *model;
    gsc_optim *optim;
    gsc_scaler *scaler;
    gsc_loader *loader;
    gsc_tape *tape;
} train_run;

typedef struct loop_result {
    int64_t epochs; /* begun */
    int64_t steps, skipped;
    int64_t last_overflow; /* number of the last skipped step, from 1; 0: none */
    double examples_per_s;
} loop_result;

/* How many steps, skipped ones included, a run makes. */
int64_t loop_steps(const train_run *run);

/* Trains. On failure *out tells how far it came. GSC_ERR_DIVERGED: max_consecutive_skips was reached, or the loss is
 * not finite and no scaler guards the parameters. */
gsc_status loop_run(const train_run *run, loop_result *out);

/* GSC_OK for a finite loss, else GSC_ERR_DIVERGED with a message that says when and what to do. */
gsc_status check_loss(const train_run *run, double loss, const char *when);

#endif
