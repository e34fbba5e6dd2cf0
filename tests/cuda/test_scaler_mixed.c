/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients on several devices and on the CPU: one decision for all of them. */
#include "scaler_rig.h"

enum { HERE, THERE, HOST };

static void start(rig *r)
{
    rig_start(r, NULL);
    add_grad(&r->optimizer, 0, GSC_FLOAT32, 2, "here");
    add_grad(&r->optimizer, 1, GSC_FLOAT32, 3, "there");
    add_grad(&r->optimizer, ON_CPU, GSC_FLOAT64, 2, "host");
}

static void fill(rig *r, double here, double there, double host)
{
    fill_grad(&r->optimizer, HERE, here);
    fill_grad(&r->optimizer, THERE, there);
    fill_grad(&r->optimizer, HOST, host);
}

/* rule 17.6 */
static void all_are_unscaled_and_stepped_together(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    start(&r);
    r.optimizer.base.step_scaled = optimizer_step_scaled; /* its multiplier would be on one device alone */
    for (int i = 0; i < 3; i++) {
        fill(&r, 8, 16, 24);
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
        assert_int_equal(result.outcome, GSC_STEPPED);
        assert_exact(result.max_abs, i < 2 ? 3 : 1.5);
        assert_exact(grad_at(&r.optimizer, HERE, 1), i < 2 ? 1 : 0.5);
        assert_exact(grad_at(&r.optimizer, THERE, 2), i < 2 ? 2 : 1);
        assert_exact(grad_at(&r.optimizer, HOST, 1), i < 2 ? 3 : 1.5);
        assert_ok(gsc_scaler_update(r.scaler));
    }
    assert_int_equal(r.optimizer.steps, 3);
    assert_int_equal(r.optimizer.scaled_steps, 0);
    rig_stop(&r);
}

/* rule 17.6 */
static void an_overflow_anywhere_skips(void **state)
{
    (void)state;
    static const char *const names[] = {"here", "there", "host"};
    rig r;
    start(&r);
    for (int where = 0; where < 3; where++) {
        gsc_step_result result;
        gsc_overflow found[3];
        fill(&r, where == HERE ? (double)INFINITY : 8, where == THERE ? (double)NAN : 8,
             where == HOST ? (double)NAN : 8);
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
        assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
        assert_exact(result.max_abs, where == HERE ? (double)INFINITY : (double)NAN);
        assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, found, 3), 1);
        assert_int_equal(found[0].index, where);
        assert_string_equal(found[0].name, names[where]);
        assert_int_equal(found[0].inf_count + found[0].nan_count, where == THERE ? 3 : 2);
        assert_ok(gsc_scaler_update(r.scaler));
    }
    assert_exact(scale_of(r.scaler), 1);
    assert_int_equal(r.optimizer.steps, 0);
    rig_stop(&r);
}

static void a_report_is_in_the_order_of_the_gradients(void **state)
{
    (void)state;
    rig r;
    gsc_overflow found[5];
    start(&r);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "last");
    for (uint64_t repeats = 1; repeats < 4; repeats++) {
        fill(&r, 8, (double)INFINITY, (double)NAN);
        fill_grad(&r.optimizer, 3, (double)NAN);
        assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, found, 5), 3);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(found[i].index, i + 1);
            assert_string_equal(found[i].name, r.optimizer.grads[i + 1].name);
            assert_int_equal(found[i].repeats, repeats);
        }
        assert_ok(gsc_scaler_update(r.scaler));
    }
    rig_stop(&r);
}

static void iterate(rig *r)
{
    assert_ok(gsc_scaler_step(r->scaler, &r->optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(r->scaler));
}

static void a_report_stays_when_gradients_on_the_cpu_join(void **state)
{
    (void)state;
    rig r;
    gsc_overflow found[3];
    rig_start(&r, NULL);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "here");
    add_grad(&r.optimizer, ON_CPU, GSC_FLOAT32, 1, "host");
    fill_grad(&r.optimizer, 0, 8);
    fill_grad(&r.optimizer, 1, (double)INFINITY);
    iterate(&r);
    add_grad(&r.optimizer, ON_CPU, GSC_FLOAT32, 1, "joined");
    for (size_t i = 0; i < 3; i++)
        fill_grad(&r.optimizer, i, 8);
    iterate(&r);
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, found, 3), 1);
    assert_true(found[0].index == 1 && found[0].inf_count == 1 && found[0].repeats == 1);
    assert_string_equal(found[0].name, "host");
    rig_stop(&r);
}

