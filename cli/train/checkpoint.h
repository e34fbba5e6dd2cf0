/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h: checkpoints of a run: the library's, of model, optimizer and scaler, with the run's record (record.h)
 * in run.json. */
#ifndef CLI_TRAIN_CHECKPOINT_H
#define CLI_TRAIN_CHECKPOINT_H

#include "train/run.h"

#include <jansson.h>

/* Flushes metrics.jsonl first, so that no checkpoint is ahead of it. GSC_ERR_IO: the file or the folder was removed or
 * replaced. Otherwise as gsc_checkpoint_save. */
gsc_status checkpoint_save(const train_run *run, const run_state *state);

/* Reads the record, before anything is loaded. Free *record with json_decref; *options is borrowed from it. */
gsc_status checkpoint_read(const char *dir, json_t **record, const json_t **options);

/* The step of the checkpoint in a folder; -1: there is none, or it cannot be read. */
int64_t checkpoint_step(const char *dir);

/* Loads into a run that was created from the recorded options. GSC_ERR_VALUE: `data` are not the run's. Otherwise as
 * gsc_checkpoint_load. After an error the run can only be released. */
gsc_status checkpoint_load(const char *dir, const train_run *run, const fingerprint *data, run_state *out);

#endif
