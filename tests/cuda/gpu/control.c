/* SPDX-License-Identifier: Apache-2.0 */
/* control.c: standin.h on a real driver, for make test-cuda. What only a stand-in can do (count calls, fail them, draw
 * the order of work) skips the test that asks for it, where its answer matters; else it does nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "standin/abi.h"
#include "standin/standin.h"

#define SKIP(what)                                                                                                     \
    do {                                                                                                               \
        print_message("skipped on a GPU: " what " needs the stand-in\n");                                              \
        skip();                                                                                                        \
    } while (0)

static void must(CUresult result, const char *what)
{
    const char *text = "unknown error";
    if (result == CUDA_SUCCESS)
        return;
    (void)cuGetErrorString(result, &text);
    fprintf(stderr, "GPU tests: %s: %s\n", what, text);
    abort();
}

static int devices(void)
{
    int count = 0;
    must(cuInit(0), "cuInit");
    must(cuDeviceGetCount(&count), "cuDeviceGetCount");
    return count;
}

/* The primary context of the device, retained once and kept, is current until leave(). */
static void enter(int device)
{
    static CUcontext contexts[64];
    if (device >= devices())
        SKIP("a second device");
    if (contexts[device] == NULL)
        must(cuDevicePrimaryCtxRetain(&contexts[device], device), "cuDevicePrimaryCtxRetain");
    must(cuCtxPushCurrent_v2(contexts[device]), "cuCtxPushCurrent");
}

static void leave(void)
{
    CUcontext popped;
    must(cuCtxPopCurrent_v2(&popped), "cuCtxPopCurrent");
}

static int device_of(const void *memory)
{
    int device = 0;
    must(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)(uintptr_t)memory),
         "cuPointerGetAttribute");
    return device;
}

void standin_set_devices(int count)
{
    if (count < 1 || count > devices())
        SKIP("another number of devices");
}
void standin_set_memory(size_t bytes)
{
    (void)bytes;
    SKIP("a limit of memory");
}
void standin_set_version(int version)
{
    (void)version;
    SKIP("another version of the driver");
}

void standin_seed(uint64_t seed) { (void)seed; }
uint64_t standin_seed_now(void) { return 0; }
void standin_set_early(int percent) { (void)percent; }
void standin_run_all(void)
{
    for (int device = 0; device < devices(); device++) {
        enter(device);
        must(cuCtxSynchronize(), "cuCtxSynchronize");
        leave();
    }
}
size_t standin_run(size_t most)
{
    (void)most;
    return 0;
}
size_t standin_pending(void)
{
    SKIP("the number of operations that have not run");
    return 0;
}

uint64_t standin_count(const char *function)
{
    (void)function;
    SKIP("counting calls");
    return 0;
}
void standin_reset_counts(void) {}
uint64_t standin_calls(void) { return standin_count(NULL); }
uint64_t standin_synchronisations(void) { return standin_count(NULL); }
uint64_t standin_allocations(void) { return standin_count(NULL); }
uint64_t standin_launches(void) { return standin_count(NULL); }
uint64_t standin_kernels_run(const char *name) { return standin_count(name); }
standin_live standin_live_now(void)
{
    SKIP("counting what is alive");
    return (standin_live){.streams = 0};
}
uint64_t standin_errors(void) { return 0; }
const char *standin_last_error(void) { return ""; }

void standin_fail(const char *function, uint64_t k, int result)
{
    (void)function;
    (void)result;
    if (k != 0)
        SKIP("a failing call");
}
bool standin_fail_fired(void) { return false; }
void standin_fail_kernel(const char *kernel, uint64_t k, int result) { standin_fail(kernel, k, result); }
void standin_revive(int device)
{
    (void)device;
    SKIP("a context that has failed");
}

void *standin_alloc(int device, size_t bytes)
{
    CUdeviceptr address;
    enter(device);
    must(cuMemAlloc_v2(&address, bytes > 0 ? bytes : 1), "cuMemAlloc");
    must(cuMemsetD8Async(address, 0xA5, bytes, NULL), "cuMemsetD8Async");
    must(cuCtxSynchronize(), "cuCtxSynchronize");
    leave();
    return (void *)(uintptr_t)address;
}
void standin_free(void *memory)
{
    if (memory == NULL)
        return;
    enter(device_of(memory));
    must(cuMemFree_v2((CUdeviceptr)(uintptr_t)memory), "cuMemFree");
    leave();
}
/* These two wait for the device first: a test that needs them to come before work that is late cannot run here. */
void standin_upload(void *to, const void *from, size_t bytes)
{
    enter(device_of(to));
    must(cuCtxSynchronize(), "cuCtxSynchronize");
    must(cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)to, from, bytes), "cuMemcpyHtoD");
    leave();
}
void standin_download(void *to, const void *from, size_t bytes)
{
    enter(device_of(from));
    must(cuCtxSynchronize(), "cuCtxSynchronize");
    must(cuMemcpyDtoH_v2(to, (CUdeviceptr)(uintptr_t)from, bytes), "cuMemcpyDtoH");
    leave();
}

int standin_dies(void (*body)(void *ctx), void *ctx)
{
    (void)body;
    (void)ctx;
    SKIP("memory that faults");
    return 0;
}

standin_world *standin_world_create(int ranks)
{
    (void)ranks;
    SKIP("ranks in one process");
    return NULL;
}
void standin_world_free(standin_world *world) { (void)world; }
int standin_allreduce(standin_world *world, int rank, int operation, void *values, size_t count, int bits, void *stream)
{
    (void)world;
    (void)rank;
    (void)operation;
    (void)values;
    (void)count;
    (void)bits;
    (void)stream;
    return 1;
}
