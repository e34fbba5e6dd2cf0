/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in's streams, events and copies: work runs late, in any order that nothing forbids. */
#include "standin/rig.h"

static float *to;
static CUstream first, second;
static CUevent event;

static int open_all(void **state)
{
    open_devices(state);
    to = filled(ELEMENTS, 0);
    first = new_stream(CU_STREAM_NON_BLOCKING);
    second = new_stream(CU_STREAM_NON_BLOCKING);
    event = new_event();
    return 0;
}

static int close_all(void **state)
{
    assert_cuda(cuStreamDestroy_v2(first));
    assert_cuda(cuStreamDestroy_v2(second));
    assert_cuda(cuEventDestroy_v2(event));
    standin_free(to);
    return close_devices(state);
}

static CUresult fill_with(float value, CUstream stream)
{
    return launch("fill", stream, (test_args){.to = to, .count = ELEMENTS, .value = value});
}

static void test_work_runs_late(void **state)
{
    (void)state;
    assert_cuda(fill_with(1, first));
    assert_cuda(cuEventRecord(event, first));
    assert_cuda(fill_with(2, first));
    assert_int_equal(standin_pending(), 3);
    assert_exact(float_at(to, 0), 0);
    assert_cuda(cuEventSynchronize(event));
    assert_true(float_at(to, 0) == 1 || float_at(to, 0) == 2);
    assert_cuda(cuStreamSynchronize(first));
    assert_exact(float_at(to, 0), 2);
    assert_int_equal(standin_pending(), 0);
    assert_int_equal(standin_synchronisations(), 2);
    assert_int_equal(standin_kernels_run("fill"), standin_kernels_run(NULL));

    assert_cuda(fill_with(3, first));
    assert_int_equal(standin_run(5), 1);
    assert_exact(float_at(to, 0), 3);
    standin_set_early(100);
    assert_cuda(fill_with(4, first));
    standin_set_early(0);
    assert_exact(float_at(to, 0), 4);
    assert_int_equal(standin_synchronisations(), 2);
}

/* Each of these waits for the work before it. */
static void test_what_waits(void **state)
{
    (void)state;
    float host = 0;
    CUdeviceptr memory;
    void *pinned;
    assert_cuda(cuMemAlloc_v2(&memory, 4));
    assert_cuda(cuMemHostAlloc(&pinned, 4, 0));
    CUstream third = new_stream(0);
    for (int call = 0; call < 6; call++) {
        assert_cuda(fill_with((float)call + 1, third));
        uint64_t before = standin_synchronisations();
        assert_int_equal(standin_pending() > 0, true);
        switch (call) {
        case 0: assert_cuda(cuStreamSynchronize(third)); break;
        case 1: assert_cuda(cuCtxSynchronize()); break;
        case 2: assert_cuda(cuMemcpyDtoH_v2(&host, address_of(to), 4)); break;
        case 3: assert_cuda(cuMemFree_v2(memory)); break;
        case 4: assert_cuda(cuMemFreeHost(pinned)); break;
        default: assert_cuda(cuStreamDestroy_v2(third)); break;
        }
        assert_int_equal(standin_synchronisations(), before + 1);
        assert_exact(float_at(to, 3), call + 1);
    }
    assert_exact(host, 3);
}

static bool in_order_of_stream(void)
{
    for (int i = 1; i <= 20; i++)
        if (fill_with((float)i, first) != CUDA_SUCCESS)
            return false;
    return cuStreamSynchronize(first) == CUDA_SUCCESS && float_at(to, 9) == 20;
}

/* Two streams that nothing orders: the last value depends on the seed. */
static bool second_is_last(void)
{
    assert_cuda(fill_with(1, first));
    assert_cuda(fill_with(2, second));
    assert_cuda(cuCtxSynchronize());
    return float_at(to, 0) == 2;
}

