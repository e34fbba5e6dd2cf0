/* SPDX-License-Identifier: Apache-2.0 */
/* message.c: messages on stderr. */
#include "common/message.h"
#include "common/escape.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MESSAGE_SIZE (2 * QUOTED_SIZE) /* two paths at their longest */

/* The last fail_with: its message, and what the library has kept of it. */
static char failure[MESSAGE_SIZE], kept[1024];

void say(const char *format, ...)
{
    static char text[MESSAGE_SIZE], escaped[ESCAPE_GROWTH * MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    escape_text(escaped, sizeof escaped, text);
    fprintf(stderr, "gradscaler: %s\n", escaped);
}

gsc_status fail_with(gsc_status status, const char *format, ...)
{
    static char text[MESSAGE_SIZE]; /* an argument may be the last failure itself */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(failure, text, sizeof failure);
    gsc_fail(status, "%s", text);
    snprintf(kept, sizeof kept, "%s", gsc_last_error());
    return status;
}

/* "gsc_scaler_step: ..." */
static const char *without_function(const char *message)
{
    const char *end = message + strspn(message, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return strncmp(message, "gsc_", 4) == 0 && strncmp(end, ": ", 2) == 0 ? end + 2 : message;
}

const char *last_failure(void)
{
    const char *message = gsc_last_error();
    return without_function(strcmp(message, kept) == 0 ? failure : message);
}

bool stdout_flushed(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    say("could not write to standard output: %s", errno ? strerror(errno) : "an earlier write failed");
    return false;
}
