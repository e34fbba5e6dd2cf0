/* SPDX-License-Identifier: Apache-2.0 */
/* Several optimizers on one scaler. */

#include "rig.h"

/* case 36, 37 */
static void test_missing_gradients(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(65536, 1);
    rig none, some;
    rig_start_with(&none, &options);
    rig_start(&some, 1);
    float second = 65536, absent = 7;
    fake_add(&none.optimizer, GSC_FLOAT32, NULL, &absent, 1, "frozen")->absent = true;
    none.optimizer.params[0].absent = true;
    fake_add(&some.optimizer, GSC_FLOAT32, NULL, &second, 1, "second");
    some.optimizer.params[0].absent = true;
    some.grad = 7;
    assert_ok(gsc_scaler_unscale(none.scaler, &none.optimizer.base));
    gsc_step_result result;
    assert_ok(gsc_scaler_step(none.scaler, &none.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_NO_GRADS);
    double norm;
    assert_ok(gsc_scaler_clip_grad_norm(none.scaler, &some.optimizer.base, 100, 2, &norm));
    assert_exact(norm, 1);
    assert_exact((double)second, 1);
    assert_exact((double)some.grad, 7);
    assert_ok(gsc_scaler_step(none.scaler, &some.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_ok(gsc_scaler_update(none.scaler));
    assert_exact(gsc_scaler_get_scale(none.scaler), 131072); /* the other one's check counts */
    assert_exact((double)absent, 7);
    rig_stop(&none);
    rig_stop(&some);
}

/* case 39 */
static void test_one_update_an_iteration(void **state)
{
    (void)state;
    rig a, b;
    rig_start(&a, 8);
    rig_start(&b, 8);
    a.grad = b.grad = 8;
    assert_ok(gsc_scaler_step(a.scaler, &a.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_step(a.scaler, &b.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(a.scaler));
    assert_int_equal(state_of(a.scaler).growth_tracker, 1);
    /* Once per optimizer: each has its own check. */
    a.grad = b.grad = 8;
    assert_ok(gsc_scaler_step(a.scaler, &a.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(a.scaler));
    assert_exact(gsc_scaler_get_scale(a.scaler), 16);
    b.grad = NAN;
    assert_ok(gsc_scaler_step(a.scaler, &b.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(a.scaler));
    assert_exact(gsc_scaler_get_scale(a.scaler), 8);
    rig_stop(&a);
    rig_stop(&b);
}

/* 2 optimizers, the second overflows at the third of four iterations; the first is unscaled beforehand. */
/* conformance G, 96 */
static void test_one_of_two_is_unscaled_beforehand(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(128, 1);
    rig a, b;
    rig_start_with(&a, &options);
    rig_start(&b, 1);
    for (int i = 0; i < 4; i++) {
        float scaled = (float)gsc_scaler_get_scale(a.scaler);
        a.grad = scaled;
        b.grad = i == 2 ? INFINITY : scaled;
        assert_ok(gsc_scaler_unscale(a.scaler, &a.optimizer.base));
        assert_ok(gsc_scaler_step(a.scaler, &a.optimizer.base, NULL, NULL));
        assert_ok(gsc_scaler_step(a.scaler, &b.optimizer.base, NULL, NULL));
        assert_false(gsc_scaler_found_inf(a.scaler, &a.optimizer.base));
        assert_int_equal(gsc_scaler_found_inf(a.scaler, &b.optimizer.base), i == 2);
        assert_ok(gsc_scaler_update(a.scaler));
    }
    assert_int_equal(a.optimizer.steps, 4);
    assert_int_equal(b.optimizer.steps, 3);
    assert_exact(gsc_scaler_get_scale(a.scaler), 512);
    rig_stop(&a);
    rig_stop(&b);
}

/* case 40, conformance G, 98, 99, 100 */
static void test_no_flag_is_lost(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        for (int unscale_both = 0; unscale_both < 2; unscale_both++) {
            rig a, b;
            rig_start(&a, 4);
            rig_start(&b, 4);
            rig *const bad = order == 0 ? &a : &b, *const good = order == 0 ? &b : &a;
            bad->grad = INFINITY;
            good->grad = 4;
            if (unscale_both != 0) {
                assert_ok(gsc_scaler_unscale(a.scaler, &a.optimizer.base));
                assert_ok(gsc_scaler_unscale(a.scaler, &b.optimizer.base));
            }
            assert_ok(gsc_scaler_step(a.scaler, &a.optimizer.base, NULL, NULL));
            assert_ok(gsc_scaler_step(a.scaler, &b.optimizer.base, NULL, NULL));
            assert_exact((double)bad->param, 0);
            assert_exact((double)good->param, -1);
            assert_ok(gsc_scaler_update(a.scaler));
            assert_exact(gsc_scaler_get_scale(a.scaler), 2);
            assert_int_equal(state_of(a.scaler).growth_tracker, 0);
            rig_stop(&a);
            rig_stop(&b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_gradients),
        cmocka_unit_test(test_one_update_an_iteration),
        cmocka_unit_test(test_one_of_two_is_unscaled_beforehand),
        cmocka_unit_test(test_no_flag_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
