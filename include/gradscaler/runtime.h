/* SPDX-License-Identifier: Apache-2.0 */
/* runtime.h: the running library: its version, its instruction set, and its threads, which all of the process share. */
#ifndef GRADSCALER_RUNTIME_H
#define GRADSCALER_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __GNUC__
#define GSC_API __attribute__((visibility("default")))
#else
#define GSC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* "MAJOR.MINOR.PATCH" of the library that is running. */
GSC_API const char *gsc_version(void);

/* The instruction set in use: "avx512", "avx2", "neon" or "baseline". Chosen once, at the first call that needs it: the
 * best that the processor has, or the one that GSC_ISA in the environment names; unknown or absent ones are ignored. */
GSC_API const char *gsc_isa(void);

/* How many threads the kernels may use, the caller's included. 0, the default: all cores that the process may use,
 * but no more than its control group's CPU quota pays for (rounded up), as both are at the first parallel loop. A
 * negative n changes nothing and leaves a message (gsc_last_error). Results do not depend on it. May be called from any
 * thread; takes effect at the next parallel loop. Threads beyond the number stay asleep. */
GSC_API void gsc_set_num_threads(int32_t n);

/* A parallel loop: calls task(ctx, index) once for each index in [0, count), in any order, on any threads, and returns
 * when all calls have returned.
 *
 * An exception may leave a host's loop (a C++ throw, pthread_exit, a cancellation; never longjmp) once none of its
 * tasks is running any more. It passes through the library's function to the caller, whose floating-point environment
 * is restored. Elements that the function writes are then written in part: by gsc_scaler_unscale and its like this
 * makes the optimizer's gradients useless, and its step is refused until gsc_scaler_skip or gsc_scaler_rearm, or the
 * next update. A task itself must not be left by an exception. */
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
