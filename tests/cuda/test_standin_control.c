/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in's contexts, counts, failures and ranks; that its functions are those of the module's list. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>

#include "standin/rig.h"

/* Must be the first test: before cuInit. */
static void test_initialisation(void **state)
{
    (void)state;
    int count = 0, version = 0;
    CUcontext context;
    assert_int_equal(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(cuStreamSynchronize(NULL), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    standin_set_devices(0);
    assert_int_equal(cuInit(0), CUDA_ERROR_NO_DEVICE);
    standin_set_devices(3);
    assert_cuda(cuInit(0));
    assert_cuda(cuDeviceGetCount(&count));
    assert_int_equal(count, 3);
    standin_set_version(12020);
    assert_cuda(cuDriverGetVersion(&version));
    assert_int_equal(version, 12020);
}

static void test_devices(void **state)
{
    (void)state;
    CUdevice device;
    int value = 0;
    char name[32];
    assert_cuda(cuDeviceGet(&device, 1));
    assert_int_equal(cuDeviceGet(&device, 3), CUDA_ERROR_INVALID_DEVICE);
    assert_cuda(cuDeviceGetName(name, sizeof name, 1));
    assert_string_equal(name, "stand-in 1");
    assert_cuda(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    assert_int_equal(value, 9);
    assert_int_equal(cuDeviceGetAttribute(&value, -1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 7),
                     CUDA_ERROR_INVALID_DEVICE);
}

static void *without_context(void *result)
{
    CUdeviceptr address;
    *(CUresult *)result = cuMemAlloc_v2(&address, 4);
    (void)cuCtxSetCurrent(contexts[1]);
    return NULL;
}

static void test_contexts(void **state)
{
    (void)state;
    CUcontext context;
    CUdevice device;
    assert_cuda(cuCtxSetCurrent(NULL));
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuStreamSynchronize(NULL), CUDA_ERROR_INVALID_CONTEXT);
    assert_cuda(cuCtxPushCurrent_v2(contexts[1]));
    assert_cuda(cuCtxGetDevice(&device));
    assert_int_equal(device, 1);
    assert_cuda(cuCtxPopCurrent_v2(&context));
    assert_ptr_equal(context, contexts[1]);
    assert_cuda(cuCtxGetCurrent(&context));
    assert_null(context);
    assert_cuda(cuCtxSetCurrent(contexts[0]));
    CUresult there = CUDA_SUCCESS; /* each thread has its own */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, without_context, &there), 0);
    pthread_join(thread, NULL);
    assert_int_equal(there, CUDA_ERROR_INVALID_CONTEXT);
    assert_cuda(cuCtxGetCurrent(&context));
    assert_ptr_equal(context, contexts[0]);
    CUcontext third;
    assert_cuda(cuDevicePrimaryCtxRetain(&third, 2));
    assert_cuda(cuCtxPushCurrent_v2(third));
    assert_cuda(cuDevicePrimaryCtxRelease_v2(2));
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(2), CUDA_ERROR_INVALID_CONTEXT);
    assert_cuda(cuCtxPopCurrent_v2(NULL));
    assert_int_equal(cuCtxPushCurrent_v2(third), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    assert_int_equal(cuCtxPushCurrent_v2((CUcontext)(void *)&thread), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuDevicePrimaryCtxRetain(&third, 3), CUDA_ERROR_INVALID_DEVICE);
}

/* A context that ends with something in it. */
static void test_leaks(void **state)
{
    (void)state;
    CUcontext third;
    CUdeviceptr address;
    assert_cuda(cuDevicePrimaryCtxRetain(&third, 2));
    assert_cuda(cuCtxPushCurrent_v2(third));
    assert_cuda(cuMemAlloc_v2(&address, 4));
    assert_cuda(cuCtxPopCurrent_v2(NULL));
    standin_expect_errors(true);
    assert_cuda(cuDevicePrimaryCtxRelease_v2(2));
    standin_expect_errors(false);
    assert_int_equal(standin_errors(), 1);
    assert_non_null(strstr(standin_last_error(), "device 2"));
    assert_int_equal(standin_live_now().device_allocations, 0);
}

