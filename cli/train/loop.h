/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h: the training loop. */
#ifndef CLI_TRAIN_LOOP_H
#define CLI_TRAIN_LOOP_H

#include "train/run.h"

/* Trains from where the state is to the end of the run, or until a signal asks to stop (interrupt.h), and keeps it
 * where the run has an output: a checkpoint before the first step, on the way and at the end. On failure *state tells
 * how far it came. GSC_ERR_DIVERGED: max_consecutive_skips was reached, or the loss is not finite and no scaler guards
 * the parameters. */
gsc_status loop_run(const train_run *run, run_state *state);

/* GSC_OK for a finite loss, else GSC_ERR_DIVERGED with a message that says when and what to do. */
gsc_status check_loss(const train_run *run, double loss, const char *when);

#endif
