/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls wait for the device: the table of docs/gpu.md, row by row. */
#include "scaler_rig.h"

typedef struct waits {
    rig rig;
    float *in, *out;
    int64_t shape[1];
    DLTensor in_tensor, out_tensor;
    gsc_buffer buffer;
} waits;

/* One iteration has been made: what is allocated once is there. */
static void start(waits *w, bool scaled)
{
    rig_start(&w->rig, NULL);
    if (scaled)
        w->rig.optimizer.base.step_scaled = optimizer_step_scaled;
    device_grad *grad = add_grad(&w->rig.optimizer, 0, GSC_FLOAT32, 4, "a");
    fill_grad(&w->rig.optimizer, 0, 8);
    w->shape[0] = 4;
    w->in = standin_alloc(0, 4 * sizeof(float));
    w->out = standin_alloc(0, 4 * sizeof(float));
    w->in_tensor = (DLTensor){.data = w->in, .device = DEVICE, .ndim = 1, .dtype = GSC_FLOAT32, .shape = w->shape};
    w->out_tensor = w->in_tensor;
    w->out_tensor.data = w->out;
    w->buffer = (gsc_buffer){grad->tensor.data, 4, GSC_FLOAT32, "a"};
    assert_ok(gsc_scaler_step(w->rig.scaler, &w->rig.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(w->rig.scaler));
}

static void stop(waits *w)
{
    rig_stop(&w->rig);
    standin_free(w->in);
    standin_free(w->out);
}

static void test_no_wait(void **state)
{
    (void)state;
    waits w;
    start(&w, false);
    gsc_scaler *scaler = w.rig.scaler;
    const gsc_optimizer *optimizer = &w.rig.optimizer.base;
    DLTensor *const in[] = {&w.in_tensor}, *const out[] = {&w.out_tensor};
    DLTensor view;
    assert_waits(0, gsc_scaler_scale(scaler, &w.in_tensor, &w.out_tensor));
    assert_waits(0, gsc_scaler_scale_list(scaler, in, out, 1));
    assert_waits(0, gsc_scaler_scale_view(scaler, DEVICE, &view));
    assert_waits(0, gsc_scaler_unscale(scaler, optimizer));
    assert_waits(0, gsc_scaler_skip(scaler, optimizer));
    assert_waits(0, gsc_scaler_rearm(scaler, optimizer));
    assert_waits(0, gsc_scaler_record(scaler, optimizer, false));
    assert_waits(0, gsc_scaler_update(scaler));
    assert_waits(0, gsc_scaler_unscale(scaler, optimizer));
    assert_waits(0, gsc_scaler_update_to(scaler, 16));
    uint64_t before = standin_synchronisations();
    gsc_scaler_stats stats;
    (void)gsc_scaler_get_scale(scaler);
    gsc_scaler_get_stats(scaler, &stats);
    assert_int_equal(standin_synchronisations(), before);
    stop(&w);
}

static void test_scaled_step(void **state)
{
    (void)state;
    waits w;
    start(&w, true);
    const gsc_step_args clips[] = {{.clip_norm = 0}, {.clip_norm = 1}, {.clip_norm = 1, .clip_norm_type = 3}};
    for (size_t i = 0; i < sizeof clips / sizeof *clips; i++) {
        gsc_step_result result;
        assert_waits(0, gsc_scaler_step(w.rig.scaler, &w.rig.optimizer.base, &clips[i], &result));
        assert_int_equal(result.outcome, GSC_PENDING);
        assert_waits(0, gsc_scaler_update(w.rig.scaler));
        assert_ok(gsc_scaler_result(w.rig.scaler, &w.rig.optimizer.base, &result));
        assert_int_equal(result.outcome, GSC_STEPPED);
    }
    stop(&w);
}

static void test_once(void **state)
{
    (void)state;
    waits w;
    start(&w, false);
    gsc_scaler *scaler = w.rig.scaler;
    const gsc_optimizer *optimizer = &w.rig.optimizer.base;
    gsc_step_result result;
    double norm;
    bool found_inf;
    assert_waits(1, gsc_scaler_step(scaler, optimizer, NULL, &result));
    assert_waits(0, gsc_scaler_update(scaler));
    assert_waits(1, gsc_scaler_step_buffers(scaler, &w, &w.buffer, 1, NULL, &result));
    assert_waits(0, gsc_scaler_update(scaler));
    assert_waits(1, gsc_scaler_unscale_buffers(scaler, &w, &w.buffer, 1, &found_inf));
    assert_waits(0, gsc_scaler_update(scaler));
    assert_waits(0, gsc_scaler_unscale_buffers(scaler, &w, &w.buffer, 1, NULL));
    assert_waits(0, gsc_scaler_update(scaler));
    assert_waits(0, gsc_scaler_clip_grad_norm(scaler, optimizer, 1, 2, NULL));
    assert_waits(1, gsc_scaler_clip_grad_norm(scaler, optimizer, 1, 2, &norm));
    stop(&w);
}

static void test_waits(void **state)
{
    (void)state;
    waits w;
    start(&w, true);
    gsc_scaler *scaler = w.rig.scaler;
    const gsc_optimizer *optimizer = &w.rig.optimizer.base;
    gsc_step_result result;
    gsc_scaler_state saved;
    for (int call = 0; call < 5; call++) {
        assert_ok(gsc_scaler_step(scaler, optimizer, NULL, NULL));
        if (call >= 2)
            assert_ok(gsc_scaler_update(scaler));
        uint64_t before = standin_synchronisations();
        switch (call) {
        case 0: assert_ok(gsc_scaler_result(scaler, optimizer, &result)); break;
        case 1: assert_false(gsc_scaler_found_inf(scaler, optimizer)); break;
        case 2: assert_int_equal(gsc_scaler_overflows(scaler, optimizer, NULL, 0), 0); break;
        case 3: assert_ok(gsc_scaler_state_dict(scaler, &saved)); break;
        default: assert_ok(gsc_scaler_load_state_dict(scaler, &saved)); break;
        }
        assert_true(standin_synchronisations() > before);
        if (call < 2)
            assert_ok(gsc_scaler_update(scaler));
    }
    stop(&w);
}

static void test_cpu_gradients_wait(void **state)
{
    (void)state;
    waits w;
    start(&w, true);
    add_grad(&w.rig.optimizer, ON_CPU, GSC_FLOAT32, 4, "b");
    fill_grad(&w.rig.optimizer, 1, 8);
    assert_ok(gsc_scaler_step(w.rig.scaler, &w.rig.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(w.rig.scaler)); /* the scale after it is not here yet */
    uint64_t before = standin_synchronisations();
    assert_ok(gsc_scaler_unscale(w.rig.scaler, &w.rig.optimizer.base));
    assert_true(standin_synchronisations() > before);
    assert_exact(grad_at(&w.rig.optimizer, 1, 3), 8.0 / 8 / 16); /* by the step, and by this call after a growth */
    stop(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_wait), cmocka_unit_test(test_scaled_step),        cmocka_unit_test(test_once),
        cmocka_unit_test(test_waits),   cmocka_unit_test(test_cpu_gradients_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
