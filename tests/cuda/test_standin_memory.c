/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in's memory: who may touch it, and when. */
#include <signal.h>

#include "standin/rig.h"

static float *memory;
static volatile float sink;

static void host_reads(void *at) { sink = *(volatile float *)at; }
static void host_writes(void *at) { *(volatile float *)at = 1; }

static void test_host_faults(void **state)
{
    (void)state;
    memory = floats_on(0, ELEMENTS);
    assert_int_equal(standin_dies(host_reads, memory), SIGSEGV);
    assert_int_equal(standin_dies(host_writes, memory), SIGSEGV);
    assert_cuda(launch("fill", NULL, (test_args){.to = memory, .count = ELEMENTS, .value = 3}));
    assert_cuda(cuCtxSynchronize());
    assert_int_equal(standin_dies(host_reads, memory), SIGSEGV); /* after a kernel, too */
    assert_exact(float_at(memory, ELEMENTS - 1), 3);
    float on_host = 0;
    assert_int_equal(standin_dies(host_reads, &on_host), 0);
    standin_free(memory);
}

static void run_fill(void *ctx)
{
    if (launch("fill", NULL, *(test_args *)ctx) == CUDA_SUCCESS)
        (void)cuCtxSynchronize();
}

static void test_kernel_faults(void **state)
{
    (void)state;
    float *other = floats_on(1, ELEMENTS);
    test_args args = {.to = other, .count = ELEMENTS};
    assert_int_equal(standin_dies(run_fill, &args), SIGSEGV); /* another device's */
    CUdeviceptr freed;
    assert_cuda(cuMemAlloc_v2(&freed, ELEMENTS * sizeof(float)));
    args.to = (float *)(uintptr_t)freed;
    assert_int_equal(standin_dies(run_fill, &args), 0);
    assert_cuda(cuMemFree_v2(freed));
    assert_int_equal(standin_dies(run_fill, &args), SIGSEGV); /* freed */
    float *small = floats_on(0, ELEMENTS);
    args.to = small;
    args.count = 4096;
    assert_true(standin_dies(run_fill, &args) != 0); /* beyond its pages */
    args.to = NULL;
    assert_true(standin_dies(run_fill, &args) != 0);
    standin_free(small);
    standin_free(other);
}

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif

/* One element before or behind it: AddressSanitizer sees it at once, else the bytes there are compared. */
static void test_overruns(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        standin_seed(seed);
        float *few = floats_on(0, 5); /* 20 bytes at the end of a page or at its beginning */
        for (int side = 0; side < 2; side++) {
            test_args args = {.to = side == 0 ? few + 5 : few - 1, .count = 1, .value = 1};
#ifdef UNDER_ASAN
            assert_true(standin_dies(run_fill, &args) != 0);
#else
            if (side == 1 && (uintptr_t)few % 4096 == 0) {
                assert_int_equal(standin_dies(run_fill, &args), SIGSEGV);
                continue;
            }
            uint64_t errors = standin_errors();
            standin_expect_errors(true);
            assert_cuda(launch("fill", NULL, args));
            assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
            assert_int_equal(standin_errors(), errors + 1);
            assert_non_null(strstr(standin_last_error(), side == 0 ? "fill has written behind" : "before"));
            standin_expect_errors(false);
            standin_revive(0);
            assert_cuda(cuModuleLoadData(&modules[0], "stand-in"));
            standin_free(few);
            few = floats_on(0, 5);
#endif
        }
        standin_free(few);
    }
}

static void test_new_memory_is_rubbish(void **state)
{
    (void)state;
    size_t zeros = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        standin_seed(seed);
        float *new_memory = floats_on(0, ELEMENTS);
        for (size_t i = 0; i < ELEMENTS; i++)
            zeros += float_at(new_memory, i) == 0;
        standin_free(new_memory);
    }
    assert_int_equal(zeros, 0);
}

