/* SPDX-License-Identifier: Apache-2.0 */
/* status.h: what every call returns, and the message behind it. */
#ifndef GRADSCALER_STATUS_H
#define GRADSCALER_STATUS_H

#include "gradscaler/runtime.h" /* GSC_API; and programs for version 0.1.0 expect its functions here */

#ifdef __GNUC__
#define GSC_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#else
#define GSC_PRINTF(format_index, first_argument)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Each status once. X(name, number, class of Python's exceptions, meaning) */
#define GSC_STATUSES(X)                                                                                                \
    X(GSC_OK, 0, None, "success")                                                                                      \
    X(GSC_ERR_VALUE, 1, ValueError, "bad argument, dtype, shape or file content")                                      \
    X(GSC_ERR_STATE, 2, RuntimeError, "calls out of order")                                                            \
    X(GSC_ERR_UNSUPPORTED, 3, NotImplementedError, "not supported, e.g. complex gradients")                            \
    X(GSC_ERR_DEVICE, 4, DeviceError, "device not served by this scaler, or its driver failed")                        \
    X(GSC_ERR_MEMORY, 5, MemoryError, "no memory")                                                                     \
    X(GSC_ERR_IO, 6, OSError, "a file could not be read or written")                                                   \
    X(GSC_ERR_OPTIMIZER, 7, RuntimeError, "the optimizer's own step reported failure")                                 \
    X(GSC_ERR_COMM, 8, CommError, "a collective failed, another rank failed, or the ranks disagree")                   \
    X(GSC_ERR_DIVERGED, 9, DivergedError, "too many updates overflowed")

typedef enum gsc_status {
#define GSC_STATUS_ENUMERATOR(name, number, python, meaning) name = number,
    GSC_STATUSES(GSC_STATUS_ENUMERATOR)
#undef GSC_STATUS_ENUMERATOR
} gsc_status;

/* The name of a status as it is spelled in this header, "GSC_OK" for GSC_OK; "unknown status" for any other number.
 * Never NULL; a constant. */
GSC_API const char *gsc_status_name(gsc_status status);

/* This thread's last message: what was wrong, with which tensor or field, its value, what is allowed. "" before the
 * first failure; a call that succeeds leaves it as it was. Never NULL; valid until this thread's next failing call. */
GSC_API const char *gsc_last_error(void);

/* For callbacks: sets this thread's message (printf rules; long messages are cut, format == NULL gives the status's
 * name) and returns status. */
GSC_API gsc_status gsc_fail(gsc_status status, const char *format, ...) GSC_PRINTF(2, 3);
/* The same for other languages: message is taken as it is, without printf rules. NULL gives the status's name. */
GSC_API gsc_status gsc_fail_message(gsc_status status, const char *message);

#ifdef __cplusplus
}
#endif
#endif