static void test_counts(void **state)
{
    (void)state;
    assert_int_equal(standin_calls(), 0);
    CUevent event = new_event();
    assert_cuda(cuEventRecord(event, NULL));
    assert_cuda(cuEventRecord(event, NULL));
    assert_cuda(cuEventDestroy_v2(event));
    assert_int_equal(standin_count("cuEventRecord"), 2);
    assert_int_equal(standin_count("cuEventDestroy"), 1);
    assert_int_equal(standin_count("cuEventDestroy_v2"), 1);
    assert_int_equal(standin_count("cuEventCreate"), 1);
    assert_int_equal(standin_calls(), 4);
    assert_int_equal(standin_synchronisations() + standin_allocations() + standin_launches(), 0);
    standin_reset_counts();
    assert_int_equal(standin_count("cuEventRecord"), 0);
}

static CUresult sequence(void)
{
    CUdeviceptr address;
    CUstream stream;
    CUresult result = cuMemAlloc_v2(&address, 16);
    if (result != CUDA_SUCCESS)
        return result;
    result = cuStreamCreate(&stream, 0);
    if (result == CUDA_SUCCESS) {
        result = cuMemsetD8Async(address, 0, 16, stream);
        CUresult freed = cuStreamDestroy_v2(stream);
        result = result == CUDA_SUCCESS ? freed : result;
    }
    CUresult freed = cuMemFree_v2(address);
    return result == CUDA_SUCCESS ? freed : result;
}

/* Every call of a sequence fails in turn; what frees something has freed it nevertheless. */
static void test_failures(void **state)
{
    (void)state;
    assert_cuda(sequence());
    uint64_t calls = standin_calls();
    assert_int_equal(calls, 5);
    for (uint64_t k = 1; k <= calls; k++) {
        standin_fail(NULL, k, 999);
        assert_int_equal(sequence(), 999);
        assert_true(standin_fail_fired());
        assert_int_equal(standin_live_now().device_allocations + standin_live_now().streams, 0);
    }
    standin_fail(NULL, calls + 1, 999);
    assert_cuda(sequence());
    assert_false(standin_fail_fired());
    standin_fail("cuMemsetD8Async", 2, 999);
    assert_cuda(sequence());
    assert_int_equal(sequence(), 999);
    standin_fail("cuStreamCreate", 1, 999);
    standin_fail(NULL, 0, 0);
    assert_cuda(sequence());
}

