/* SPDX-License-Identifier: Apache-2.0 */
/* status.h: what every call returns, the message behind it, and the settings that belong to the whole process. */
#ifndef GRADSCALER_STATUS_H
#define GRADSCALER_STATUS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
#define GSC_API __attribute__((visibility("default")))
#define GSC_PRINTF(format_index, first_argument) __attribute__((format(printf, format_index, first_argument)))
#else
#define GSC_API
#define GSC_PRINTF(format_index, first_argument)
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum gsc_status {
    GSC_OK = 0,
    GSC_ERR_VALUE = 1,       /* bad argument, dtype, shape or file content   (Python: ValueError)          */
    GSC_ERR_STATE = 2,       /* calls out of order                           (Python: RuntimeError)        */
    GSC_ERR_UNSUPPORTED = 3, /* e.g. complex gradients                       (Python: NotImplementedError) */
    GSC_ERR_DEVICE = 4,      /* device not served by this scaler, or its driver failed */
    GSC_ERR_MEMORY = 5,
    GSC_ERR_IO = 6,
    GSC_ERR_OPTIMIZER = 7, /* the optimizer's own step reported failure */
    GSC_ERR_COMM = 8,      /* a collective failed, another rank failed, or the ranks disagree */
    GSC_ERR_DIVERGED = 9   /* max_consecutive_skips reached */
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

/* "MAJOR.MINOR.PATCH" of the library that is running. */
GSC_API const char *gsc_version(void);

/* The instruction set in use: "avx512", "avx2", "neon" or "baseline". Chosen once, at the first call that needs it: the
 * best that the processor has, or the one that GSC_ISA in the environment names; unknown or absent ones are ignored. */
GSC_API const char *gsc_isa(void);

/* How many threads the kernels may use, the caller's included. 0, the default: all cores that the process may use.
 * A negative n changes nothing and leaves a message. Results do not depend on it. May be called from any thread; takes
 * effect at the next parallel loop. */
GSC_API void gsc_set_num_threads(int32_t n);

/* A parallel loop: calls task(ctx, index) once for each index in [0, count), in any order, on any threads, and returns
 * when all calls have returned. */
typedef void gsc_task(void *ctx, size_t index);
typedef void gsc_parallel_for(void *host, size_t count, gsc_task *task, void *ctx);

/* Makes the library run its loops through fn(host, …) instead of its own threads; NULL: the built-in pool again. Call
 * it while no other thread is inside the library. host must outlive the use. */
GSC_API void gsc_set_parallel_for(gsc_parallel_for *fn, void *host);

/* Runs a loop as the library runs its own: on the host's threads or the built-in pool, each task in a floating-point
 * environment of nearest-even rounding without flush-to-zero. With the pool, a loop inside a task, or while another
 * thread's loop holds it, runs on the calling thread alone; a host's loop has to bear both. */
GSC_API void gsc_parallel_run(size_t count, gsc_task *task, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
