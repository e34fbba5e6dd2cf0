/* SPDX-License-Identifier: Apache-2.0 */
/* record.h: a run's own object in run.json: its options, the checksums of its data, and its progress. `dir` is the
 * run's folder, for messages. */
#ifndef CLI_TRAIN_RECORD_H
#define CLI_TRAIN_RECORD_H

#include "train/run.h"

#include <jansson.h>

/* The text, to be freed with free(). NULL: no memory. */
char *record_print(const train_run *run, const run_state *state);

/* Parses text that the library has verified. Free *out with json_decref. */
gsc_status record_parse(const char *dir, const char *text, json_t **out);

/* *options: the recorded options (options_resume.h), borrowed from the record. GSC_ERR_VALUE: not a record. */
gsc_status record_options(const char *dir, const json_t *record, const json_t **options);
/* GSC_ERR_VALUE: `data` are not the run's. */
gsc_status record_check_data(const char *dir, const json_t *record, const fingerprint *data);
/* GSC_ERR_VALUE: incomplete or impossible; *out is then unchanged. */
gsc_status record_state(const char *dir, const json_t *record, run_state *out);
/* The step of the state; -1: there is none. */
int64_t record_step(const json_t *record);

#endif