/* The same where the first enqueued stream alone is waited for. */
static bool other_ran_first(void)
{
    assert_cuda(fill_with(1, first));
    assert_cuda(fill_with(2, second));
    assert_cuda(cuStreamSynchronize(first));
    bool ran = standin_pending() == 0;
    assert_cuda(cuCtxSynchronize());
    return ran;
}

static bool ordered_by_event(void)
{
    assert_cuda(fill_with(1, first));
    assert_cuda(cuEventRecord(event, first));
    assert_cuda(cuStreamWaitEvent(second, event, 0));
    assert_cuda(fill_with(2, second));
    assert_cuda(fill_with(3, first)); /* after the record: not waited for */
    assert_cuda(cuStreamSynchronize(second));
    float after_second = float_at(to, 0);
    assert_cuda(cuCtxSynchronize());
    return after_second >= 2 && float_at(to, 0) >= 2;
}

static bool event_covers_later_work(void)
{
    (void)ordered_by_event();
    return float_at(to, 0) == 2;
}

static void test_order(void **state)
{
    (void)state;
    assert_int_equal(seeds_of(in_order_of_stream, 50), 50);
    assert_in_range(seeds_of(second_is_last, 50), 5, 45);
    assert_in_range(seeds_of(other_ran_first, 50), 5, 45);
    assert_int_equal(seeds_of(ordered_by_event, 50), 50);
    assert_in_range(seeds_of(event_covers_later_work, 50), 5, 45); /* it does not: either may be last */
}

static bool through(CUstream a, CUstream b, CUstream waited)
{
    assert_cuda(fill_with(1, a));
    assert_cuda(fill_with(2, b));
    assert_cuda(cuStreamSynchronize(waited));
    bool right = float_at(to, 0) == 2;
    assert_cuda(cuCtxSynchronize());
    return right && float_at(to, 0) == 2;
}

static CUstream blocking;

static bool legacy_waits(void) { return through(blocking, NULL, CU_STREAM_LEGACY); }
static bool others_wait_for_legacy(void) { return through(NULL, blocking, blocking); }
static bool per_thread_waits(void) { return through(NULL, CU_STREAM_PER_THREAD, CU_STREAM_PER_THREAD); }
static bool non_blocking_do_not(void) { return through(NULL, first, first); }
static bool nor_does_legacy(void) { return through(first, NULL, NULL); }

static void test_legacy_stream(void **state)
{
    (void)state;
    blocking = new_stream(0);
    assert_int_equal(seeds_of(legacy_waits, 40), 40);
    assert_int_equal(seeds_of(others_wait_for_legacy, 40), 40);
    assert_int_equal(seeds_of(per_thread_waits, 40), 40);
    assert_in_range(seeds_of(non_blocking_do_not, 40), 2, 38);
    assert_in_range(seeds_of(nor_does_legacy, 40), 2, 38);
    assert_cuda(cuStreamDestroy_v2(blocking));
}

static void test_queries(void **state)
{
    (void)state;
    assert_cuda(cuEventQuery(event)); /* never recorded */
    assert_cuda(cuStreamQuery(first));
    assert_cuda(fill_with(1, first));
    assert_cuda(cuEventRecord(event, first));
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    assert_int_equal(cuStreamQuery(first), CUDA_ERROR_NOT_READY); /* each has run one of the two */
    assert_cuda(cuEventQuery(event));
    assert_cuda(cuStreamQuery(first));
    assert_cuda(cuStreamQuery(NULL));
    assert_int_equal(standin_synchronisations(), 0);
}

/* The host changes what it copies from before the copy's turn. */
static bool reads_late(void)
{
    float host = 1;
    assert_cuda(cuMemcpyHtoDAsync_v2(address_of(to), &host, sizeof host, first));
    host = 2;
    assert_cuda(cuStreamSynchronize(first));
    return float_at(to, 0) == 2;
}

