/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 15: scalers are independent: each on its thread, with tensors so large that both want the pool at once. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>

#include "rig.h"

enum { N = 1 << 17, ITERATIONS = 12 };

typedef struct trainer {
    int index;
    float *grads;
    double norms[ITERATIONS], scales[ITERATIONS];
    int failures;
    char message[256];
} trainer;

static void *train(void *argument)
{
    trainer *t = argument;
    gsc_scaler_options options = options_of(t->index == 0 ? 8 : 1024, 2);
    gsc_scaler *scaler = NULL;
    t->failures += gsc_scaler_create(&options, &scaler) != GSC_OK;
    fake_optimizer optimizer;
    fake_init(&optimizer);
    fake_add(&optimizer, GSC_FLOAT32, NULL, t->grads, N, t->index == 0 ? "first" : "second");
    for (int i = 0; i < ITERATIONS; i++) {
        for (int j = 0; j < N; j++)
            t->grads[j] = (float)((j * 7 + i) % 1000);
        if (i % 5 == 4)
            t->grads[N / 2] = INFINITY;
        DLTensor grads = optimizer.params[0].grad;
        t->failures += gsc_scaler_scale(scaler, &grads, &grads) != GSC_OK;
        t->failures += gsc_scaler_clip_grad_norm(scaler, &optimizer.base, 1, 2, &t->norms[i]) != GSC_OK;
        t->failures += gsc_scaler_step(scaler, &optimizer.base, NULL, NULL) != GSC_OK;
        t->failures += gsc_scaler_update(scaler) != GSC_OK;
        t->failures += gsc_scaler_set_growth_factor(scaler, t->index == 0 ? 0.5 : -3) != GSC_ERR_VALUE;
        t->scales[i] = gsc_scaler_get_scale(scaler);
    }
    snprintf(t->message, sizeof t->message, "%s", gsc_last_error());
    gsc_scaler_destroy(scaler);
    return NULL;
}

/* rule 15.1, 15.2 */
static void test_two_scalers_in_two_threads(void **state)
{
    (void)state;
    gsc_set_num_threads(4); /* the pool is shared on a single core too */
    trainer together[2] = {{.index = 0}, {.index = 1}}, alone[2] = {{.index = 0}, {.index = 1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        together[i].grads = calloc(N, sizeof(float));
        alone[i].grads = calloc(N, sizeof(float));
        assert_non_null(together[i].grads);
        assert_non_null(alone[i].grads);
        train(&alone[i]);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, train, &together[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(alone[i].failures + together[i].failures, 0);
        assert_memory_equal(together[i].grads, alone[i].grads, N * sizeof(float));
        assert_memory_equal(together[i].norms, alone[i].norms, sizeof alone[i].norms);
        assert_memory_equal(together[i].scales, alone[i].scales, sizeof alone[i].scales);
        free(together[i].grads);
        free(alone[i].grads);
    }
    assert_non_null(strstr(together[0].message, "0.5")); /* each thread has its own message */
    assert_non_null(strstr(together[1].message, "-3"));
}

/* One scaler moves from thread to thread, one at a time. */
static void *iterate_once(void *argument)
{
    rig *r = argument;
    r->grad = 8;
    return gsc_scaler_step(r->scaler, &r->optimizer.base, NULL, NULL) == GSC_OK &&
                   gsc_scaler_update(r->scaler) == GSC_OK
               ? argument
               : NULL;
}

/* rule 15.1 */
static void test_a_scaler_may_change_its_thread(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        void *done = NULL;
        assert_int_equal(pthread_create(&thread, NULL, iterate_once, &r), 0);
        pthread_join(thread, &done);
        assert_ptr_equal(done, &r);
    }
    assert_exact(gsc_scaler_get_scale(r.scaler), 16);
    rig_stop(&r);
}

static gsc_status no_step(void *ctx)
{
    (void)ctx;
    return GSC_OK;
}

static size_t loops; /* that were asked for */

static void counting_loop(void *host, size_t count, gsc_task *task, void *ctx)
{
    (void)host;
    loops++;
    for (size_t i = 0; i < count; i++)
        task(ctx, i);
}

/* Rule 15: waking a thread costs more than some ten thousand elements, in one tensor or in a thousand. */
/* rule 15.5 */
static void test_little_work_asks_no_thread(void **state)
{
    (void)state;
    enum { LITTLE = 65535, EACH = 60 };
    float *data = calloc(2 * LITTLE, sizeof *data);
    assert_non_null(data);
    gsc_buffer buffers[LITTLE / EACH];
    for (size_t i = 0; i < LITTLE / EACH; i++)
        buffers[i] = (gsc_buffer){data + 2 * i * EACH, EACH, GSC_FLOAT32, NULL};
    const gsc_buffer little = {data, LITTLE, GSC_FLOAT32, NULL}, much = {data, LITTLE + 1, GSC_FLOAT32, NULL};
    gsc_set_parallel_for(counting_loop, NULL);
    for (int k = 0; k < 3; k++) {
        const gsc_buffer *list = k == 0 ? buffers : k == 1 ? &little : &much;
        size_t n = k == 0 ? LITTLE / EACH : 1;
        gsc_optimizer *optimizer;
        assert_ok(gsc_optimizer_from_buffers(list, n, no_step, NULL, &optimizer));
        gsc_scaler *scaler;
        assert_ok(gsc_scaler_create(NULL, &scaler));
        loops = 0;
        double norm;
        assert_ok(gsc_scaler_unscale(scaler, optimizer));
        assert_ok(gsc_scaler_clip_grad_norm(scaler, optimizer, 1, 2, &norm));
        assert_ok(gsc_scaler_step(scaler, optimizer, NULL, NULL));
        assert_ok(gsc_scaler_update(scaler));
        if (k < 2)
            assert_int_equal(loops, 0);
        else
            assert_true(loops > 0);
        gsc_scaler_destroy(scaler);
        gsc_optimizer_free(optimizer);
    }
    gsc_set_parallel_for(NULL, NULL);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_scalers_in_two_threads),
        cmocka_unit_test(test_a_scaler_may_change_its_thread),
        cmocka_unit_test(test_little_work_asks_no_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
