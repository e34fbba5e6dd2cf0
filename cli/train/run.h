/* SPDX-License-Identifier: Apache-2.0 */
/* run.h: everything that one training run works on, and how far it came. */
#ifndef CLI_TRAIN_RUN_H
#define CLI_TRAIN_RUN_H

#include "train/options.h"
#include "train/output.h"
#include "train/task.h"

#include "gradscaler/train.h"

#define RUN_OVERFLOW_SIZE 512

typedef struct train_run {
    const train_options *options;
    const train_task *task;
    gsc_module *model;
    gsc_optim *optim;
    gsc_scaler *scaler;
    gsc_loader *loader;
    gsc_tape *tape;
    output *output; /* NULL: nothing is kept */
} train_run;

/* What goes on from step to step, and over a resume, beside the model, the optimizer and the scaler. The place in the
 * data, whose order depends on the seed and the epoch alone, follows from `step`. */
typedef struct run_state {
    int64_t step; /* done, skipped ones included */
    int64_t made, skipped, growths, backoffs;
    double lr; /* of the next step, without the task's factor */
    int64_t skips_in_a_row;
    double scale_before_skips;             /* where skips_in_a_row > 0 */
    char last_overflow[RUN_OVERFLOW_SIZE]; /* "step 3: 0.weight (7 inf, 0 nan)"; empty: none */
    double initial_loss;                   /* over the whole training set, before the first step; NaN: not known yet */
    double seconds;                        /* of training so far, without evaluation */
} run_state;

/* What was created stays in *out also after an error; run_release frees it. `task` and `options` are borrowed. */
gsc_status run_create(const train_options *options, const train_task *task, train_run *out);
void run_release(train_run *run);

/* Before the first step. */
run_state run_begin(const train_run *run);
/* Sets the loader to where the state is. */
gsc_status run_seek(const train_run *run, const run_state *state);

/* How many steps, skipped ones included, the run makes. */
int64_t run_steps(const train_run *run);
/* The epochs begun and the examples seen after so many steps. */
int64_t run_epochs(const train_run *run, int64_t step);
int64_t run_examples(const train_run *run, int64_t step);

#endif
