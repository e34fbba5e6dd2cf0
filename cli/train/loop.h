/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h: the training loop. */
#ifndef CLI_TRAIN_LOOP_H
#define CLI_TRAIN_LOOP_H

#include "train/run.h"

/* Trains from *state to the end of the run, or until a signal arrives (interrupt.h). With an output, it saves a
 * checkpoint before the first step, at intervals and at the end. On failure *state is the progress until then.
 * GSC_ERR_DIVERGED: max_consecutive_skips was reached, or the loss is not finite and no scaler protects the parameters.
 */
gsc_status loop_run(const train_run *run, run_state *state);

/* Saves the checkpoint before the first step ahead of loop_run, for a caller that must know first that the folder can
 * be written. */
gsc_status loop_save_first(const train_run *run, run_state *state);

#endif
