/* SPDX-License-Identifier: Apache-2.0 */
/* allocations.c: the driver's functions that allocate and free memory, and say what an address is. */
#include <stdint.h>

#include "capture.h"
#include "context.h"

static CUdeviceptr address_of(const void *pointer) { return (CUdeviceptr)(uintptr_t)pointer; }
static void *pointer_of(CUdeviceptr address) { return (void *)(uintptr_t)address; }

static CUresult allocate(CUdeviceptr *out, size_t bytes)
{
    CUcontext context;
    TRY(context_current(&context));
    TRY(capture_check_unsafe());
    if (out == NULL || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    call_allocates();
    const allocation *a = memory_allocate(context->device, context, bytes);
    if (a == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = address_of(a->start);
    return CUDA_SUCCESS;
}

static CUresult host_allocate(void **out, size_t bytes, unsigned flags)
{
    CUcontext context;
    TRY(context_current(&context));
    TRY(capture_check_unsafe());
    if (out == NULL || bytes == 0 || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    call_allocates();
    const allocation *a = memory_allocate_pinned(context, bytes);
    if (a == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = a->start;
    return CUDA_SUCCESS;
}

/* Frees what begins there, once all work of its context has run. */
static CUresult release(const void *address, bool pinned)
{
    CUcontext context;
    CUresult failure = context_current(&context);
    if (failure != CUDA_SUCCESS && failure != context->failure)
        return failure;
    TRY(capture_check_unsafe());
    allocation *a = memory_find(address, 1);
    if (a == NULL || a->start != address || a->owner == NULL || (a->device < 0) != pinned)
        return CUDA_ERROR_INVALID_VALUE;
    call_synchronises();
    context = a->owner;
    failure = context_wait(context);
    memory_release(a);
    return failure;
}

static CUresult device_pointer(CUdeviceptr *out, void *address, unsigned flags)
{
    CUcontext context;
    TRY(context_current(&context));
    const allocation *a = memory_find(address, 1);
    if (out == NULL || flags != 0 || a == NULL || a->device >= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = address_of(address);
    return CUDA_SUCCESS;
}

static CUresult info(size_t *available, size_t *total)
{
    CUcontext context;
    TRY(context_current(&context));
    if (available == NULL || total == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *total = memory_limit();
    *available = memory_limit() - memory_used(context->device);
    return CUDA_SUCCESS;
}

static CUresult attribute(void *value, int which, CUdeviceptr address)
{
    TRY(context_check_initialised());
    const allocation *a = memory_find(pointer_of(address), 1);
    if (value == NULL || a == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)value = a->device < 0 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)value = a->device < 0 ? a->owner->device : a->device;
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) { CALL(cuMemAlloc_v2, allocate(address, bytes)); }
CUresult cuMemFree_v2(CUdeviceptr address)
{
    CALL_FREEING(cuMemFree_v2, address == 0 ? CUDA_SUCCESS : release(pointer_of(address), false));
}
CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned flags)
{
    CALL(cuMemHostAlloc, host_allocate(address, bytes, flags));
}
CUresult cuMemFreeHost(void *address) { CALL_FREEING(cuMemFreeHost, release(address, true)); }
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *device_address, void *address, unsigned flags)
{
    CALL(cuMemHostGetDevicePointer_v2, device_pointer(device_address, address, flags));
}
CUresult cuMemGetInfo_v2(size_t *available, size_t *total) { CALL(cuMemGetInfo_v2, info(available, total)); }
CUresult cuPointerGetAttribute(void *value, int which, CUdeviceptr address)
{
    CALL(cuPointerGetAttribute, attribute(value, which, address));
}
