/* SPDX-License-Identifier: Apache-2.0 */
/* status.c: the names of statuses, and each thread's last message. */
#include "gradscaler/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/message.h"

/* The initial-exec model needs no call into the dynamic loader, which would be one more dependency, but its storage is
 * scarce once a program runs: libraries that are loaded late (plug-ins, Python's extensions) define GSC_LOADED_LATE. */
#ifdef GSC_LOADED_LATE
#define THREAD_LOCAL _Thread_local
#else
#define THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))
#endif

static THREAD_LOCAL struct {
    char text[GSC_MESSAGE_SIZE];
    uint64_t count;
} message;

const char *gsc_status_name(gsc_status status)
{
    switch (status) {
#define NAME(name, number, python, meaning)                                                                            \
    case name: return #name;
        GSC_STATUSES(NAME)
#undef NAME
    }
    return "unknown status";
}

const char *gsc_last_error(void) { return message.text; }

uint64_t gsc__message_count(void) { return message.count; }

gsc_status gsc_fail(gsc_status status, const char *format, ...)
{
    /* Through a copy: an argument may be the last message itself. */
    char text[GSC_MESSAGE_SIZE];
    if (format) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
    } else {
        snprintf(text, sizeof text, "%s", gsc_status_name(status));
    }
    memcpy(message.text, text, sizeof text);
    message.count++;
    return status;
}

gsc_status gsc_fail_message(gsc_status status, const char *text)
{
    return gsc_fail(status, "%s", text ? text : gsc_status_name(status));
}
