/* SPDX-License-Identifier: Apache-2.0 */
/* context.c: initialisation, devices, primary contexts, the stack of current contexts of each thread. */
#define _GNU_SOURCE
#include "context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "graphs.h"
#include "standin.h"

enum { STACK_DEPTH = 32 };

static int device_count = 2, driver_version = 13000;
static bool initialised;
static struct CUctx_st contexts[MAX_DEVICES];
static _Thread_local CUcontext current[STACK_DEPTH];
static _Thread_local size_t depth;

void standin_set_devices(int count)
{
    if (initialised || count < 0 || count > MAX_DEVICES) {
        fprintf(stderr, "stand-in: standin_set_devices(%d): 0 ... %d, and before cuInit\n", count, MAX_DEVICES);
        abort();
    }
    device_count = count;
}

void standin_set_version(int version) { driver_version = version; }

CUresult context_check_initialised(void) { return initialised ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }

CUcontext context_of_device(int device)
{
    if (device < 0 || device >= device_count)
        return NULL;
    contexts[device].device = device;
    return &contexts[device];
}

static bool is_context(CUcontext context)
{
    for (int device = 0; device < device_count; device++)
        if (context == &contexts[device])
            return true;
    return false;
}

/* The current context as the thread set it. */
static CUresult context_set(CUcontext *out)
{
    TRY(context_check_initialised());
    if (depth == 0 || current[depth - 1] == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = current[depth - 1];
    return (*out)->retains == 0 ? CUDA_ERROR_CONTEXT_IS_DESTROYED : CUDA_SUCCESS;
}

CUresult context_current(CUcontext *out)
{
    TRY(context_set(out));
    return (*out)->failure;
}

void context_fail(CUcontext context, CUresult result)
{
    if (context->failure == CUDA_SUCCESS)
        context->failure = result;
}

CUresult context_wait(CUcontext context)
{
    work nothing = {.kind = WORK_NOTHING};
    op *all = op_create(&nothing);
    if (all == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool fine = op_after(all, context->legacy.last);
    for (CUstream s = context->streams; s != NULL; s = s->next)
        fine = op_after(all, s->last) && fine;
    op_submit(all);
    fine = op_wait(all) && fine;
    op_let_go(all);
    return fine ? context->failure : CUDA_ERROR_LAUNCH_TIMEOUT;
}

/* Everything in it vanishes. */
static void context_destroy(CUcontext context)
{
    context_wait(context);
    while (context->modules != NULL)
        module_release(context->modules);
    while (context->events != NULL)
        event_release(context->events);
    while (context->streams != NULL)
        stream_release(context->streams);
    capture_stream_gone(&context->legacy);
    op_let_go(context->legacy.last);
    context->legacy.last = NULL;
    for (allocation *a; (a = memory_of_owner(context)) != NULL;)
        memory_release(a);
    context->failure = CUDA_SUCCESS;
}

/* Per-thread streams are nobody's to destroy. */
static bool is_empty(CUcontext context)
{
    CUstream s = context->streams;
    while (s != NULL && s->is_per_thread)
        s = s->next;
    return s == NULL && context->events == NULL && context->modules == NULL && memory_of_owner(context) == NULL;
}

static CUresult context_release(CUcontext context)
{
    TRY(context_check_initialised());
    if (context == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (context->retains == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--context->retains > 0)
        return CUDA_SUCCESS;
    if (!is_empty(context) && context->failure == CUDA_SUCCESS)
        complain("the context of device %d ends with memory, streams, events or modules in it", context->device);
    context_destroy(context);
    return CUDA_SUCCESS;
}

static CUresult context_retain(CUcontext *out, CUcontext context)
{
    TRY(context_check_initialised());
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (context == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    if (context->failure != CUDA_SUCCESS)
        return context->failure;
    context->retains++;
    *out = context;
    return CUDA_SUCCESS;
}

static CUresult context_reset(CUcontext context)
{
    TRY(context_check_initialised());
    if (context == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    context_destroy(context);
    return CUDA_SUCCESS;
}

static CUresult initialise(unsigned flags)
{
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (device_count == 0)
        return CUDA_ERROR_NO_DEVICE;
    initialised = true;
    return CUDA_SUCCESS;
}

static CUresult driver_version_get(int *version)
{
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = driver_version;
    return CUDA_SUCCESS;
}

static CUresult device_get_count(int *count)
{
    TRY(context_check_initialised());
    if (count == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *count = device_count;
    return CUDA_SUCCESS;
}

static CUresult device_get(CUdevice *device, int ordinal)
{
    TRY(context_check_initialised());
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (context_of_device(ordinal) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

static CUresult device_name(char *name, int length, CUdevice device)
{
    TRY(context_check_initialised());
    if (name == NULL || length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (context_of_device(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)length, "stand-in %d", device);
    return CUDA_SUCCESS;
}

/* The attributes that programs ask for, by their number in the driver's interface; a device of compute capability 9.0
 * with few multiprocessors, so that small grids already have more blocks than run at once. */
static int attribute_value(int attribute)
{
    switch (attribute) {
    case 1: return GRID_MAX_THREADS; /* MAX_THREADS_PER_BLOCK */
    case 2:
    case 3: return GRID_MAX_THREADS; /* MAX_BLOCK_DIM_X, _Y */
    case 4: return 64;               /* MAX_BLOCK_DIM_Z */
    case 5: return 2147483647;       /* MAX_GRID_DIM_X */
    case 6:
    case 7: return 65535;           /* MAX_GRID_DIM_Y, _Z */
    case 8: return GRID_MAX_SHARED; /* MAX_SHARED_MEMORY_PER_BLOCK */
    case 10: return GRID_WARP;      /* WARP_SIZE */
    case 12: return 65536;          /* MAX_REGISTERS_PER_BLOCK */
    case 16: return 4;              /* MULTIPROCESSOR_COUNT */
    case 19: return 1;              /* CAN_MAP_HOST_MEMORY */
    case 31: return 1;              /* CONCURRENT_KERNELS */
    case 39: return 2048;           /* MAX_THREADS_PER_MULTIPROCESSOR */
    case 41: return 1;              /* UNIFIED_ADDRESSING */
    case 75: return 9;              /* COMPUTE_CAPABILITY_MAJOR */
    case 76: return 0;              /* COMPUTE_CAPABILITY_MINOR */
    default: return -1;
    }
}

static CUresult device_attribute(int *value, int attribute, CUdevice device)
{
    TRY(context_check_initialised());
    if (value == NULL || attribute_value(attribute) < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (context_of_device(device) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *value = attribute_value(attribute);
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    TRY(context_check_initialised());
    if (!is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context->retains == 0)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (depth == STACK_DEPTH)
        return CUDA_ERROR_INVALID_VALUE;
    current[depth++] = context;
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *out)
{
    TRY(context_check_initialised());
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out != NULL)
        *out = current[depth];
    return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
    TRY(context_check_initialised());
    if (context != NULL && !is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (context != NULL && context->retains == 0)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (depth == 0)
        depth = 1;
    current[depth - 1] = context;
    return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *out)
{
    TRY(context_check_initialised());
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *out = depth == 0 ? NULL : current[depth - 1];
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device)
{
    CUcontext context;
    TRY(context_set(&context));
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *device = context->device;
    return CUDA_SUCCESS;
}

static CUresult synchronise(void)
{
    CUcontext context;
    TRY(context_current(&context));
    TRY(capture_refuse_any(context, true, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
    call_synchronises();
    return context_wait(context);
}

CUresult cuInit(unsigned flags) { CALL(cuInit, initialise(flags)); }
CUresult cuDriverGetVersion(int *version) { CALL(cuDriverGetVersion, driver_version_get(version)); }
CUresult cuDeviceGetCount(int *count) { CALL(cuDeviceGetCount, device_get_count(count)); }
CUresult cuDeviceGet(CUdevice *device, int ordinal) { CALL(cuDeviceGet, device_get(device, ordinal)); }
CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    CALL(cuDeviceGetName, device_name(name, length, device));
}
CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device)
{
    CALL(cuDeviceGetAttribute, device_attribute(value, attribute, device));
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CALL(cuDevicePrimaryCtxRetain, context_retain(context, context_of_device(device)));
}
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CALL_FREEING(cuDevicePrimaryCtxRelease_v2, context_release(context_of_device(device)));
}
CUresult cuDevicePrimaryCtxReset_v2(CUdevice device)
{
    CALL(cuDevicePrimaryCtxReset_v2, context_reset(context_of_device(device)));
}
CUresult cuCtxPushCurrent_v2(CUcontext context) { CALL(cuCtxPushCurrent_v2, push(context)); }
CUresult cuCtxPopCurrent_v2(CUcontext *context) { CALL_FREEING(cuCtxPopCurrent_v2, pop(context)); }
CUresult cuCtxSetCurrent(CUcontext context) { CALL(cuCtxSetCurrent, set_current(context)); }
CUresult cuCtxGetCurrent(CUcontext *context) { CALL(cuCtxGetCurrent, get_current(context)); }
CUresult cuCtxGetDevice(CUdevice *device) { CALL(cuCtxGetDevice, get_device(device)); }
CUresult cuCtxSynchronize(void) { CALL(cuCtxSynchronize, synchronise()); }

/* ---- For tests ---- */

void standin_revive(int device)
{
    call_lock();
    if (context_of_device(device) != NULL)
        context_destroy(context_of_device(device));
    memory_open(0);
    call_unlock();
}

static void count_alive(standin_live *live, CUcontext context)
{
    live->retains += context->retains;
    for (CUstream s = context->streams; s != NULL; s = s->next)
        live->streams += !s->is_per_thread;
    for (CUevent e = context->events; e != NULL; e = e->next)
        live->events++;
    for (CUmodule m = context->modules; m != NULL; m = m->next)
        live->modules++;
}

standin_live standin_live_now(void)
{
    call_lock();
    standin_live live = {.graphs = graphs_alive(), .graph_execs = graph_execs_alive()};
    for (int device = 0; device < device_count; device++)
        count_alive(&live, &contexts[device]);
    memory_count(&live);
    call_unlock();
    return live;
}
