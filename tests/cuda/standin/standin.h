/* SPDX-License-Identifier: Apache-2.0 */
/* standin.h: controls a stand-in for the CUDA driver, on which the module runs without a GPU.
 *
 * The stand-in is a libcuda.so.1. A program that is linked with it has loaded it already when the module calls
 * dlopen("libcuda.so.1"). It keeps the driver's promises and no others:
 *
 *   - Work runs late: only when a call waits for it (cuStreamSynchronize, cuEventSynchronize, cuCtxSynchronize, a
 *     synchronous copy to the host, freeing, destroying a stream) or standin_run does. The order is drawn from the
 *     seed and keeps to streams, events and the rules of the legacy default stream. A query (cuStreamQuery,
 *     cuEventQuery) runs one operation after it has looked, so that polling ends.
 *   - Device memory is inaccessible except while the stand-in runs work of that device. The host, and kernels of other
 *     devices, die of SIGSEGV. So do accesses to freed memory and beyond an allocation's pages; the bytes around an
 *     allocation are compared after each kernel. New memory and __shared__ memory hold rubbish.
 *   - Kernels run as fibers, a block after the other, blocks and threads in an order drawn from the seed. Barriers and
 *     shuffles wait for all their threads.
 *   - What a real device would do silently wrong is an error: standin_last_error says what, and the context fails with
 *     CUDA_ERROR_LAUNCH_FAILED.
 *
 * It may be stricter than the driver, never more forgiving. All functions here may be called from any thread. */
#ifndef GSC_TESTS_STANDIN_H
#define GSC_TESTS_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STANDIN_API __attribute__((visibility("default")))

/* ---- Before the first call of the driver ---- */

/* The number of devices, 0 ... 8; 2 if never called. 0: cuInit fails with CUDA_ERROR_NO_DEVICE. */
STANDIN_API void standin_set_devices(int count);
/* The memory of each device in bytes; 4 GiB if never called. What is above it fails with CUDA_ERROR_OUT_OF_MEMORY. */
STANDIN_API void standin_set_memory(size_t bytes);
/* What cuDriverGetVersion returns; 13000 if never called. */
STANDIN_API void standin_set_version(int version);

/* ---- The order of work ---- */

/* Begins another sequence of random numbers. At first it is the environment's STANDIN_SEED, or 1. */
STANDIN_API void standin_seed(uint64_t seed);
STANDIN_API uint64_t standin_seed_now(void); /* the last one that was set: for messages */
/* From now on each enqueued operation is followed, in that share of cases (0 ... 100), by running an operation whose
 * turn it is. At first it is the environment's STANDIN_EARLY, or 0. */
STANDIN_API void standin_set_early(int percent);
/* Runs at most that many operations whose turn it is; returns how many it ran. */
STANDIN_API size_t standin_run(size_t most);
/* Runs all that can run. Counts as nothing. */
STANDIN_API void standin_run_all(void);
STANDIN_API size_t standin_pending(void); /* operations that have not run */

/* ---- What was called ---- */

/* How often a function of the driver was called since the last reset: "cuMemAlloc_v2" or "cuMemAlloc". Dies with a
 * message where the stand-in has no such function. */
STANDIN_API uint64_t standin_count(const char *function);
STANDIN_API void standin_reset_counts(void);
STANDIN_API uint64_t standin_calls(void);            /* of all functions */
STANDIN_API uint64_t standin_synchronisations(void); /* calls that wait for the device */
STANDIN_API uint64_t standin_allocations(void);      /* calls that allocate or register memory, on device or host */
STANDIN_API uint64_t standin_launches(void);         /* kernels launched, not those of a graph */
STANDIN_API uint64_t standin_kernels_run(const char *name); /* how often that kernel (NULL: any) has run to its end */

/* What is alive now. */
typedef struct standin_live {
    size_t device_allocations, device_bytes, host_allocations, streams, events, modules, graphs, graph_execs, retains;
} standin_live;
STANDIN_API standin_live standin_live_now(void);

/* Errors in the use of the device that a real one would not tell (see above), since the last reset of counts. */
STANDIN_API uint64_t standin_errors(void);
STANDIN_API const char *standin_last_error(void);      /* "" if there was none */
STANDIN_API void standin_expect_errors(bool expected); /* true: they are not printed on stderr, as they are at first */

/* ---- Failures ---- */

/* The k-th call from now (1: the next) of that function (NULL: of any) returns `result` (a CUresult) and does nothing
 * else; but a call that frees something frees it. One failure at a time; k = 0 takes it back. */
STANDIN_API void standin_fail(const char *function, uint64_t k, int result);
STANDIN_API bool standin_fail_fired(void); /* since standin_fail */
/* The k-th kernel from now of that name (NULL: of any) that comes to run does nothing, and its context fails with
 * `result`: each later call that uses the context returns it, until the primary context is reset. */
STANDIN_API void standin_fail_kernel(const char *kernel, uint64_t k, int result);
/* As if the primary context of the device had been reset after a failure: its memory, streams, events and modules are
 * gone. Whoever holds handles to them must forget them. */
STANDIN_API void standin_revive(int device);

/* ---- Memory for tests: counts, injected failures and leaks leave it out ---- */

/* Device memory of so many bytes, filled with rubbish. Dies where there is none. */
STANDIN_API void *standin_alloc(int device, size_t bytes);
STANDIN_API void standin_free(void *memory);
/* At once, without running any work. */
STANDIN_API void standin_upload(void *to, const void *from, size_t bytes);
STANDIN_API void standin_download(void *to, const void *from, size_t bytes);

/* Runs `body` in a child process. Returns 0 if it came to its end, the signal's number if one killed it, else -1 (a
 * sanitizer has found something). `body` must not use cmocka. */
STANDIN_API int standin_dies(void (*body)(void *ctx), void *ctx);

/* ---- Ranks ---- */

enum { STANDIN_MAX, STANDIN_SUM };

/* Ranks that meet on their devices' streams, as with NCCL: a collective is enqueued, and runs once each rank has
 * enqueued its one and the streams have come to it. One thread may enqueue for all ranks, one after the other. */
typedef struct standin_world standin_world;
STANDIN_API standin_world *standin_world_create(int ranks);
STANDIN_API void standin_world_free(standin_world *world);
/* In place over `count` float32 (bits 32) or float64 (64) values in memory of the stream's device; a NaN wins a
 * maximum. Returns 0, or a CUresult if the work could not be enqueued. */
STANDIN_API int standin_allreduce(standin_world *world, int rank, int operation, void *values, size_t count, int bits,
                                  void *stream);

/* ---- Kernels ---- */

/* A kernel that was compiled for the host. It takes one struct by value. */
typedef struct standin_kernel {
    const char *name;
    void (*call)(const void *args); /* runs one thread of it */
    size_t args_size;
} standin_kernel;

/* Modules contain these from now on. The list is kept, not copied. shared_begin, shared_end: where the __shared__
 * variables of these kernels lie. */
STANDIN_API void standin_add_kernels(const standin_kernel *kernels, size_t count, char *shared_begin, char *shared_end);

#ifdef __cplusplus
}
#endif

#endif
