/* SPDX-License-Identifier: Apache-2.0 */
/* A child of a fork computes products, whatever oneDNN was doing in the parent's other threads at that moment. */
#define _POSIX_C_SOURCE 200809L /* fork, nanosleep */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "gradscaler/status.h"
#include "skipped.h"
#include "tape_rig.h"

/* gcc 12's AddressSanitizer does not take its allocator's locks at a fork: a child may wait for one for ever. */
#if defined(__SANITIZE_ADDRESS__)
#define ALLOCATOR_FORKS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ALLOCATOR_FORKS 0
#endif
#endif
#ifndef ALLOCATOR_FORKS
#define ALLOCATOR_FORKS 1
#endif

enum { FORKS = 60, THREADS = 2, SIZES = 90, COLUMNS = 40, SECONDS = 10 };

static atomic_bool stop;
static atomic_int newest; /* the number of the latest product of a thread */

/* [rows, k] times [k, COLUMNS], all ones, in bfloat16. Shapes come again after SIZES^2 numbers only, long after oneDNN
 * has forgotten them. */
static bool product_is_right(int number)
{
    int64_t rows = 1 + number % SIZES, k = 1 + number / SIZES % SIZES;
    gsc_tape *tape = NULL;
    gsc_tensor *a = NULL, *b = NULL;
    bool right = gsc_tape_create(&tape) == GSC_OK && gsc_tensor_create(GSC_BFLOAT16, SHAPE(rows, k), &a) == GSC_OK &&
                 gsc_tensor_create(GSC_BFLOAT16, SHAPE(k, COLUMNS), &b) == GSC_OK;
    for (int64_t i = 0; right && i < rows * k; i++)
        element_set(gsc_tensor_data(a), (size_t)i, 1);
    for (int64_t i = 0; right && i < k * COLUMNS; i++)
        element_set(gsc_tensor_data(b), (size_t)i, 1);
    gsc_tensor *c =
        right ? gsc_matmul(gsc_tape_input(tape, gsc_tensor_data(a)), gsc_tape_input(tape, gsc_tensor_data(b))) : NULL;
    right = c != NULL;
    for (int64_t i = 0; right && i < rows * COLUMNS; i++)
        right = element(c, (size_t)i) == (double)k;
    gsc_tensor_free(a);
    gsc_tensor_free(b);
    gsc_tape_free(tape);
    return right;
}

static void *make_products(void *unused)
{
    while (!atomic_load(&stop))
        if (!product_is_right(atomic_fetch_add(&newest, 1)))
            return unused;
    return NULL;
}

/* The products that the other threads may have been making, and the next ones. */
static void run_child(void)
{
    int number = atomic_load(&newest);
    for (int i = number < THREADS ? 0 : number - THREADS; i < number + THREADS; i++)
        if (!product_is_right(i))
            _exit(1);
    _exit(0);
}

/* The child's wait status. A child that takes too long is killed; the signals that it could set a timer for are blocked
 * inside oneDNN. */
static int wait_for(pid_t child)
{
    const struct timespec moment = {.tv_nsec = 2000000};
    int status = 0;
    time_t end = time(NULL) + SECONDS;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (time(NULL) > end)
            kill(child, SIGKILL);
        nanosleep(&moment, NULL);
    }
    return status;
}

/* trial T35 */
static void a_child_computes_whatever_other_threads_did(void **state)
{
    (void)state;
    if (!ALLOCATOR_FORKS)
        SKIP_BECAUSE("AddressSanitizer's allocator may hang in a child");
    pthread_t threads[THREADS];
    int failed;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, make_products, &failed), 0);
    int status = 0;
    for (int i = 0; i < FORKS && status == 0; i++) {
        pid_t child = fork();
        if (child == 0)
            run_child();
        status = child < 0 ? -1 : wait_for(child);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_child_computes_whatever_other_threads_did)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
