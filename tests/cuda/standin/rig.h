/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h: for tests of the stand-in: contexts, memory and launches of the test kernels. */
#ifndef GSC_TESTS_STANDIN_RIG_H
#define GSC_TESTS_STANDIN_RIG_H

#include <stdlib.h>

#include "asserts.h"
#include "standin/abi.h"
#include "standin/standin.h"
#include "standin/test_kernels.h"

#define assert_cuda(call) assert_int_equal((call), CUDA_SUCCESS)

enum { ELEMENTS = 256 };

static CUcontext contexts[2];
static CUmodule modules[2];

static inline int open_devices(void **state)
{
    (void)state;
    assert_cuda(cuInit(0));
    for (int device = 0; device < 2; device++) {
        assert_cuda(cuDevicePrimaryCtxRetain(&contexts[device], device));
        assert_cuda(cuCtxSetCurrent(contexts[device]));
        assert_cuda(cuModuleLoadData(&modules[device], "stand-in"));
    }
    assert_cuda(cuCtxSetCurrent(contexts[0]));
    standin_reset_counts();
    return 0;
}

/* Nothing is left over. */
static inline int close_devices(void **state)
{
    (void)state;
    standin_run_all();
    for (int device = 0; device < 2; device++) {
        assert_cuda(cuCtxSetCurrent(contexts[device]));
        assert_cuda(cuModuleUnload(modules[device]));
    }
    standin_live live = standin_live_now();
    assert_int_equal(live.device_allocations + live.host_allocations + live.streams + live.events + live.modules +
                         live.graphs + live.graph_execs,
                     0);
    for (int device = 0; device < 2; device++)
        assert_cuda(cuDevicePrimaryCtxRelease_v2(device));
    assert_int_equal(standin_live_now().retains, 0);
    return 0;
}

static inline CUfunction function_of(int device, const char *name)
{
    CUfunction function;
    assert_cuda(cuModuleGetFunction(&function, modules[device], name));
    return function;
}

static inline CUresult launch_on(int device, const char *name, unsigned blocks, unsigned threads, CUstream stream,
                                 test_args args)
{
    void *parameters[] = {&args};
    return cuLaunchKernel(function_of(device, name), blocks, 1, 1, threads, 1, 1, 0, stream, parameters, NULL);
}

static inline CUresult launch(const char *name, CUstream stream, test_args args)
{
    return launch_on(0, name, 2, 64, stream, args);
}

static inline CUstream new_stream(unsigned flags)
{
    CUstream stream;
    assert_cuda(cuStreamCreate(&stream, flags));
    return stream;
}

static inline CUevent new_event(void)
{
    CUevent event;
    assert_cuda(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    return event;
}

static inline float *floats_on(int device, size_t count) { return standin_alloc(device, count * sizeof(float)); }

static inline float *filled(size_t count, float value)
{
    float *memory = floats_on(0, count), *host = malloc(count * sizeof *host);
    assert_non_null(host);
    for (size_t i = 0; i < count; i++)
        host[i] = value;
    standin_upload(memory, host, count * sizeof *host);
    free(host);
    return memory;
}

static inline float float_at(const float *memory, size_t i)
{
    float value;
    standin_download(&value, memory + i, sizeof value);
    return value;
}

static inline CUdeviceptr address_of(const void *memory) { return (CUdeviceptr)(uintptr_t)memory; }

/* The same test under many orders of work; `what` runs it and returns whether it went well. */
static inline size_t seeds_of(bool (*what)(void), size_t seeds)
{
    size_t well = 0;
    for (size_t seed = 1; seed <= seeds; seed++) {
        standin_seed(seed);
        well += what();
    }
    return well;
}

#endif
