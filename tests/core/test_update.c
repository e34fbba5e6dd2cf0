/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 8: update and update_to: what counts, what is kept and what is refused. */

#include "rig.h"

/* rule 8.1, 8.2 */
static void test_growth_and_backoff(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(4, 2);
    options.backoff_factor = 0.25;
    rig r;
    rig_start_with(&r, &options);
    assert_schedule(&r, 4, 0);
    rig_iterate(&r, 1);
    assert_schedule(&r, 4, 1);
    rig_iterate(&r, 1);
    assert_schedule(&r, 8, 0);
    rig_iterate(&r, 1);
    assert_schedule(&r, 8, 1);
    rig_iterate(&r, INFINITY);
    assert_schedule(&r, 2, 0);
    rig_stop(&r);
}

/* The scale changes at update, not before. */
/* rule 8.2, case 66 */
static void test_the_scale_is_frozen_until_update(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(4, 1);
    rig r;
    rig_start_with(&r, &options);
    rig_step(&r, INFINITY);
    assert_exact(gsc_scaler_get_scale(r.scaler), 4);
    assert_ok(gsc_scaler_update(r.scaler));
    assert_exact(gsc_scaler_get_scale(r.scaler), 2);
    rig_step(&r, 1);
    assert_exact(gsc_scaler_get_scale(r.scaler), 2);
    assert_ok(gsc_scaler_update(r.scaler));
    assert_exact(gsc_scaler_get_scale(r.scaler), 4);
    rig_stop(&r);
}

/* rule 8.5, conformance P */
static void test_nothing_recorded(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(4, 1);
    rig r;
    rig_start_with(&r, &options);
    assert_fails(GSC_ERR_STATE, gsc_scaler_update(r.scaler));
    assert_message("update");
    assert_schedule(&r, 4, 0);
    rig_iterate(&r, 1);
    assert_fails(GSC_ERR_STATE, gsc_scaler_update(r.scaler));
    assert_schedule(&r, 8, 0);
    assert_int_equal(stats_of(r.scaler).updates, 1);
    rig_stop(&r);
}

/* rule 8.2 */
static void test_unscale_alone_counts(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 4);
    r.grad = 4;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_schedule(&r, 4, 1);
    r.grad = NAN;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_schedule(&r, 2, 0);
    rig_stop(&r);
}

/* rule 8.4 */
static void test_without_gradients_nothing_moves(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 4);
    rig_iterate(&r, 4);
    r.optimizer.params[0].absent = true;
    for (int i = 0; i < 5; i++)
        assert_int_equal(rig_iterate(&r, 4), GSC_NO_GRADS);
    assert_schedule(&r, 4, 1);
    r.optimizer.params[0].absent = false;
    rig_iterate(&r, 4);
    assert_schedule(&r, 8, 0);
    rig_stop(&r);
}

