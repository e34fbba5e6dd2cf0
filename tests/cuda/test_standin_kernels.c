/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in's kernels: threads, barriers, shuffles, limits. */
#define _POSIX_C_SOURCE 200809L
#include <fenv.h>
#include <signal.h>
#include <time.h>

#include "standin/rig.h"

static float *to, *from;
static uint64_t *counter;

static int open_all(void **state)
{
    open_devices(state);
    to = filled(ELEMENTS, 0);
    from = floats_on(0, ELEMENTS);
    counter = standin_alloc(0, sizeof *counter);
    float host[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++)
        host[i] = (float)i;
    standin_upload(from, host, sizeof host);
    standin_upload(counter, &(uint64_t){0}, sizeof *counter);
    return 0;
}

static int close_all(void **state)
{
    standin_free(to);
    standin_free(from);
    standin_free(counter);
    return close_devices(state);
}

static test_args arguments(void)
{
    return (test_args){.to = to, .from = from, .counter = counter, .count = ELEMENTS, .value = 1};
}

static void run(const char *kernel, unsigned blocks, unsigned threads)
{
    assert_cuda(launch_on(0, kernel, blocks, threads, NULL, arguments()));
    assert_cuda(cuCtxSynchronize());
}

/* The kernel is wrong: the context fails, and the message says where and why. */
static void run_wrong(const char *kernel, unsigned threads, const char *why)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        standin_seed(seed);
        uint64_t errors = standin_errors();
        standin_expect_errors(true);
        assert_cuda(launch_on(0, kernel, 2, threads, NULL, arguments()));
        assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
        assert_int_equal(standin_errors(), errors + 1);
        assert_non_null(strstr(standin_last_error(), kernel));
        if (strstr(standin_last_error(), why) == NULL)
            fail_msg("\"%s\" is not in: %s", why, standin_last_error());
        standin_expect_errors(false);
        standin_revive(0);
        assert_cuda(cuModuleLoadData(&modules[0], "stand-in"));
        run("rotate", 4, 64); /* kernels run again after that */
    }
}

static void test_order_is_shuffled(void **state)
{
    (void)state;
    unsigned threads_seen = 0, blocks_seen = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        standin_seed(seed);
        run("note_thread", 1, 8);
        threads_seen |= 1U << (unsigned)float_at(to, 0);
        run("note_block", 8, 1);
        blocks_seen |= 1U << (unsigned)float_at(to, 0);
    }
    assert_int_equal(threads_seen, 0xff); /* each was the last one under some seed */
    assert_int_equal(blocks_seen, 0xff);
}

static void test_a_seed_repeats(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        standin_seed(seed);
        assert_int_equal(standin_seed_now(), seed);
        run("note_thread", 3, 100);
        float first = float_at(to, 0);
        standin_seed(seed);
        run("note_thread", 3, 100);
        assert_exact(float_at(to, 0), first);
    }
}

static void assert_rotated(void)
{
    for (unsigned i = 0; i < ELEMENTS; i++)
        assert_exact(float_at(to, i), i / 64 * 64 + (i + 1) % 64);
}

static void test_barriers(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        standin_seed(seed);
        run("rotate", 4, 64);
        assert_rotated();
    }
}

static bool rotates_carelessly(void)
{
    run("rotate_carelessly", 4, 64);
    for (unsigned i = 0; i < ELEMENTS; i++)
        if (float_at(to, i) != (float)(i / 64 * 64 + (i + 1) % 64))
            return false;
    return true;
}

static void test_missing_barrier_shows(void **state)
{
    (void)state;
    assert_int_equal(seeds_of(rotates_carelessly, 20), 0);
}

/* A block finds nothing of the one before. */
static bool finds_what_was_left(void)
{
    run("rotate", 1, 64);
    run("read_shared", 1, 1);
    return float_at(to, 0) == 0 || float_at(to, 0) == float_at(from, 1);
}

static void test_shared_memory_is_rubbish(void **state)
{
    (void)state;
    assert_int_equal(seeds_of(finds_what_was_left, 20), 0);
}

static void test_warps(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        standin_seed(seed);
        run("warp_sum", 2, 128);
        for (unsigned i = 0; i < ELEMENTS; i++)
            assert_exact(float_at(to, i), i / 32 * 32 * 32 + 31 * 16);
        run("warp_any", 2, 128);
        assert_exact(float_at(to, 0), 1);
        run("lane_leaves_sync", 1, 32); /* which a barrier may */
        assert_exact(float_at(to, 31), 1);
    }
    float zeros[32] = {0};
    standin_upload(from, zeros, sizeof zeros);
    run("warp_any", 2, 128);
    assert_exact(float_at(to, 31), 0);
    assert_exact(float_at(to, 32), 1);
}

static void test_atomics(void **state)
{
    (void)state;
    run("count_threads", 4, 256);
    uint64_t count;
    standin_download(&count, counter, sizeof count);
    assert_int_equal(count, 1024);
    standin_upload(counter, &(uint64_t){0}, sizeof count);
    run("count_carelessly", 1, 256);
    standin_download(&count, counter, sizeof count);
    assert_in_range(count, 1, 255); /* some additions are lost */
}

