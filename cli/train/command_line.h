/* SPDX-License-Identifier: Apache-2.0 */
/* command_line.h: the command line of `gradscaler train`: from its arguments to options with a meaning. */
#ifndef CLI_TRAIN_COMMAND_LINE_H
#define CLI_TRAIN_COMMAND_LINE_H

#include "train/options.h"

/* Reads the arguments. false after a line on stderr, *out unchanged: a wrong one. Options that were not given are zero
 * until command_line_complete. Texts of argv are borrowed. */
bool command_line_parse(int argc, char **argv, train_options *out);

/* Fills in the defaults, which depend on the data, and checks which options go together. false after a line on
 * stderr. */
bool command_line_complete(train_options *options, bool synthetic);

/* Prints the text of `gradscaler train --help`. */
void command_line_help(FILE *out);

#endif
