/* SPDX-License-Identifier: Apache-2.0 */
/* run.h: the objects of a training run, and its progress. */
#ifndef CLI_TRAIN_RUN_H
#define CLI_TRAIN_RUN_H

#include "train/options.h"
#include "train/output.h"
#include "train/overflow.h"
#include "train/task.h"

#include "gradscaler/train.h"

typedef struct train_run {
    const train_options *options;
    const train_task *task;
    gsc_module *model;
    gsc_optim *optim;
    gsc_scaler *scaler;
    gsc_loader *loader;
    gsc_tape *tape;
    output *output; /* NULL: nothing is saved */
} train_run;

/* The progress of a run, which a checkpoint holds beside the model, the optimizer and the scaler. The position in the
 * data follows from `step`, since their order depends on the seed and the epoch alone. */
typedef struct run_state {
    int64_t step; /* steps so far, skipped ones included */
    int64_t made; /* steps that changed the parameters: all but the skipped ones */
    int64_t skipped, growths, backoffs;
    double lr; /* of the next step, without the task's factor */
    int64_t skips_in_a_row;
    double scale_before_skips; /* if skips_in_a_row > 0 */
    overflow_report last_overflow;
    double initial_loss; /* over the training set, before the first step; NaN: not known yet */
    double seconds;      /* of training so far, without evaluation */
    int64_t saved_step;  /* of the last checkpoint that this process has saved; -1: none */
} run_state;

/* `task` and `options` are borrowed. Release *out with run_release, also after an error. */
gsc_status run_create(const train_options *options, const train_task *task, train_run *out);
void run_release(train_run *run); /* zeroed is fine */

/* The state before the first step. */
run_state run_begin(const train_run *run);
/* Moves the loader to the position of the state. */
gsc_status run_seek(const train_run *run, const run_state *state);

/* How many steps the whole run has, skipped ones included. */
int64_t run_steps(const train_run *run);
/* The epochs begun and the examples seen after `step` steps. */
int64_t run_epochs(const train_run *run, int64_t step);
int64_t run_examples(const train_run *run, int64_t step);

/* GSC_OK for a finite loss, else GSC_ERR_DIVERGED with a message that says when, and what to change. */
gsc_status run_check_loss(const train_run *run, double loss, const char *when);

#endif
