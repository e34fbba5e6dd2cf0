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

/* Writes one line to stderr that begins with the command's name. Texts from outside are given as they are: what must
 * not reach a terminal is escaped here. A command line to be typed needs quote_path. */
void say(const char *format, ...) GSC_PRINTF(1, 2);

/* Like gsc_fail, but of any length, for messages with paths. */
gsc_status fail_with(gsc_status status, const char *format, ...) GSC_PRINTF(2, 3);
/* The message of the last failure, of fail_with or the library's, without the C function that the library names at its
 * beginning. Valid until the next failure. */
const char *last_failure(void);

/* Flushes stdout. false after a line on stderr: some output was lost. */
bool stdout_flushed(void);

#endif