/* rule 8.4 */
static void test_skipped_by_the_user(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 4);
    rig_iterate(&r, 4);
    for (int i = 0; i < 3; i++) { /* before being unscaled: neither growth nor backoff */
        r.grad = INFINITY;
        assert_ok(gsc_scaler_skip(r.scaler, &r.optimizer.base));
        assert_ok(gsc_scaler_update(r.scaler));
        assert_schedule(&r, 4, 1);
    }
    r.grad = INFINITY; /* after it: what was checked counts */
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_skip(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_schedule(&r, 2, 0);
    r.grad = 2;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_skip(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_schedule(&r, 2, 1);
    assert_int_equal(r.optimizer.steps, 1);
    rig_stop(&r);
}

/* rule 8.4 */
static void test_a_gradless_optimizer_beside_another(void **state)
{
    (void)state;
    rig a, b;
    rig_start(&a, 4);
    rig_start(&b, 4);
    b.optimizer.params[0].absent = true;
    a.grad = 4;
    assert_ok(gsc_scaler_step(a.scaler, &a.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_step(a.scaler, &b.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(a.scaler));
    assert_schedule(&a, 4, 1);
    a.grad = INFINITY;
    assert_ok(gsc_scaler_step(a.scaler, &b.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_step(a.scaler, &a.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(a.scaler));
    assert_schedule(&a, 2, 0);
    rig_stop(&a);
    rig_stop(&b);
}

/* rule 8.2 */
static void test_record(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 4);
    r.grad = 7;
    assert_ok(gsc_scaler_record(r.scaler, &r.optimizer.base, false));
    assert_exact((double)r.grad, 7); /* the caller unscaled it */
    assert_ok(gsc_scaler_update(r.scaler));
    assert_schedule(&r, 4, 1);
    assert_ok(gsc_scaler_record(r.scaler, &r.optimizer.base, true));
    assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    gsc_step_result result;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    assert_int_equal(r.optimizer.steps, 0);
    assert_ok(gsc_scaler_update(r.scaler));
    assert_schedule(&r, 2, 0);
    rig_stop(&r);
}

/* rule 8.6 */
static void test_update_to(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(4, 3);
    rig r;
    rig_start_with(&r, &options);
    rig_iterate(&r, 1);
    rig_iterate(&r, 1);
    assert_ok(gsc_scaler_update_to(r.scaler, 8)); /* without anything recorded; the tracker is kept */
    assert_schedule(&r, 8, 2);
    rig_iterate(&r, 1);
    assert_schedule(&r, 16, 0);
    rig_step(&r, INFINITY); /* a pending overflow is forgotten */
    assert_ok(gsc_scaler_update_to(r.scaler, 8));
    assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    assert_fails(GSC_ERR_STATE, gsc_scaler_update(r.scaler));
    rig_iterate(&r, 1);
    assert_schedule(&r, 8, 1);
    assert_ok(gsc_scaler_update_to(r.scaler, 0.1));
    assert_schedule(&r, (double)0.1f, 1);
    rig_stop(&r);
}

/* rule 1.1, 8.6 */
static void test_a_refused_update_to_changes_nothing(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 4);
    rig_step(&r, INFINITY);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to(r.scaler, -1));
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_STEPPED);
    assert_ok(gsc_scaler_update(r.scaler)); /* the overflow is still pending */
    assert_schedule(&r, 2, 0);
    rig_stop(&r);
}

/* rule 8.6, conformance E */
static void test_update_to_tensor(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 4);
    float narrow[2] = {77, 5};
    double wide = 123;
    int64_t one = 1, two = 2, ones[] = {1, 1, 1}, none = 0;
    DLTensor tensor = tensor_of(GSC_FLOAT32, narrow, NULL);
    assert_ok(gsc_scaler_update_to_tensor(r.scaler, &tensor));
    narrow[0] = 1; /* the value was copied */
    assert_schedule(&r, 77, 0);
    tensor = tensor_of(GSC_FLOAT64, &wide, &one);
    assert_ok(gsc_scaler_update_to_tensor(r.scaler, &tensor));
    assert_schedule(&r, 123, 0);
    uint16_t half = to_fp16(96);
    tensor = tensor_of(GSC_FLOAT16, &half, NULL);
    assert_ok(gsc_scaler_update_to_tensor(r.scaler, &tensor));
    assert_schedule(&r, 96, 0);
    half = to_bf16(48);
    tensor.dtype = GSC_BFLOAT16;
    assert_ok(gsc_scaler_update_to_tensor(r.scaler, &tensor));
    assert_schedule(&r, 48, 0);
    tensor = tensor_of(GSC_FLOAT32, narrow, ones);
    tensor.ndim = 3;
    tensor.byte_offset = 4;
    assert_ok(gsc_scaler_update_to_tensor(r.scaler, &tensor));
    assert_schedule(&r, 5, 0);

    tensor = tensor_of(GSC_FLOAT32, narrow, &two);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to_tensor(r.scaler, &tensor));
    assert_message("gsc_scaler_update_to_tensor: new_scale has 2 elements");
    tensor = tensor_of(GSC_FLOAT32, narrow, &none);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to_tensor(r.scaler, &tensor));
    assert_message("new_scale has 0 elements");
    tensor = tensor_of(GSC_FLOAT32, NULL, NULL);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to_tensor(r.scaler, &tensor));
    tensor = tensor_of((DLDataType){kDLInt, 32, 1}, narrow, NULL);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to_tensor(r.scaler, &tensor));
    assert_message("gsc_scaler_update_to_tensor: new_scale has dtype int32");
    tensor = tensor_of(GSC_FLOAT32, narrow, NULL);
    tensor.device.device_type = kDLCUDA;
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_update_to_tensor(r.scaler, &tensor));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to_tensor(r.scaler, NULL));
    assert_schedule(&r, 5, 0);
    rig_stop(&r);
}