static void test_barriers_that_some_never_reach(void **state)
{
    (void)state;
    run_wrong("leave_early", 64, "which the others never reach");
    run_wrong("two_barriers", 64, "while others are at that of line");
    run_wrong("two_warp_ops", 32, "lanes of a warp are in different operations");
    run_wrong("lane_leaves", 32, "returned before the warp operation");
    run_wrong("warp_sum", 16, "do not exist in the warp operation");
    run_wrong("warp_misses", 64, "never");
}

/* Whatever the host does with its floating-point environment. */
static void test_rounding(void **state)
{
    (void)state;
    fesetround(FE_UPWARD);
    CUresult launched = launch_on(0, "half_up", 1, 1, NULL, arguments()), waited = cuCtxSynchronize();
    int rounding = fegetround();
    fesetround(FE_TONEAREST);
    assert_cuda(launched);
    assert_cuda(waited);
    assert_int_equal(rounding, FE_UPWARD);
    assert_exact(float_at(to, 0), 1);
}

static void run_misaligned(void *unused)
{
    (void)unused;
    if (launch_on(0, "misaligned", 1, 1, NULL, arguments()) == CUDA_SUCCESS)
        (void)cuCtxSynchronize();
}

/* As a GPU refuses it. */
static void test_alignment(void **state)
{
    (void)state;
    assert_int_equal(standin_dies(run_misaligned, NULL), SIGILL);
}

static void test_arguments_are_copied(void **state)
{
    (void)state;
    test_args args = arguments();
    void *parameters[] = {&args};
    assert_cuda(cuLaunchKernel(function_of(0, "fill"), 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL));
    args.value = 2;
    args.to = NULL;
    assert_cuda(cuCtxSynchronize());
    assert_exact(float_at(to, 255), 1);
}

static CUresult launch_shape(unsigned grid_x, unsigned grid_y, unsigned block_x, unsigned block_z, unsigned shared)
{
    test_args args = arguments();
    void *parameters[] = {&args};
    return cuLaunchKernel(function_of(0, "fill"), grid_x, grid_y, 1, block_x, 1, block_z, shared, NULL, parameters,
                          NULL);
}

static void test_limits(void **state)
{
    (void)state;
    assert_cuda(launch_shape(1, 1, 1024, 1, 48 * 1024));
    assert_int_equal(launch_shape(0, 1, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch_shape(1, 65536, 32, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch_shape(1, 1, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch_shape(1, 1, 1025, 1, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch_shape(1, 1, 512, 4, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch_shape(1, 1, 32, 1, 48 * 1024 + 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(standin_errors(), 0);
    standin_expect_errors(true);
    assert_int_equal(launch_shape(1, 2, 32, 1, 0), CUDA_ERROR_INVALID_VALUE); /* the stand-in's own limit */
    assert_int_equal(standin_errors(), 1);
    standin_expect_errors(false);
    assert_cuda(cuCtxSynchronize());
    int value = 0;
    assert_cuda(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function_of(0, "fill")));
    assert_int_equal(value, 1024);
    assert_cuda(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function_of(0, "fill")));
    assert_in_range(value, ELEMENTS * sizeof(float), 48 * 1024);
    assert_cuda(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function_of(0, "fill"), 256, 0));
    assert_int_equal(value, 8);
    assert_cuda(cuOccupancyMaxActiveBlocksPerMultiprocessor(&value, function_of(0, "fill"), 2048, 0));
    assert_int_equal(value, 0);
}

static void test_modules(void **state)
{
    (void)state;
    CUmodule module;
    CUfunction function;
    assert_int_equal(cuModuleLoadData(&module, "rubbish"), CUDA_ERROR_INVALID_IMAGE);
    assert_cuda(cuModuleLoadData(&module, "\x50\xed\x55\xba a fatbin"));
    assert_int_equal(cuModuleGetFunction(&function, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
    assert_cuda(cuModuleGetFunction(&function, module, "fill"));
    assert_cuda(cuModuleUnload(module));
    assert_int_equal(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
    void *parameters[] = {NULL};
    assert_int_equal(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuLaunchKernel(function_of(0, "fill"), 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL),
                     CUDA_ERROR_INVALID_VALUE);
}

/* Ten million elements, a warp for 4096: prints how long that takes. */
static void test_speed(void **state)
{
    (void)state;
    enum { MANY = 10000000, ITEMS = (MANY + 4095) / 4096 };
    float *many = filled(MANY, 1), *most = floats_on(0, ITEMS);
    struct timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    assert_cuda(
        launch_on(0, "largest", (ITEMS + 7) / 8, 256, NULL, (test_args){.to = most, .from = many, .count = MANY}));
    assert_cuda(cuCtxSynchronize());
    clock_gettime(CLOCK_MONOTONIC, &end);
    print_message("10^7 elements: %.2f s\n",
                  (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec));
    for (size_t i = 0; i < ITEMS; i++)
        assert_exact(float_at(most, i), 1);
    standin_free(many);
    standin_free(most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order_is_shuffled, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_a_seed_repeats, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_barriers, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_missing_barrier_shows, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_shared_memory_is_rubbish, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_warps, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_atomics, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_barriers_that_some_never_reach, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_rounding, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_alignment, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_arguments_are_copied, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_limits, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_modules, open_all, close_all),
        cmocka_unit_test_setup_teardown(test_speed, open_all, close_all),
    };
    return cmocka_run_group_tests_name("standin_kernels", tests, NULL, NULL);
}
