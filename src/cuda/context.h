/* SPDX-License-Identifier: Apache-2.0 */
/* context.h: a device's primary context and the kernels in it, shared by all that use the device.
 *
 *     GSC_TRY(gsc__cuda_open(api, device_id, &context));
 *     GSC_TRY(gsc__cuda_enter(context));                      the caller's current context is set aside …
 *     status = …gsc__cuda_launch(context, GSC_CUDA_KERNEL_upload, &args, …)…
 *     gsc__cuda_leave(context);                               … until here
 *     gsc__cuda_close(context);
 */
#ifndef GSC_CUDA_CONTEXT_H
#define GSC_CUDA_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/driver.h"
#include "cuda/kernel_list.h"
#include "gradscaler/dtype.h"

typedef struct gsc__cuda_context {
    CUcontext handle;
    CUdevice device;
    CUmodule module;
    CUfunction kernels[GSC_CUDA_KERNEL_COUNT];
    int32_t device_id;
    int multiprocessors;
    size_t users; /* 0: not open; under context.c's mutex */
} gsc__cuda_context;

/* Whether the device can be used: GSC_ERR_DEVICE, or GSC_OK. `api` begins the message. */
gsc_status gsc__cuda_check_device(DLDevice device, const char *api);
/* Opens the device for one more user: the first one retains its primary context and loads the kernels. From any thread.
 */
gsc_status gsc__cuda_open(const char *api, int32_t device_id, gsc__cuda_context **out);
void gsc__cuda_close(gsc__cuda_context *context); /* NULL is fine */

/* Makes the context current until gsc__cuda_leave. */
gsc_status gsc__cuda_enter(const gsc__cuda_context *context);
void gsc__cuda_leave(void);

/* Enqueues a kernel with the struct `args` as its argument; kernel: GSC_CUDA_KERNEL_<name>. Inside enter and leave.
 * blocks 0: nothing. what: for the message, after "could not". */
gsc_status gsc__cuda_launch(const gsc__cuda_context *context, int kernel, size_t blocks, unsigned threads,
                            CUstream stream, const void *args, const char *what);

/* Blocks for `work` pieces of which a block takes `per_block` at a time: as many as keep the device busy, at most. */
size_t gsc__cuda_blocks(const gsc__cuda_context *context, size_t work, size_t per_block);

/* Whether the stream is being captured into a graph. Inside enter and leave. */
gsc_status gsc__cuda_is_capturing(CUstream stream, bool *out);

/* Device memory, and memory of the host that the device sees (*device_address). They work while a stream is being
 * captured, too. Inside enter and leave. */
gsc_status gsc__cuda_allocate(size_t bytes, CUdeviceptr *out);
gsc_status gsc__cuda_allocate_pinned(size_t bytes, void **out, CUdeviceptr *device_address);
void gsc__cuda_free(CUdeviceptr address); /* 0 is fine; waits for the device */
void gsc__cuda_free_pinned(void *address);

#endif