/* A kernel fails late: its context is lost, the other device's is not. */
static void test_late_failure(void **state)
{
    (void)state;
    float *here = filled(ELEMENTS, 0);
    test_args args = {.to = here, .count = ELEMENTS, .value = 1};
    CUdeviceptr address;
    CUevent event = new_event();
    assert_cuda(cuMemAlloc_v2(&address, 4));
    standin_fail_kernel("fill", 2, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_cuda(launch("fill", NULL, args));
    assert_cuda(cuCtxSynchronize());
    assert_exact(float_at(here, 0), 1);
    args.value = 2;
    assert_cuda(launch("fill", NULL, args));
    args.value = 3;
    assert_cuda(launch("fill", NULL, args)); /* will not run either */
    assert_cuda(cuEventRecord(event, NULL));
    assert_int_equal(cuEventSynchronize(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_exact(float_at(here, 0), 1);
    assert_int_equal(cuStreamSynchronize(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemAlloc_v2(&address, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    void *parameters[] = {&args};
    assert_int_equal(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemFree_v2(address), CUDA_ERROR_ILLEGAL_ADDRESS); /* but freed */
    assert_int_equal(standin_live_now().device_allocations, 0);
    assert_cuda(cuCtxSetCurrent(contexts[1]));
    assert_cuda(cuCtxSynchronize());
    assert_cuda(cuCtxSetCurrent(contexts[0]));
    standin_revive(0);
    assert_cuda(cuCtxSynchronize());
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE); /* gone with it */
    assert_cuda(cuModuleLoadData(&modules[0], "stand-in"));
    standin_free(here);
}

/* Two ranks on two devices, enqueued by one thread; the collective waits for both. */
static void test_ranks(void **state)
{
    (void)state;
    standin_world *world = standin_world_create(2);
    CUstream streams[2];
    float *values[2];
    for (int rank = 0; rank < 2; rank++) {
        assert_cuda(cuCtxSetCurrent(contexts[rank]));
        streams[rank] = new_stream(0);
        values[rank] = floats_on(rank, 4);
    }
    for (uint64_t seed = 1; seed <= 20; seed++) {
        standin_seed(seed);
        for (int rank = 0; rank < 2; rank++) {
            assert_cuda(cuCtxSetCurrent(contexts[rank]));
            assert_cuda(launch_on(rank, "fill", 1, 32, streams[rank],
                                  (test_args){.to = values[rank], .count = 4, .value = (float)(rank + 1)}));
            assert_int_equal(standin_allreduce(world, rank, STANDIN_SUM, values[rank], 2, 32, streams[rank]), 0);
            assert_int_equal(standin_allreduce(world, rank, STANDIN_MAX, values[rank] + 1, 2, 32, streams[rank]), 0);
            standin_run_all();
            assert_int_equal(standin_pending() == 0, rank == 1);
        }
        for (int rank = 0; rank < 2; rank++) {
            assert_exact(float_at(values[rank], 0), 3);
            assert_exact(float_at(values[rank], 1), 3);
            assert_exact(float_at(values[rank], 2), 2);
            assert_exact(float_at(values[rank], 3), rank + 1);
        }
    }
    for (int rank = 0; rank < 2; rank++) { /* two collectives that do not fit together */
        assert_cuda(cuCtxSetCurrent(contexts[rank]));
        assert_int_equal(standin_allreduce(world, rank, STANDIN_SUM, values[rank], 1 + (size_t)rank, 32, streams[rank]),
                         0);
    }
    standin_expect_errors(true);
    standin_run_all();
    standin_expect_errors(false);
    assert_int_equal(standin_errors(), 1);
    assert_non_null(strstr(standin_last_error(), "rank 1 is in another collective"));
    assert_cuda(cuCtxSetCurrent(contexts[0]));
    assert_int_equal(standin_allreduce(world, 0, STANDIN_SUM, values[1], 2, 32, streams[0]), CUDA_ERROR_INVALID_VALUE);
    for (int rank = 0; rank < 2; rank++) {
        assert_cuda(cuCtxSetCurrent(contexts[rank]));
        assert_cuda(cuStreamDestroy_v2(streams[rank]));
        standin_free(values[rank]);
    }
    standin_world_free(world);
    assert_cuda(cuCtxSetCurrent(contexts[0]));
}

/* dlopen finds the stand-in, and in it every function that the module asks for. */
static void test_loading(void **state)
{
    (void)state;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(driver);
    assert_ptr_equal(dlsym(driver, "standin_seed"), dlsym(RTLD_DEFAULT, "standin_seed"));
#define ASSERT_FOUND(result, name, parameters) assert_non_null(dlsym(driver, #name));
    GSC_CUDA_DRIVER_FUNCTIONS(ASSERT_FOUND)
#undef ASSERT_FOUND
    dlclose(driver);
}

static void test_error_texts(void **state)
{
    (void)state;
    const char *text = NULL;
    assert_cuda(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    assert_string_equal(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_cuda(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    assert_string_equal(text, "out of memory");
    assert_int_equal(cuGetErrorString(12345, &text), CUDA_ERROR_INVALID_VALUE);
    assert_null(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_initialisation),
        cmocka_unit_test_setup_teardown(test_devices, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_contexts, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_leaks, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_counts, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_failures, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_late_failure, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_ranks, open_devices, close_devices),
        cmocka_unit_test(test_loading),
        cmocka_unit_test(test_error_texts),
    };
    return cmocka_run_group_tests_name("standin_control", tests, NULL, NULL);
}
