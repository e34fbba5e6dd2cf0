/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c: memory of the device, and memory of the host that the device sees. */
#include "cuda/context.h"

/* Allocations are refused while this thread captures a stream, unless its mode is relaxed. Ours are no part of the
 * capture. Returns the mode before. */
static int relax_capture(int mode)
{
    (void)gsc__cuda()->cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

gsc_status gsc__cuda_allocate(size_t bytes, CUdeviceptr *out)
{
    int mode = relax_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUresult result = gsc__cuda()->cuMemAlloc_v2(out, bytes);
    (void)relax_capture(mode);
    return gsc__cuda_check_allocation(result, "cuMemAlloc", "allocate device memory");
}

gsc_status gsc__cuda_allocate_pinned(size_t bytes, void **out, CUdeviceptr *device_address)
{
    int mode = relax_capture(CU_STREAM_CAPTURE_MODE_RELAXED);
    CUresult result = gsc__cuda()->cuMemHostAlloc(out, bytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    (void)relax_capture(mode);
    gsc_status status =
        gsc__cuda_check_allocation(result, "cuMemHostAlloc", "allocate memory that host and device see");
    if (status != GSC_OK)
        return status;
    status = GSC_CUDA_CALL("find the device's address of the host's memory", cuMemHostGetDevicePointer_v2,
                           device_address, *out, 0);
    if (status != GSC_OK)
        gsc__cuda_free_pinned(*out);
    return status;
}

void gsc__cuda_free(CUdeviceptr address)
{
    if (address != 0)
        (void)gsc__cuda()->cuMemFree_v2(address);
}

void gsc__cuda_free_pinned(void *address)
{
    if (address)
        (void)gsc__cuda()->cuMemFreeHost(address);
}
