/* SPDX-License-Identifier: Apache-2.0 */
/* copies.c: copies and memsets.
 *
 * A copy from pageable host memory reads it at the call or when its turn comes: the driver may do either, so the seed
 * chooses. A copy to pageable host memory waits, as the driver does, and counts as a synchronisation. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "context.h"
#include "random.h"

static char *pointer_of(CUdeviceptr address) { return (char *)(uintptr_t)address; }

/* Memory of a device, or pinned memory, which has an address there, too. */
static bool is_known(CUdeviceptr address, size_t bytes) { return memory_find(pointer_of(address), bytes) != NULL; }

static bool is_pageable(const void *host) { return memory_find(host, 1) == NULL; }

/* All of the host's side is pageable, or all lies in one pinned allocation. */
static bool are_copyable(CUdeviceptr device, const void *host, size_t bytes)
{
    return host != NULL && is_known(device, bytes) && (is_pageable(host) || memory_find(host, bytes) != NULL);
}

/* The stream; whether the call may be made now. */
static CUresult begin_copy(CUstream handle, bool waits, CUstream *out)
{
    TRY(stream_find(handle, out));
    return waits ? capture_check_unsafe() : CUDA_SUCCESS;
}

static CUresult enqueue_copy(CUstream stream, char *to, const char *from, size_t bytes)
{
    work w = {.kind = WORK_COPY, .context = stream->context, .to = to, .from = from, .bytes = bytes};
    return stream_enqueue(stream, &w);
}

static CUresult wait_for(CUstream stream)
{
    call_synchronises();
    op *last = op_hold(stream->last);
    bool fine = op_wait(last);
    op_let_go(last);
    return fine ? stream->context->failure : CUDA_ERROR_LAUNCH_TIMEOUT;
}

static CUresult to_device(CUdeviceptr to, const void *from, size_t bytes, CUstream handle, bool waits)
{
    CUstream stream;
    TRY(begin_copy(handle, waits, &stream));
    if (bytes == 0)
        return CUDA_SUCCESS;
    if (!are_copyable(to, from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    work w = {.kind = WORK_COPY, .context = stream->context, .to = pointer_of(to), .from = from, .bytes = bytes};
    if (!waits && stream->capture == NULL && is_pageable(from) && random_share(50)) {
        w.owned = malloc(bytes);
        if (w.owned == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        w.owned_bytes = bytes;
        memcpy(w.owned, from, bytes);
        w.from = w.owned;
    }
    TRY(stream_enqueue(stream, &w));
    return waits ? wait_for(stream) : CUDA_SUCCESS;
}

static CUresult to_host(void *to, CUdeviceptr from, size_t bytes, CUstream handle, bool waits)
{
    CUstream stream;
    TRY(begin_copy(handle, waits, &stream));
    if (bytes == 0)
        return CUDA_SUCCESS;
    if (!are_copyable(from, to, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    TRY(enqueue_copy(stream, to, pointer_of(from), bytes));
    return stream->capture == NULL && (waits || is_pageable(to)) ? wait_for(stream) : CUDA_SUCCESS;
}

static CUresult on_device(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle)
{
    CUstream stream;
    TRY(stream_find(handle, &stream));
    if (bytes == 0)
        return CUDA_SUCCESS;
    if (!is_known(to, bytes) || !is_known(from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return enqueue_copy(stream, pointer_of(to), pointer_of(from), bytes);
}

static bool is_memory_of(CUdeviceptr address, size_t bytes, CUcontext context)
{
    const allocation *a = memory_find(pointer_of(address), bytes);
    return a != NULL && context != NULL && a->device == context->device;
}

static CUresult between_devices(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                size_t bytes, CUstream handle)
{
    CUcontext context;
    TRY(context_current(&context));
    if (bytes > 0 && (!is_memory_of(to, bytes, to_context) || !is_memory_of(from, bytes, from_context)))
        return CUDA_ERROR_INVALID_VALUE;
    return on_device(to, from, bytes, handle);
}

static CUresult set(CUdeviceptr address, uint32_t value, size_t width, size_t count, CUstream handle)
{
    CUstream stream;
    TRY(stream_find(handle, &stream));
    if (count == 0)
        return CUDA_SUCCESS;
    if (address % width != 0 || count > SIZE_MAX / width || !is_known(address, count * width))
        return CUDA_ERROR_INVALID_VALUE;
    const allocation *a = memory_find(pointer_of(address), 1);
    if (a->device >= 0 && a->device != stream->context->device)
        return CUDA_ERROR_INVALID_VALUE;
    work w = {.kind = WORK_SET,
              .context = stream->context,
              .to = pointer_of(address),
              .bytes = count * width,
              .value = value,
              .width = width};
    return stream_enqueue(stream, &w);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes)
{
    CALL(cuMemcpyHtoD_v2, to_device(to, from, bytes, NULL, true));
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes)
{
    CALL(cuMemcpyDtoH_v2, to_host(to, from, bytes, NULL, true));
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    CALL(cuMemcpyHtoDAsync_v2, to_device(to, from, bytes, stream, false));
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    CALL(cuMemcpyDtoHAsync_v2, to_host(to, from, bytes, stream, false));
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    CALL(cuMemcpyDtoDAsync_v2, on_device(to, from, bytes, stream));
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                           CUstream stream)
{
    CALL(cuMemcpyPeerAsync, between_devices(to, to_context, from, from_context, bytes, stream));
}
CUresult cuMemsetD8Async(CUdeviceptr address, unsigned char value, size_t bytes, CUstream stream)
{
    CALL(cuMemsetD8Async, set(address, value, 1, bytes, stream));
}
CUresult cuMemsetD32Async(CUdeviceptr address, unsigned value, size_t count, CUstream stream)
{
    CALL(cuMemsetD32Async, set(address, value, 4, count, stream));
}