static void test_allocations_are_counted(void **state)
{
    (void)state;
    CUdeviceptr address;
    void *pinned;
    assert_cuda(cuMemAlloc_v2(&address, 1000));
    assert_cuda(cuMemHostAlloc(&pinned, 500, CU_MEMHOSTALLOC_PORTABLE));
    standin_live live = standin_live_now();
    assert_int_equal(live.device_allocations, 1);
    assert_int_equal(live.device_bytes, 1000);
    assert_int_equal(live.host_allocations, 1);
    assert_int_equal(standin_allocations(), 2);
    assert_int_equal(cuMemFree_v2(address + 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFree_v2(address_of(pinned)), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFreeHost((void *)(uintptr_t)address), CUDA_ERROR_INVALID_VALUE);
    assert_cuda(cuMemFree_v2(address));
    assert_int_equal(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE); /* twice */
    assert_cuda(cuMemFree_v2(0));
    assert_cuda(cuMemFreeHost(pinned));
    assert_int_equal(cuMemAlloc_v2(&address, 0), CUDA_ERROR_INVALID_VALUE);
    live = standin_live_now();
    assert_int_equal(live.device_allocations + live.host_allocations, 0);
}

static void test_limit(void **state)
{
    (void)state;
    CUdeviceptr address, second;
    size_t available, total;
    standin_set_memory(1 << 20);
    assert_int_equal(cuMemAlloc_v2(&address, (1 << 20) + 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_cuda(cuMemAlloc_v2(&address, 1 << 19));
    assert_cuda(cuMemGetInfo_v2(&available, &total));
    assert_int_equal(total, 1 << 20);
    assert_int_equal(available, 1 << 19);
    assert_int_equal(cuMemAlloc_v2(&second, (1 << 19) + 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_cuda(cuMemFree_v2(address));
    assert_cuda(cuMemAlloc_v2(&second, 1 << 20));
    assert_cuda(cuMemFree_v2(second));
    standin_set_memory((size_t)4 << 30);
}

/* Pinned memory is the host's, and the device's under the same address. */
static void test_pinned(void **state)
{
    (void)state;
    void *pinned;
    CUdeviceptr on_device;
    assert_cuda(cuMemHostAlloc(&pinned, ELEMENTS * sizeof(float), CU_MEMHOSTALLOC_DEVICEMAP));
    assert_cuda(cuMemHostGetDevicePointer_v2(&on_device, pinned, 0));
    float *values = pinned;
    values[7] = 0;
    assert_cuda(launch("fill", NULL, (test_args){.to = (float *)(uintptr_t)on_device, .count = ELEMENTS, .value = 2}));
    assert_exact(values[7], 0);
    assert_cuda(cuCtxSynchronize());
    assert_exact(values[7], 2);
    unsigned type = 0;
    assert_cuda(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, on_device));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    assert_int_equal(cuMemHostGetDevicePointer_v2(&on_device, &type, 0), CUDA_ERROR_INVALID_VALUE);
    assert_cuda(cuMemFreeHost(pinned));
    assert_int_equal(standin_dies(host_reads, values), SIGSEGV);
}

static void test_kinds_of_memory(void **state)
{
    (void)state;
    float *on_second = floats_on(1, 4), host = 0;
    unsigned type = 0;
    int device = -1;
    assert_cuda(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(on_second)));
    assert_cuda(cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address_of(on_second)));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_int_equal(device, 1);
    assert_int_equal(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address_of(&host)),
                     CUDA_ERROR_INVALID_VALUE);
    standin_free(on_second);
}

/* Ten thousand small ones: addresses are found and given out again. */
static void test_many(void **state)
{
    (void)state;
    enum { MANY = 3000 };
    float **all = malloc(MANY * sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < MANY; i++)
        all[i] = floats_on(0, 64);
    assert_cuda(launch("fill", NULL, (test_args){.to = all[MANY / 2], .count = 64, .value = 5}));
    assert_cuda(cuCtxSynchronize());
    assert_exact(float_at(all[MANY / 2], 63), 5);
    for (size_t i = 0; i < MANY; i++)
        standin_free(all[i]);
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_host_faults, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_kernel_faults, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_overruns, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_new_memory_is_rubbish, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_allocations_are_counted, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_limit, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_pinned, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_kinds_of_memory, open_devices, close_devices),
        cmocka_unit_test_setup_teardown(test_many, open_devices, close_devices),
    };
    return cmocka_run_group_tests_name("standin_memory", tests, NULL, NULL);
}
