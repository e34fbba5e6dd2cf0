/* SPDX-License-Identifier: Apache-2.0 */
/* message.c: messages on stderr. */
#include "common/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void say(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f) /* from an argument or a file's name: it must not break the line */
            *c = '?';
    }
    fprintf(stderr, "gradscaler: %s\n", text);
}

bool stdout_flushed(void)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    say("could not write to standard output: %s", errno ? strerror(errno) : "an earlier write failed");
    return false;
}
