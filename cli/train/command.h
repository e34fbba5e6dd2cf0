/* SPDX-License-Identifier: Apache-2.0 */
/* command.h: the command `gradscaler train`. */
#ifndef CLI_TRAIN_COMMAND_H
#define CLI_TRAIN_COMMAND_H

/* Runs with the arguments after "train"; returns the exit code. */
int train_command(int argc, char **argv);

#endif
