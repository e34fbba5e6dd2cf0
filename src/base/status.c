/* SPDX-License-Identifier: Apache-2.0 */
#include "gradscaler/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/message.h"
#include "gradscaler/version.h"

/* Static thread-local storage: reached without a call into the dynamic loader, which would be one more dependency. What
 * is loaded late (plug-ins, Python's extensions) defines GSC_LOADED_LATE: little of that storage is left by then. */
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
    case GSC_OK: return "GSC_OK";
    case GSC_ERR_VALUE: return "GSC_ERR_VALUE";
    case GSC_ERR_STATE: return "GSC_ERR_STATE";
    case GSC_ERR_UNSUPPORTED: return "GSC_ERR_UNSUPPORTED";
    case GSC_ERR_DEVICE: return "GSC_ERR_DEVICE";
    case GSC_ERR_MEMORY: return "GSC_ERR_MEMORY";
    case GSC_ERR_IO: return "GSC_ERR_IO";
    case GSC_ERR_OPTIMIZER: return "GSC_ERR_OPTIMIZER";
    case GSC_ERR_COMM: return "GSC_ERR_COMM";
    case GSC_ERR_DIVERGED: return "GSC_ERR_DIVERGED";
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

const char *gsc_version(void) { return GSC_VERSION_STRING; }
