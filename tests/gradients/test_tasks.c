/* SPDX-License-Identifier: Apache-2.0 */
/* How many tasks a loop is cut into, and when the pool's sleep counts. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "asserts.h"
#include "base/parallel.h"
#include "gradients/tasks.h"
#include "gradscaler/runtime.h"

static size_t quick(size_t elements)
{
    size_t per_task, tasks = gsc__task_split_quick(elements, &per_task);
    assert_true(per_task * tasks >= elements && per_task * (tasks - 1) < elements);
    return tasks;
}

static size_t slow(size_t elements)
{
    size_t per_task;
    return gsc__task_split(elements, &per_task);
}

/* Both indices meet, so that a thread of the pool runs one of them. */
static void split_in_company(void *ctx, size_t index)
{
    atomic_int *arrived = ctx;
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < 2)
        sched_yield();
    if (index == 0)
        assert_int_equal(quick(GSC_PARALLEL_MIN), 2);
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < 4)
        sched_yield();
}

static void wait_until_asleep(void)
{
    while (gsc__parallel_awake())
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void test_no_sleeping_thread_for_quick_work(void **state)
{
    (void)state;
    gsc_set_num_threads(2);
    for (int repeat = 0; repeat < 3; repeat++) {
        wait_until_asleep(); /* at first: not started */
        assert_int_equal(quick(GSC_ASLEEP_MIN - 1), 1);
        assert_int_equal(quick(GSC_ASLEEP_MIN), 2);
        assert_int_equal(slow(GSC_PARALLEL_MIN - 1), 1);
        assert_int_equal(slow(GSC_PARALLEL_MIN), 2);
        atomic_int arrived = 0;
        gsc_parallel_run(2, split_in_company, &arrived);
    }
    gsc_set_num_threads(0);
}

static void test_one_thread_gets_one_task(void **state)
{
    (void)state;
    gsc_set_num_threads(1);
    assert_int_equal(quick(100 * (size_t)GSC_ASLEEP_MIN), 1);
    assert_int_equal(slow(100 * (size_t)GSC_ASLEEP_MIN), 1);
    gsc_set_num_threads(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_sleeping_thread_for_quick_work),
        cmocka_unit_test(test_one_thread_gets_one_task),
    };
    gsc__parallel_assume_awake(false); /* what support/awake.c did */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
