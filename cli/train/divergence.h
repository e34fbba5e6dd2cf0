/* SPDX-License-Identifier: Apache-2.0 */
/* divergence.h: notices a run that learns nothing any more, and says why. */
#ifndef CLI_TRAIN_DIVERGENCE_H
#define CLI_TRAIN_DIVERGENCE_H

#include "train/run.h"

/* What this call of the command has seen of the run; zero-initialised. */
typedef struct divergence {
    int64_t last_made;  /* the last step that changed the weights; 0: none yet */
    int64_t loss_since; /* the first of the last steps in a row with an infinite loss or NaN; 0: the loss is finite */
    int64_t zero_in_a_row; /* steps in a row in which every gradient was zero */
    bool zero_warned;
} divergence;

/* Notes the loss of the batch of step `step`, and whether the step was made. */
void divergence_note(divergence *d, int64_t step, double loss, gsc_outcome outcome);

/* GSC_ERR_DIVERGED: a weight is infinite or NaN; the message names it and says since when. Such weights never become
 * finite again. */
gsc_status divergence_check_weights(const divergence *d, const train_run *run, const run_state *state);

/* The error of a run that ends since too many steps were skipped: GSC_ERR_DIVERGED. */
gsc_status divergence_fail_skips(const divergence *d, const train_run *run, const run_state *state);

/* Whether to warn of a step in which every gradient was zero although the loss was not: at the first one, and if the
 * state lasts, after 100, 1000, ... steps in a row. Call it after each step; say it with divergence_warn_zero. */
bool divergence_is_zero(divergence *d, double loss, const gsc_step_result *result);
void divergence_warn_zero(const divergence *d, const train_run *run, int64_t step);

#endif
