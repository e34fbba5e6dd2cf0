/* SPDX-License-Identifier: Apache-2.0 */
/* The thread pool: a task runs once for every index, from every kind of caller. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
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

/* The threads of this process but the calling one: how often each has given up a processor of its own accord, which a
 * thread does when it goes to sleep. Returns how many threads there are; -1 without /proc. asleep: how many sleep. */
enum { MOST_LISTED = 128 };
typedef struct sleeper {
    long id, sleeps;
} sleeper;

static void read_status(long id, sleeper *out, int *asleep)
{
    char path[64], line[256], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%ld/status", id);
    *out = (sleeper){.id = id};
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        (void)sscanf(line, "State: %c", &state);
        (void)sscanf(line, "voluntary_ctxt_switches: %ld", &out->sleeps);
    }
    if (file)
        fclose(file);
    *asleep += state == 'S';
}

static int list_sleepers(sleeper out[MOST_LISTED], int *asleep)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    *asleep = 0;
    if (!folder)
        return -1;
    for (const struct dirent *entry; count < MOST_LISTED && (entry = readdir(folder));) {
        long id = strtol(entry->d_name, NULL, 10);
        if (id > 0 && id != (long)getpid())
            read_status(id, &out[count++], asleep);
    }
    closedir(folder);
    return count;
}

/* A list is no snapshot: all sleep if two in a row are alike. Returns how many there are. */
static int wait_until_all_sleep(sleeper out[MOST_LISTED])
{
    static sleeper previous[MOST_LISTED];
    for (bool all_slept = false;; nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL)) {
        int asleep, count = list_sleepers(out, &asleep);
        if (count < 0)
            return count;
        if (all_slept && asleep == count && memcmp(previous, out, (size_t)count * sizeof *out) == 0)
            return count;
        all_slept = asleep == count;
        memcpy(previous, out, (size_t)count * sizeof *out);
    }
}

/* trial T36 */
static void test_threads_beyond_the_number_sleep_on(void **state)
{
    (void)state;
    enum { THREADS = 64, LOOPS = 50, SPARE = 2 /* of a sanitizer */ };
    static sleeper before[MOST_LISTED], after[MOST_LISTED];
    gsc_set_num_threads(THREADS);
    assert_true(each_once(MOST, 0)); /* starts them */
    int count = wait_until_all_sleep(before);
    if (count < 0)
        SKIP_BECAUSE("there is no /proc");
    assert_true(count >= THREADS - 1);
    gsc_set_num_threads(2);
    for (int i = 0; i < LOOPS; i++) {
        assert_true(each_once(MOST, 0));
        (void)wait_until_all_sleep(after);
    }
    gsc_set_num_threads(0);
    int woken = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++)
            woken += before[i].id == after[k].id && before[i].sleeps != after[k].sleeps;
    assert_in_range(woken, 0, 1 + SPARE);
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
        cmocka_unit_test(test_threads_beyond_the_number_sleep_on),
        cmocka_unit_test(test_loops_after_the_pools_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
