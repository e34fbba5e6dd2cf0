/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h: a run in a folder: the library's checkpoint of its model, optimizer and scaler; in run.json its
 * options, what its data were, and its state. */
#ifndef CLI_TRAIN_CHECKPOINT_H
#define CLI_TRAIN_CHECKPOINT_H

#include "train/run.h"

/* After metrics.jsonl has been made last, so that no checkpoint is ahead of it. GSC_ERR_IO: it, or the folder, was
 * removed or replaced; also all of the library's. */
gsc_status checkpoint_save(const train_run *run, const run_state *state);

/* What run.json says before anything is loaded: the options that the run is made by (options_record). Free *record with
 * json_decref; `options` is borrowed from it. */
gsc_status checkpoint_read(const char *dir, json_t **record, const json_t **options);

/* The step of the checkpoint in a folder; -1: there is none that can be read. */
int64_t checkpoint_step(const char *dir);

/* Loads into a run that was made by these options. GSC_ERR_VALUE: `data` are not those that the run was made with; also
 * all of the library's. A run that failed to load is only good to be released. */
gsc_status checkpoint_load(const char *dir, const train_run *run, const fingerprint *data, run_state *out);

#endif