static void test_copies(void **state)
{
    (void)state;
    assert_in_range(seeds_of(reads_late, 50), 5, 45);
    float host[4] = {1, 2, 3, 4}, back[4] = {0};
    float *pinned;
    assert_cuda(cuMemHostAlloc((void **)&pinned, sizeof host, 0));
    assert_cuda(cuMemcpyHtoD_v2(address_of(to), host, sizeof host));
    assert_cuda(cuMemcpyDtoDAsync_v2(address_of(to + 8), address_of(to), sizeof host, first));
    pinned[3] = 0;
    assert_cuda(cuMemcpyDtoHAsync_v2(pinned, address_of(to + 8), sizeof host, first));
    assert_exact(pinned[3], 0); /* to pinned memory: late */
    uint64_t before = standin_synchronisations();
    assert_cuda(cuMemcpyDtoHAsync_v2(back, address_of(to + 8), sizeof host, first));
    assert_exact(back[3], 4); /* to other memory: the driver waits */
    assert_int_equal(standin_synchronisations(), before + 1);
    assert_exact(pinned[3], 4);
    assert_cuda(cuMemFreeHost(pinned));
    assert_int_equal(cuMemcpyDtoH_v2(back, address_of(host), 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyHtoD_v2(address_of(to + ELEMENTS - 1), host, 8), CUDA_ERROR_INVALID_VALUE);
}

static void test_memsets(void **state)
{
    (void)state;
    assert_cuda(cuMemsetD8Async(address_of(to), 0x3f, 4, first));
    assert_cuda(cuMemsetD32Async(address_of(to + 1), 0x40000000, 2, first));
    assert_exact(float_at(to, 1), 0);
    assert_cuda(cuStreamSynchronize(first));
    assert_exact(float_at(to, 0), 0x1.7e7e7ep-1); /* 0x3f3f3f3f */
    assert_exact(float_at(to, 2), 2);
    assert_exact(float_at(to, 3), 0);
    assert_int_equal(cuMemsetD32Async(address_of(to) + 1, 0, 1, first), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD8Async(address_of(to), 0, ELEMENTS * 4 + 1, first), CUDA_ERROR_INVALID_VALUE);
}

/* Two devices: copies and events cross, launches, memsets and records do not. */
static void test_devices(void **state)
{
    (void)state;
    float *there = floats_on(1, ELEMENTS);
    assert_cuda(cuCtxSetCurrent(contexts[1]));
    CUstream stream = new_stream(0);
    assert_int_equal(launch_on(1, "fill", 1, 1, first, (test_args){0}), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuMemsetD8Async(address_of(to), 0, 4, stream), CUDA_ERROR_INVALID_VALUE);
    assert_cuda(cuCtxSetCurrent(contexts[0]));
    assert_cuda(fill_with(7, first));
    assert_cuda(cuEventRecord(event, first));
    assert_cuda(cuStreamWaitEvent(stream, event, 0));
    assert_cuda(cuMemcpyPeerAsync(address_of(there), contexts[1], address_of(to), contexts[0], ELEMENTS * 4, stream));
    assert_int_equal(cuMemcpyPeerAsync(address_of(there), contexts[0], address_of(to), contexts[0], 4, stream),
                     CUDA_ERROR_INVALID_VALUE);
    assert_cuda(cuStreamSynchronize(stream));
    assert_exact(float_at(there, 100), 7);
    assert_cuda(cuStreamDestroy_v2(stream));
    standin_free(there);
}

static void test_handles(void **state)
{
    (void)state;
    CUstream gone = new_stream(0);
    CUevent no_event = new_event();
    assert_cuda(cuStreamDestroy_v2(gone));
    assert_cuda(cuEventDestroy_v2(no_event));
    assert_int_equal(cuStreamSynchronize(gone), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuStreamDestroy_v2(gone), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuStreamDestroy_v2(NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuEventRecord(no_event, first), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuEventDestroy_v2(no_event), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuStreamWaitEvent(first, event, 8), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamCreate(&gone, 2), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_work_runs_late, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_what_waits, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_order, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_legacy_stream, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_queries, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_copies, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_memsets, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_devices, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_handles, open_all, close_all),
    };
    return cmocka_run_group_tests_name("standin_streams", tests, NULL, NULL);
}
