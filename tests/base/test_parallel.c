/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool: a task runs once for every index, from every kind of caller. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "asserts.h"
#include "gradscaler/status.h"
#include "sanitizer_options.h"
#include "skipped.h"

enum { MOST = 1000 };

typedef struct counts {
    atomic_int seen[MOST];
    size_t inner; /* indices of a loop inside each task; 0: none */
    atomic_int inner_seen;
} counts;

static void count_inner(void *ctx, size_t index)
{
    (void)index;
    atomic_fetch_add((atomic_int *)ctx, 1);
}

static void count_index(void *ctx, size_t index)
{
    counts *all = ctx;
    atomic_fetch_add(&all->seen[index], 1);
    if (all->inner > 0)
        gsc_parallel_run(all->inner, count_inner, &all->inner_seen);
}

static bool each_once(size_t count, size_t inner)
{
    counts *all = calloc(1, sizeof *all);
    all->inner = inner;
    gsc_parallel_run(count, count_index, all);
    bool good = atomic_load(&all->inner_seen) == (int)(count * inner);
    for (size_t i = 0; i < MOST; i++)
        good = good && atomic_load(&all->seen[i]) == (i < count ? 1 : 0);
    free(all);
    return good;
}

/* rule 15.5 */
static void test_each_index_once(void **state)
{
    (void)state;
    const size_t lengths[] = {0, 1, 2, 3, 7, 100, MOST};
    for (int32_t threads = 0; threads <= 8; threads++) {
        gsc_set_num_threads(threads);
        for (int repeat = 0; repeat < 20; repeat++)
            for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++)
                assert_true(each_once(lengths[k], 0));
    }
    gsc_set_num_threads(0);
}

static void test_nested(void **state)
{
    (void)state;
    gsc_set_num_threads(3);
    assert_true(each_once(50, 20));
    gsc_set_num_threads(0);
}

static void *run_often(void *result)
{
    bool good = true;
    for (int i = 0; i < 200; i++)
        good = each_once(64, i % 3 == 0 ? 5 : 0) && good;
    *(bool *)result = good;
    return NULL;
}

static void test_two_threads_at_once(void **state)
{
    (void)state;
    gsc_set_num_threads(4);
    pthread_t thread;
    bool one = false, other = false;
    assert_int_equal(pthread_create(&thread, NULL, run_often, &other), 0);
    run_often(&one);
    pthread_join(thread, NULL);
    gsc_set_num_threads(0);
    assert_true(one);
    assert_true(other);
}

static void *change_threads(void *stop)
{
    for (int32_t n = 1; !atomic_load((atomic_bool *)stop); n = n % 6 + 1) {
        gsc_set_num_threads(n);
        sched_yield();
    }
    return NULL;
}

static void test_changing_the_number_meanwhile(void **state)
{
    (void)state;
    pthread_t thread;
    atomic_bool stop = false;
    bool good = false;
    assert_int_equal(pthread_create(&thread, NULL, change_threads, &stop), 0);
    run_often(&good);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    gsc_set_num_threads(0);
    assert_true(good);
}

static void test_negative_number_changes_nothing(void **state)
{
    (void)state;
    gsc_set_num_threads(-3);
    assert_message("-3");
    assert_true(each_once(10, 0));
}

static void assert_child_success(int (*child)(void))
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(child());
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int run_in_child(void)
{
    alarm(20); /* a deadlock ends the program */
    return each_once(MOST, 0) && each_once(10, 10) ? 0 : 1;
}

static void test_after_fork(void **state)
{
    (void)state;
    gsc_set_num_threads(4);
    assert_true(each_once(MOST, 0));
    assert_child_success(run_in_child);
    assert_true(each_once(MOST, 0));
    gsc_set_num_threads(0);
}

static void fork_inside(void *ctx, size_t index)
{
    if (index == 0)
        assert_child_success(run_in_child);
    count_index(ctx, index);
}

static void test_fork_inside_a_loop(void **state)
{
    (void)state;
    gsc_set_num_threads(2);
    counts *all = calloc(1, sizeof *all);
    gsc_parallel_run(5, fork_inside, all);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(atomic_load(&all->seen[i]), 1);
    free(all);
    gsc_set_num_threads(0);
}

static void run_backwards(void *host, size_t count, gsc_task *task, void *ctx)
{
    atomic_fetch_add((atomic_int *)host, 1);
    for (size_t i = count; i-- > 0;)
        task(ctx, i);
}

/* rule 15.5 */
static void test_host_loop(void **state)
{
    (void)state;
    atomic_int calls = 0;
    gsc_set_parallel_for(run_backwards, &calls);
    assert_true(each_once(17, 0));
    assert_int_equal(atomic_load(&calls), 1);
    gsc_set_parallel_for(NULL, NULL);
    assert_true(each_once(17, 0));
    assert_int_equal(atomic_load(&calls), 1);
}

static void run_late(void)
{
    alarm(20);
    if (!each_once(MOST, 0))
        _exit(1);
}

/* The pool's own end is a destructor of the library; functions registered before it run after it. */
__attribute__((destructor(101))) static void last_destructor(void) { run_late(); }

static int exit_normally(void) { exit(each_once(MOST, 0) ? 0 : 1); }

static void test_loops_after_the_pools_end(void **state)
{
    (void)state;
    if (UNDER_THREAD_SANITIZER)
        SKIP_BECAUSE("ThreadSanitizer does not follow threads that start after a fork");
    gsc_set_num_threads(3);
    assert_child_success(exit_normally);
    gsc_set_num_threads(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_index_once),
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_two_threads_at_once),
        cmocka_unit_test(test_changing_the_number_meanwhile),
        cmocka_unit_test(test_negative_number_changes_nothing),
        cmocka_unit_test(test_after_fork),
        cmocka_unit_test(test_fork_inside_a_loop),
        cmocka_unit_test(test_host_loop),
        cmocka_unit_test(test_loops_after_the_pools_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