/* Joined: another one on the CPU comes beside it. Else it moves there from the device. */
static void repeats_go_on(bool joined)
{
    rig r;
    gsc_overflow found[3];
    rig_start(&r, NULL);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "here");
    add_grad(&r.optimizer, joined ? ON_CPU : 0, GSC_FLOAT32, 1, "weight");
    fill_grad(&r.optimizer, 0, 8);
    for (int i = 0; i < 4; i++) {
        if (i == 2 && joined) {
            add_grad(&r.optimizer, ON_CPU, GSC_FLOAT32, 1, "joined");
            fill_grad(&r.optimizer, 2, 8);
        } else if (i == 2) {
            standin_run_all();
            standin_free(r.optimizer.grads[1].tensor.data);
            r.optimizer.count = 1;
            add_grad(&r.optimizer, ON_CPU, GSC_FLOAT32, 1, "weight");
        }
        fill_grad(&r.optimizer, 1, (double)INFINITY);
        iterate(&r);
    }
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, found, 3), 1);
    assert_int_equal(found[0].repeats, 4);
    fill_grad(&r.optimizer, 1, 8);
    iterate(&r);
    fill_grad(&r.optimizer, 1, (double)INFINITY);
    iterate(&r);
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, found, 3), 1);
    assert_int_equal(found[0].repeats, 1);
    rig_stop(&r);
}

static void repeats_go_on_wherever_gradients_are(void **state)
{
    (void)state;
    repeats_go_on(true);
    repeats_go_on(false);
}

static void norms_are_of_all(void **state)
{
    (void)state;
    static const struct {
        double p, norm;
    } cases[] = {{2, 13}, {1, 19}, {INFINITY, 12}, {3, 0}};
    for (size_t i = 0; i < 4; i++) {
        rig r;
        double norm;
        rig_start(&r, NULL);
        add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "here");
        add_grad(&r.optimizer, 1, GSC_FLOAT32, 1, "there");
        add_grad(&r.optimizer, ON_CPU, GSC_FLOAT32, 1, "host");
        fill(&r, 24, 32, 96); /* 3, 4, 12 */
        assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1, cases[i].p, &norm));
        const double expected = cases[i].norm > 0 ? cases[i].norm : pow(27.0 + 64.0 + 1728.0, 1.0 / 3.0);
        assert_true(fabs(norm - expected) < 1e-12 * expected);
        const float coefficient = (float)(1.0 / (norm + 1e-6));
        assert_exact(grad_at(&r.optimizer, HERE, 0), (double)(3.0f * coefficient));
        assert_exact(grad_at(&r.optimizer, THERE, 0), (double)(4.0f * coefficient));
        assert_exact(grad_at(&r.optimizer, HOST, 0), (double)(12.0f * coefficient));
        rig_stop(&r);
    }
}

static void a_step_clips_all(void **state)
{
    (void)state;
    for (int unscaled = 0; unscaled < 2; unscaled++) {
        rig r;
        gsc_step_result result;
        start(&r);
        fill(&r, 8, 8, 8);
        if (unscaled)
            assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &(gsc_step_args){.clip_norm = 1}, &result));
        assert_true(fabs(result.grad_norm - sqrt(7)) < 1e-12);
        assert_true(fabs(grad_at(&r.optimizer, HOST, 1) - 1 / sqrt(7)) < 1e-6);
        assert_true(fabs(grad_at(&r.optimizer, THERE, 2) - 1 / sqrt(7)) < 1e-6);
        rig_stop(&r);
    }
}

/* Where no gradient is on the CPU, other devices wait for nothing on the host. */
static void two_devices_wait_for_one_another_not_for_the_host(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, NULL);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 2, "here");
    add_grad(&r.optimizer, 1, GSC_FLOAT32, 3, "there");
    for (int i = 0; i < 3; i++) {
        fill_grad(&r.optimizer, HERE, 8);
        fill_grad(&r.optimizer, THERE, i == 1 ? (double)INFINITY : 8);
        assert_waits(0, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_waits(2, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL)); /* once for each device */
        assert_int_equal(r.optimizer.steps, i == 0 ? 1 : i);
        assert_ok(gsc_scaler_update(r.scaler));
    }
    rig_stop(&r);
}

static void a_gradient_may_move_to_another_device(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    start(&r);
    for (int i = 0; i < 4; i++) {
        r.optimizer.grads[i % 3].absent = true;
        fill(&r, 8, 8, 8);
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
        assert_int_equal(result.outcome, GSC_STEPPED);
        for (size_t g = 0; g < 3; g++)
            assert_exact(grad_at(&r.optimizer, g, 0), g == (size_t)i % 3 ? 8 : 1);
        r.optimizer.grads[i % 3].absent = false;
        assert_ok(gsc_scaler_update_to(r.scaler, 8));
    }
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_unscaled_and_stepped_together),
        cmocka_unit_test(an_overflow_anywhere_skips),
        cmocka_unit_test(a_report_is_in_the_order_of_the_gradients),
        cmocka_unit_test(a_report_stays_when_gradients_on_the_cpu_join),
        cmocka_unit_test(repeats_go_on_wherever_gradients_are),
        cmocka_unit_test(norms_are_of_all),
        cmocka_unit_test(a_step_clips_all),
        cmocka_unit_test(two_devices_wait_for_one_another_not_for_the_host),
        cmocka_unit_test(a_gradient_may_move_to_another_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
