/* SPDX-License-Identifier: Apache-2.0 */
/* message.h: what the command tells people on stderr. */
#ifndef CLI_COMMON_MESSAGE_H
#define CLI_COMMON_MESSAGE_H

#include "gradscaler/status.h"

#include <stdbool.h>

/* Exit codes of the command. */
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1, /* the command line was right, but could not be carried out */
    EXIT_USAGE = 2   /* the command line is wrong */
};

/* One line on stderr that begins with the command's name. */
void say(const char *format, ...) GSC_PRINTF(1, 2);

/* Whether everything written to stdout has arrived; says so if not. */
bool stdout_flushed(void);

#endif