/* rule 1.5 */
static void test_counters(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    rig_iterate(&r, 1);
    rig_iterate(&r, 1);        /* growth */
    rig_iterate(&r, INFINITY); /* backoff */
    rig_iterate(&r, NAN);      /* backoff */
    gsc_scaler_stats stats = stats_of(r.scaler);
    assert_int_equal(stats.updates, 4);
    assert_int_equal(stats.steps, 2);
    assert_int_equal(stats.skipped_steps, 2);
    assert_int_equal(stats.growths, 1);
    assert_int_equal(stats.backoffs, 2);
    assert_int_equal(stats.consecutive_skips, 2);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(stats.reserved[i], 0);
    r.optimizer.params[0].absent = true;
    rig_iterate(&r, 0); /* outcome NO_GRADS is no STEPPED */
    assert_int_equal(stats_of(r.scaler).steps, 2);
    rig_stop(&r);
}

/* case 18 */
static void test_a_scale_of_the_users(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(4, 3);
    rig r;
    rig_start_with(&r, &options);
    rig_iterate(&r, 1);
    rig_iterate(&r, 1);
    assert_ok(gsc_scaler_update_to(r.scaler, 8));
    rig_iterate(&r, 1);
    assert_exact(gsc_scaler_get_scale(r.scaler), 16); /* the tracker was kept */
    rig_step(&r, INFINITY);
    assert_ok(gsc_scaler_update_to(r.scaler, 8));
    rig_iterate(&r, 1);
    assert_exact(gsc_scaler_get_scale(r.scaler), 8); /* the overflow was forgotten */
    rig_stop(&r);
}

/* case 35 */
static void test_update_with_nothing_checked(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(8, 1);
    rig r;
    rig_start_with(&r, &options);
    for (int i = 0; i < 3; i++)
        assert_fails(GSC_ERR_STATE, gsc_scaler_update(r.scaler));
    assert_exact(gsc_scaler_get_scale(r.scaler), 8);
    rig_stop(&r);
}

/* case 41 */
static void test_unscaled_but_never_stepped(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    r.grad = INFINITY;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base)); /* a caller that steps without the scaler can ask */
    assert_ok(gsc_scaler_update(r.scaler));
    assert_exact(gsc_scaler_get_scale(r.scaler), 4);
    assert_int_equal(stats_of(r.scaler).steps, 0); /* and the counters show it */
    rig_stop(&r);
}

/* case 66, 68, conformance I */
static void test_accumulation(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(2, 1);
    rig r;
    rig_start_with(&r, &options);
    r.grad = 0;
    for (int micro = 0; micro < 2; micro++)
        r.grad += (float)gsc_scaler_get_scale(r.scaler); /* g = 1; the scale is frozen until update */
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_exact((double)r.grad, 2);
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(r.scaler));
    r.grad = 0;
    for (int micro = 0; micro < 4; micro++)
        r.grad += micro == 1 ? INFINITY : 4;
    assert_int_equal(rig_iterate(&r, r.grad), GSC_SKIPPED_OVERFLOW);
    assert_exact(gsc_scaler_get_scale(r.scaler), 2); /* once, not four times */
    assert_int_equal(state_of(r.scaler).growth_tracker, 0);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growth_and_backoff),
        cmocka_unit_test(test_the_scale_is_frozen_until_update),
        cmocka_unit_test(test_nothing_recorded),
        cmocka_unit_test(test_unscale_alone_counts),
        cmocka_unit_test(test_without_gradients_nothing_moves),
        cmocka_unit_test(test_skipped_by_the_user),
        cmocka_unit_test(test_a_gradless_optimizer_beside_another),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_update_to),
        cmocka_unit_test(test_a_refused_update_to_changes_nothing),
        cmocka_unit_test(test_update_to_tensor),
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_a_scale_of_the_users),
        cmocka_unit_test(test_update_with_nothing_checked),
        cmocka_unit_test(test_unscaled_but_never_stepped),
        cmocka_unit_test(test_accumulation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
