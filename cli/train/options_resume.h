/* SPDX-License-Identifier: Apache-2.0 */
/* options_resume.h: the options that a run records, and how --resume combines them with the given ones. */
#ifndef CLI_TRAIN_OPTIONS_RESUME_H
#define CLI_TRAIN_OPTIONS_RESUME_H

#include "train/options.h"

#include <jansson.h>

/* A JSON object of the options that determine a run, each as it would be typed. NULL: no memory, or a text is not
 * UTF-8. */
json_t *options_record(const train_options *options);

/* Takes over the options that the run in the folder --resume has recorded; call it between command_line_parse and
 * command_line_complete. An option that was given beside --resume must have the run's value if another one would make
 * it a different run. Texts of `recorded` are borrowed. false after a line on stderr. */
bool options_resume(train_options *options, const json_t *recorded);

#endif
