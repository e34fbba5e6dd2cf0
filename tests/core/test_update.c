/* SPDX-License-Identifier: Apache-2.0 */
/* Rules 2 and 8: the schedule, its limits and its arithmetic. */
#include <float.h>

#include "rig.h"

static void expect_schedule(rig *r, double scale, int64_t tracker)
{
    assert_exact(gsc_scaler_get_scale(r->scaler), scale);
    gsc_scaler_state state = state_of(r->scaler);
    assert_exact(state.scale, scale);
    assert_int_equal(state.growth_tracker, tracker);
}

/* rule 8.1, 8.2 */
static void test_growth_and_backoff(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(4, 2);
    options.backoff_factor = 0.25;
    rig r;
    rig_start_with(&r, &options);
    expect_schedule(&r, 4, 0);
    rig_iterate(&r, 1);
    expect_schedule(&r, 4, 1);
    rig_iterate(&r, 1);
    expect_schedule(&r, 8, 0);
    rig_iterate(&r, 1);
    expect_schedule(&r, 8, 1);
    rig_iterate(&r, INFINITY);
    expect_schedule(&r, 2, 0);
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
    expect_schedule(&r, 4, 0);
    rig_iterate(&r, 1);
    assert_fails(GSC_ERR_STATE, gsc_scaler_update(r.scaler));
    expect_schedule(&r, 8, 0);
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
    expect_schedule(&r, 4, 1);
    r.grad = NAN;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_update(r.scaler));
    expect_schedule(&r, 2, 0);
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
    expect_schedule(&r, 4, 1);
    r.optimizer.params[0].absent = false;
    rig_iterate(&r, 4);
    expect_schedule(&r, 8, 0);
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
        expect_schedule(&r, 4, 1);
    }
    r.grad = INFINITY; /* after it: what was checked counts */
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_skip(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_update(r.scaler));
    expect_schedule(&r, 2, 0);
    r.grad = 2;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_skip(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_update(r.scaler));
    expect_schedule(&r, 2, 1);
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
    expect_schedule(&a, 4, 1);
    a.grad = INFINITY;
    assert_ok(gsc_scaler_step(a.scaler, &b.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_step(a.scaler, &a.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(a.scaler));
    expect_schedule(&a, 2, 0);
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
    expect_schedule(&r, 4, 1);
    assert_ok(gsc_scaler_record(r.scaler, &r.optimizer.base, true));
    assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    gsc_step_result result;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    assert_int_equal(r.optimizer.steps, 0);
    assert_ok(gsc_scaler_update(r.scaler));
    expect_schedule(&r, 2, 0);
    rig_stop(&r);
}

/* rule 8.2, conformance E */
static void test_tracker_at_or_past_the_interval(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(1024, 100);
    rig r;
    rig_start_with(&r, &options);
    for (int i = 0; i < 7; i++)
        rig_iterate(&r, 1);
    expect_schedule(&r, 1024, 7);
    assert_ok(gsc_scaler_set_growth_interval(r.scaler, 5)); /* already passed */
    rig_iterate(&r, 1);
    expect_schedule(&r, 2048, 0);
    rig_stop(&r);
}

/* rule 2.2 */
static void test_tracker_is_64_bits_wide(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    gsc_scaler_state saved = state_of(r.scaler);
    saved.growth_interval = ((int64_t)1 << 40) + 3;
    saved.growth_tracker = ((int64_t)1 << 40) + 1;
    assert_ok(gsc_scaler_load_state_dict(r.scaler, &saved));
    rig_iterate(&r, 1);
    expect_schedule(&r, 8, ((int64_t)1 << 40) + 2);
    rig_iterate(&r, 1);
    expect_schedule(&r, 16, 0);
    rig_stop(&r);
}

/* scale x factor in double, rounded once: the float32 product of a float32 factor would differ in most of these. */
/* rule 2.3 */
static void test_arithmetic_of_the_scale(void **state)
{
    (void)state;
    const struct {
        double scale, factor, expected;
    } cases[] = {
        {3, 0.1, 0.30000001192092896},
        {3, 0.9, 2.7000000476837158},
        {7, 0.9, 6.3000001907348633},
        {100, 0.3, 30},
        {3, 1.1, 3.2999999523162842},
        {3, 1.7, 5.0999999046325684},
        {7, 1.2, 8.3999996185302734},
        {100, 1.2, 120},
        {65536, 2, 131072},
        {65536, 0.5, 32768},
        {3, 2, 6},
        {0x1p-126, 2, 0x1p-125},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gsc_scaler_options options = options_of(cases[i].scale, 1);
        if (cases[i].factor > 1)
            options.growth_factor = cases[i].factor;
        else
            options.backoff_factor = cases[i].factor;
        rig r;
        rig_start_with(&r, &options);
        rig_iterate(&r, cases[i].factor > 1 ? 1 : INFINITY);
        assert_exact(gsc_scaler_get_scale(r.scaler), cases[i].expected);
        rig_stop(&r);
    }
}

/* rule 2.1 */
static void test_every_value_of_the_walk_is_a_float(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(65536, 1);
    options.growth_factor = 1.1;
    options.backoff_factor = 0.7;
    rig r;
    rig_start_with(&r, &options);
    float expected = 65536;
    for (int i = 0; i < 200; i++) {
        bool overflow = i * i % 5 == 1;
        rig_iterate(&r, overflow ? NAN : 0);
        expected = (float)((double)expected * (overflow ? 0.7 : 1.1));
        assert_exact(gsc_scaler_get_scale(r.scaler), (double)expected);
    }
    rig_stop(&r);
}

/* rule 8.1, 13.5 */
static void test_backoff_stops_at_min_scale(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(65536, 1);
    options.min_scale = 3; /* no power of two: the last backoff is shortened */
    rig r;
    rig_start_with(&r, &options);
    for (int i = 0; i < 14; i++)
        rig_iterate(&r, NAN);
    assert_exact(gsc_scaler_get_scale(r.scaler), 4);
    for (int i = 0; i < 3; i++) {
        rig_iterate(&r, NAN);
        assert_exact(gsc_scaler_get_scale(r.scaler), 3);
    }
    assert_int_equal(stats_of(r.scaler).backoffs, 15); /* the last two changed nothing */
    rig_stop(&r);
}

/* rule 8.1, case 1 */
static void test_the_default_floor_keeps_the_reciprocal_finite(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(65536, 1);
    rig r;
    rig_start_with(&r, &options);
    for (int i = 0; i < 1200; i++)
        rig_iterate(&r, i % 2 == 0 ? NAN : INFINITY);
    assert_exact(gsc_scaler_get_scale(r.scaler), (double)FLT_MIN);
    assert_int_equal(rig_step(&r, FLT_MIN), GSC_STEPPED);
    assert_exact((double)r.param, -1);
    rig_stop(&r);
}

/* rule 8.3, case 5, conformance E */
static void test_growth_past_a_limit_leaves_the_scale(void **state)
{
    (void)state;
    const struct {
        double init, factor, max, expected;
    } cases[] = {
        {100, 2, 150, 100},
        {100, 2, 200, 200},
        {100, 2, 199.9, 100},
        {1e38, 16, (double)FLT_MAX, 1e38},
        {1e38, 1e300, (double)FLT_MAX, 1e38},
        {0x1p127, 2, (double)FLT_MAX, 0x1p127},
        {0x1p126, 2, (double)FLT_MAX, 0x1p127},
        {128, 2, 128, 128},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gsc_scaler_options options = options_of(cases[i].init, 2);
        options.growth_factor = cases[i].factor;
        options.max_scale = cases[i].max;
        rig r;
        rig_start_with(&r, &options);
        rig_iterate(&r, 0);
        rig_iterate(&r, 0);
        expect_schedule(&r, (double)(float)cases[i].expected, 0);
        assert_int_equal(stats_of(r.scaler).growths, cases[i].expected != cases[i].init);
        rig_stop(&r);
    }
}

/* rule 8.3, case 4 */
static void test_zero_gradients_never_make_the_scale_infinite(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(65536, 1);
    rig r;
    rig_start_with(&r, &options);
    for (int i = 0; i < 150; i++)
        rig_iterate(&r, 0);
    assert_exact(gsc_scaler_get_scale(r.scaler), 0x1p127);
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
    expect_schedule(&r, 8, 2);
    rig_iterate(&r, 1);
    expect_schedule(&r, 16, 0);
    rig_step(&r, INFINITY); /* a pending overflow is forgotten */
    assert_ok(gsc_scaler_update_to(r.scaler, 8));
    assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    assert_fails(GSC_ERR_STATE, gsc_scaler_update(r.scaler));
    rig_iterate(&r, 1);
    expect_schedule(&r, 8, 1);
    assert_ok(gsc_scaler_update_to(r.scaler, 0.1));
    expect_schedule(&r, (double)0.1f, 1);
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
    expect_schedule(&r, 2, 0);
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
    expect_schedule(&r, 77, 0);
    tensor = tensor_of(GSC_FLOAT64, &wide, &one);
    assert_ok(gsc_scaler_update_to_tensor(r.scaler, &tensor));
    expect_schedule(&r, 123, 0);
    uint16_t half = to_fp16(96);
    tensor = tensor_of(GSC_FLOAT16, &half, NULL);
    assert_ok(gsc_scaler_update_to_tensor(r.scaler, &tensor));
    expect_schedule(&r, 96, 0);
    half = to_bf16(48);
    tensor.dtype = GSC_BFLOAT16;
    assert_ok(gsc_scaler_update_to_tensor(r.scaler, &tensor));
    expect_schedule(&r, 48, 0);
    tensor = tensor_of(GSC_FLOAT32, narrow, ones);
    tensor.ndim = 3;
    tensor.byte_offset = 4;
    assert_ok(gsc_scaler_update_to_tensor(r.scaler, &tensor));
    expect_schedule(&r, 5, 0);

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
    expect_schedule(&r, 5, 0);
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
        cmocka_unit_test(test_tracker_at_or_past_the_interval),
        cmocka_unit_test(test_tracker_is_64_bits_wide),
        cmocka_unit_test(test_arithmetic_of_the_scale),
        cmocka_unit_test(test_every_value_of_the_walk_is_a_float),
        cmocka_unit_test(test_backoff_stops_at_min_scale),
        cmocka_unit_test(test_the_default_floor_keeps_the_reciprocal_finite),
        cmocka_unit_test(test_growth_past_a_limit_leaves_the_scale),
        cmocka_unit_test(test_zero_gradients_never_make_the_scale_infinite),
        cmocka_unit_test(test_update_to),
        cmocka_unit_test(test_a_refused_update_to_changes_nothing),
        cmocka_unit_test(test_update_to_tensor),
        cmocka_unit_test(test_counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
