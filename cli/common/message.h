/* SPDX-License-Identifier: Apache-2.0 */
/* message.h: messages on stderr, and the exit codes. */
#ifndef CLI_COMMON_MESSAGE_H
#define CLI_COMMON_MESSAGE_H

#include "gradscaler/status.h"

#include <stdbool.h>

/* Exit codes of the command. */
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1, /* the command line was right, but something failed */
    EXIT_USAGE = 2   /* the command line is wrong */
};

/* Writes one line to stderr that begins with the command's name. */
void say(const char *format, ...) GSC_PRINTF(1, 2);

/* Flushes stdout. false after a line on stderr: some output was lost. */
bool stdout_flushed(void);

#endif
