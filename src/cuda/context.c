/* SPDX-License-Identifier: Apache-2.0 */
/* context.c: a device's primary context with the kernels in it. The first user of a device loads them, the last one
 * unloads them. */
#include "cuda/context.h"

#include <pthread.h>
#include <string.h>

#include "base/try.h"
#include "cuda/image.h"

enum {
    MOST_DEVICES = 64,
    LEAST_CAPABILITY = 75,  /* 7.5: Turing */
    BLOCKS_A_PROCESSOR = 16 /* a few times as many as fit at a time, so that all end at about the same time */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static gsc__cuda_context contexts[MOST_DEVICES]; /* by device; under the mutex */

static gsc_status check_number(int32_t device_id, const char *api, CUdevice *device)
{
    int count = 0;
    GSC_CUDA_TRY("count the devices", cuDeviceGetCount, &count);
    count = count < MOST_DEVICES ? count : MOST_DEVICES;
    if (count == 0)
        return gsc_fail(GSC_ERR_DEVICE,
                        "%s: the CUDA driver sees no GPU (CUDA_VISIBLE_DEVICES may hide it); use a scaler on the CPU",
                        api);
    if (device_id < 0 || device_id >= count)
        return gsc_fail(GSC_ERR_DEVICE, "%s: there is no CUDA device %d; allowed are 0 to %d", api, (int)device_id,
                        count - 1);
    return GSC_CUDA_CALL("find the device", cuDeviceGet, device, device_id);
}

static gsc_status check_capability(CUdevice device, int32_t device_id, const char *api)
{
    int major = 0, minor = 0;
    char name[128] = "";
    GSC_CUDA_TRY("ask for the compute capability", cuDeviceGetAttribute, &major,
                 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    GSC_CUDA_TRY("ask for the compute capability", cuDeviceGetAttribute, &minor,
                 CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    if (10 * major + minor >= LEAST_CAPABILITY)
        return GSC_OK;
    GSC_CUDA_TRY("ask for the device's name", cuDeviceGetName, name, (int)sizeof name - 1, device);
    return gsc_fail(GSC_ERR_DEVICE,
                    "%s: CUDA device %d (%s) has compute capability %d.%d; 7.5 and later are served; use "
                    "another device, or a scaler on the CPU",
                    api, (int)device_id, name, major, minor);
}

static gsc_status find_device(int32_t device_id, const char *api, CUdevice *device)
{
    GSC_TRY(gsc__cuda_driver_load(api));
    GSC_TRY(check_number(device_id, api, device));
    return check_capability(*device, device_id, api);
}

gsc_status gsc__cuda_check_device(DLDevice device, const char *api)
{
    CUdevice found;
    if (device.device_type != kDLCUDA)
        return gsc_fail(GSC_ERR_DEVICE,
                        "%s: the device is {%d, %d}; this backend serves {kDLCUDA (%d), 0 and up}, and gradients on "
                        "the CPU",
                        api, (int)device.device_type, (int)device.device_id, (int)kDLCUDA);
    gsc_status status = find_device(device.device_id, api, &found);
    if (status == GSC_OK || strncmp(gsc_last_error(), api, strlen(api)) == 0)
        return status;
    return gsc_fail(status, "%s: %s", api, gsc_last_error()); /* the driver has failed */
}

static gsc_status load_kernels(gsc__cuda_context *context)
{
    static const char *const names[] = {
#define GSC_CUDA_KERNEL_SYMBOL(name) "gsc__kernel_" #name,
        GSC_CUDA_KERNELS(GSC_CUDA_KERNEL_SYMBOL)
#undef GSC_CUDA_KERNEL_SYMBOL
    };
    CUresult result = gsc__cuda()->cuModuleLoadData(&context->module, gsc__cuda_image);
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
        return gsc__cuda_check(result, "cuModuleLoadData",
                               "load the kernels (update the driver: libgradscaler-cuda was built with a CUDA "
                               "toolkit that is newer than it; or build it with an older one)");
    GSC_TRY(gsc__cuda_check(result, "cuModuleLoadData", "load the kernels"));
    for (int k = 0; k < GSC_CUDA_KERNEL_COUNT; k++) {
        result = gsc__cuda()->cuModuleGetFunction(&context->kernels[k], context->module, names[k]);
        if (result == CUDA_SUCCESS)
            continue;
        (void)gsc__cuda()->cuModuleUnload(context->module);
        return gsc__cuda_check(result, "cuModuleGetFunction", "find a kernel");
    }
    return GSC_OK;
}

static gsc_status open_context(CUdevice device, gsc__cuda_context *context)
{
    GSC_CUDA_TRY("ask for the number of multiprocessors", cuDeviceGetAttribute, &context->multiprocessors,
                 CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    GSC_CUDA_TRY("retain the primary context", cuDevicePrimaryCtxRetain, &context->handle, device);
    gsc_status status = gsc__cuda_enter(context);
    if (status == GSC_OK) {
        status = load_kernels(context);
        gsc__cuda_leave();
    }
    if (status != GSC_OK)
        (void)gsc__cuda()->cuDevicePrimaryCtxRelease_v2(device);
    return status;
}

gsc_status gsc__cuda_open(const char *api, int32_t device_id, gsc__cuda_context **out)
{
    CUdevice device;
    GSC_TRY(find_device(device_id, api, &device));
    gsc__cuda_context *context = &contexts[device_id];
    pthread_mutex_lock(&mutex);
    gsc_status status = context->users > 0 ? GSC_OK : open_context(device, context);
    if (status == GSC_OK) {
        context->device_id = device_id;
        context->device = device;
        context->users++;
        *out = context;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

/* A context that has failed cannot unload, which makes no difference. */
static void close_context(gsc__cuda_context *context)
{
    if (gsc__cuda()->cuCtxPushCurrent_v2(context->handle) == CUDA_SUCCESS) {
        (void)gsc__cuda()->cuModuleUnload(context->module);
        gsc__cuda_leave();
    }
    (void)gsc__cuda()->cuDevicePrimaryCtxRelease_v2(context->device);
}

void gsc__cuda_close(gsc__cuda_context *context)
{
    if (!context)
        return;
    pthread_mutex_lock(&mutex);
    if (--context->users == 0)
        close_context(context);
    pthread_mutex_unlock(&mutex);
}

gsc_status gsc__cuda_enter(const gsc__cuda_context *context)
{
    return GSC_CUDA_CALL("enter the device's context", cuCtxPushCurrent_v2, context->handle);
}

void gsc__cuda_leave(void)
{
    CUcontext ours;
    (void)gsc__cuda()->cuCtxPopCurrent_v2(&ours);
}

gsc_status gsc__cuda_launch(const gsc__cuda_context *context, int kernel, size_t blocks, unsigned threads,
                            CUstream stream, const void *args, const char *what)
{
    void *parameters[] = {(void *)(uintptr_t)args}; /* only read */
    if (blocks == 0)
        return GSC_OK;
    return GSC_CUDA_CALL(what, cuLaunchKernel, context->kernels[kernel], (unsigned)blocks, 1, 1, threads, 1, 1, 0,
                         stream, parameters, NULL);
}

size_t gsc__cuda_blocks(const gsc__cuda_context *context, size_t work, size_t per_block)
{
    size_t blocks = work / per_block + (work % per_block != 0);
    size_t most = (size_t)context->multiprocessors * BLOCKS_A_PROCESSOR;
    return blocks < most ? blocks : most;
}

gsc_status gsc__cuda_is_capturing(CUstream stream, bool *out)
{
    int status = CU_STREAM_CAPTURE_STATUS_NONE;
    const CUresult result = gsc__cuda()->cuStreamIsCapturing(stream, &status);
    *out = result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT || status != CU_STREAM_CAPTURE_STATUS_NONE;
    if (result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
        return GSC_OK;
    return gsc__cuda_check(result, "cuStreamIsCapturing", "ask whether the stream is being captured");
}
