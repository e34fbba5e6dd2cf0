/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("gradscaler: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

bool stdout_flushed(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    say("could not write to standard output: %s", errno ? strerror(errno) : "an earlier write failed");
    return false;
}
