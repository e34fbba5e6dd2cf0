/* SPDX-License-Identifier: Apache-2.0 */
/* Signal handlers, of profilers say, that run while products are computed: oneDNN's code for x86-64 may then have the
 * stack pointer in the heap. */
#define _XOPEN_SOURCE 700 /* setitimer */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "gradscaler/status.h"
#include "tape_rig.h"

enum { ROUNDS = 150, BATCH = 50, IN = 784, OUT = 512, MICROSECONDS = 50 };

static volatile sig_atomic_t ticks;

static void tick(int number)
{
    (void)number;
    ticks = ticks + 1;
}

static void set_timer(long microseconds)
{
    const struct itimerval timer = {.it_interval = {0, microseconds}, .it_value = {0, microseconds}};
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

static void add_gradients(const DLTensor *x, gsc_tensor *weight)
{
    gsc_tape *tape = new_tape();
    gsc_tensor *loss = gsc_mean(gsc_linear(gsc_tape_input(tape, x), weight, NULL));
    assert_non_null(loss);
    assert_ok(gsc_tape_backward(tape, loss));
    gsc_tape_free(tape);
}

static void fill(gsc_tensor *tensor, unsigned seed)
{
    float *values = gsc_tensor_data(tensor)->data;
    for (size_t i = 0; i < gsc_tensor_count(tensor); i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 24) / 256.0f;
    }
}

static void gradients_under_signals(int threads, long microseconds, float *out)
{
    gsc_set_num_threads(threads);
    gsc_tensor *x = new_tensor(GSC_FLOAT32, SHAPE(BATCH, IN), NULL);
    gsc_tensor *weight = new_parameter(GSC_FLOAT32, SHAPE(OUT, IN), NULL);
    fill(x, 1);
    fill(weight, 2);
    set_timer(microseconds);
    for (int i = 0; i < ROUNDS; i++)
        add_gradients(gsc_tensor_data(x), weight);
    set_timer(0);
    memcpy(out, gsc_tensor_grad(weight)->data, sizeof(float[OUT * IN]));
    gsc_tensor_free(weight);
    gsc_tensor_free(x);
}

static void test_handlers_do_no_harm(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    float *calm = malloc(sizeof(float[OUT * IN])), *disturbed = malloc(sizeof(float[OUT * IN]));
    assert_true(calm && disturbed);
    gradients_under_signals(1, 0, calm);
    for (int threads = 1; threads <= 2; threads++) {
        const sig_atomic_t before = ticks;
        gradients_under_signals(threads, MICROSECONDS, disturbed);
        assert_true(ticks - before >= ROUNDS / 2); /* they are not held back for ever */
        assert_memory_equal(calm, disturbed, sizeof(float[OUT * IN]));
    }
    free(disturbed);
    free(calm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_handlers_do_no_harm)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
