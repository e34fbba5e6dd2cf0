/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 6: callbacks that end their thread. test_exceptions.cpp throws C++'s exceptions from them. */
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <pthread.h>

#include "unwinding.h"

#include "asserts.h"

static bool completed;

/* By turns. */
static void leave(void)
{
    static int turn;
    if (turn++ % 2 != 0) {
        pthread_cancel(pthread_self());
        pthread_testcancel();
    }
    pthread_exit(NULL);
}

static void check_environment(void *unused)
{
    (void)unused;
    check(rounds_upward(), "the caller's floating-point environment");
}

static void *thread_main(void *argument)
{
    void (**body)(void) = argument;
    fesetround(FE_UPWARD);
    pthread_cleanup_push(check_environment, NULL);
    (*body)();
    completed = true;
    pthread_cleanup_pop(1);
    return NULL;
}

static bool run_left(void (*body)(void))
{
    pthread_t thread;
    completed = false;
    check(pthread_create(&thread, NULL, thread_main, &body) == 0, "pthread_create");
    pthread_join(thread, NULL);
    return !completed;
}

/* rule 6.8, trial T10 */
static void test_threads_that_end_in_a_callback(void **state)
{
    (void)state;
    unwinding_rounds(1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads_that_end_in_a_callback)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
