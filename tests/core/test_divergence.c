/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 10: max_consecutive_skips. */
#include "rig.h"

static void start(rig *r, int64_t limit)
{
    gsc_scaler_options options = options_of(65536, 2);
    options.max_consecutive_skips = limit;
    rig_start_with(r, &options);
}

static gsc_status iterate(rig *r, float grad)
{
    rig_step(r, grad);
    return gsc_scaler_update(r->scaler);
}

/* rule 10.1 */
static void test_the_nth_in_a_row(void **state)
{
    (void)state;
    for (int64_t limit = 1; limit <= 4; limit++) {
        rig r;
        start(&r, limit);
        for (int64_t i = 1; i < limit; i++)
            assert_ok(iterate(&r, INFINITY));
        for (int64_t i = limit; i < limit + 3; i++) { /* so does each further one */
            assert_fails(GSC_ERR_DIVERGED, iterate(&r, INFINITY));
            /* The update was carried out whole. */
            assert_exact(gsc_scaler_get_scale(r.scaler), ldexp(65536, (int)-i));
            assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_READY);
            assert_int_equal(stats_of(r.scaler).consecutive_skips, i);
            assert_int_equal(stats_of(r.scaler).updates, i);
            assert_int_equal(state_of(r.scaler).consecutive_skips, i);
        }
        assert_ok(iterate(&r, 1));
        assert_int_equal(stats_of(r.scaler).consecutive_skips, 0);
        rig_stop(&r);
    }
}

/* rule 10.1 */
static void test_zero_is_no_limit(void **state)
{
    (void)state;
    rig r;
    start(&r, 0);
    for (int i = 0; i < 1000; i++)
        assert_ok(iterate(&r, NAN));
    assert_int_equal(stats_of(r.scaler).consecutive_skips, 1000);
    rig_stop(&r);
}

/* rule 10.3 */
static void test_only_a_clean_update_resets(void **state)
{
    (void)state;
    rig r;
    start(&r, 3);
    assert_ok(iterate(&r, NAN));
    assert_ok(iterate(&r, NAN));
    r.optimizer.params[0].absent = true; /* an update without gradients is not clean */
    assert_ok(iterate(&r, 0));
    r.optimizer.params[0].absent = false;
    assert_ok(gsc_scaler_skip(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_ok(gsc_scaler_update_to(r.scaler, 8));
    assert_int_equal(stats_of(r.scaler).consecutive_skips, 2);
    assert_fails(GSC_ERR_DIVERGED, iterate(&r, NAN));
    assert_ok(iterate(&r, 1));
    assert_ok(iterate(&r, NAN));
    assert_ok(iterate(&r, NAN));
    assert_fails(GSC_ERR_DIVERGED, iterate(&r, NAN));
    rig_stop(&r);
}

/* rule 10.1 */
static void test_held_by_hysteresis_counts(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(65536, 2);
    options.max_consecutive_skips = 2;
    options.hysteresis = 5;
    rig r;
    rig_start_with(&r, &options);
    assert_ok(iterate(&r, NAN));
    assert_fails(GSC_ERR_DIVERGED, iterate(&r, NAN));
    assert_exact(gsc_scaler_get_scale(r.scaler), 65536);
    rig_stop(&r);
}

/* rule 10.1 */
static void test_one_optimizer_suffices(void **state)
{
    (void)state;
    rig r, clean;
    start(&r, 2);
    rig_start(&clean, 1);
    for (int i = 0; i < 2; i++) {
        rig_step(&r, INFINITY);
        clean.grad = 1;
        assert_ok(gsc_scaler_step(r.scaler, &clean.optimizer.base, NULL, NULL));
        gsc_status status = gsc_scaler_update(r.scaler);
        assert_int_equal(status, i == 0 ? GSC_OK : GSC_ERR_DIVERGED);
    }
    rig_stop(&r);
    rig_stop(&clean);
}

/* rule 10.2, case 28, trial T13 */
static void test_the_message_names_gradients_and_kind(void **state)
{
    (void)state;
    static const struct {
        float value;
        const char *kind;
    } cases[] = {{INFINITY, "inf"}, {-INFINITY, "inf"}, {NAN, "NaN"}};
    for (size_t i = 0; i < 3; i++) {
        for (int scaled = 0; scaled < 2; scaled++) {
            rig r;
            start(&r, 1);
            float fine = 1, bad = cases[i].value;
            fake_add(&r.optimizer, GSC_FLOAT32, NULL, &fine, 1, "layer.fine");
            fake_add(&r.optimizer, GSC_FLOAT32, NULL, &bad, 1, "layer.bad");
            r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
            assert_fails(GSC_ERR_DIVERGED, iterate(&r, 1));
            assert_message("layer.bad");
            assert_message(cases[i].kind);
            assert_message(
                "the scale is 32768 (one that is too large shows as inf or as NaN); in the last one, by index");
            assert_null(strstr(gsc_last_error(), "layer.fine"));
            rig_stop(&r);
        }
    }
}

/* rule 10.2 */
static void test_the_message_without_names(void **state)
{
    (void)state;
    rig r;
    start(&r, 1);
    r.optimizer.base.name = NULL;
    assert_fails(GSC_ERR_DIVERGED, iterate(&r, NAN));
    assert_message("0"); /* its index */
    assert_message("NaN");
    rig_stop(&r);
    start(&r, 1); /* after record the gradient is unknown */
    assert_ok(gsc_scaler_record(r.scaler, &r.optimizer.base, true));
    assert_fails(GSC_ERR_DIVERGED, gsc_scaler_update(r.scaler));
    rig_stop(&r);
    start(&r, 1); /* a forgotten optimizer's overflow counts */
    r.grad = NAN;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_forget(r.scaler, &r.optimizer.base));
    assert_fails(GSC_ERR_DIVERGED, gsc_scaler_update(r.scaler));
    rig_stop(&r);
}

/* rule 10.3 */
static void test_a_loaded_count_goes_on(void **state)
{
    (void)state;
    rig r, resumed;
    start(&r, 3);
    assert_ok(iterate(&r, NAN));
    assert_ok(iterate(&r, NAN));
    gsc_scaler_state saved = state_of(r.scaler);
    start(&resumed, 3);
    assert_ok(gsc_scaler_load_state_dict(resumed.scaler, &saved));
    assert_fails(GSC_ERR_DIVERGED, iterate(&resumed, NAN));
    rig_stop(&r);
    rig_stop(&resumed);
}

static void test_the_count_stops_at_its_greatest(void **state)
{
    (void)state;
    rig r;
    start(&r, 3);
    gsc_scaler_state saved = state_of(r.scaler);
    saved.consecutive_skips = INT64_MAX - 1;
    assert_ok(gsc_scaler_load_state_dict(r.scaler, &saved));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rig_step(&r, INFINITY), GSC_SKIPPED_OVERFLOW);
        assert_fails(GSC_ERR_DIVERGED, gsc_scaler_update(r.scaler));
        assert_true(stats_of(r.scaler).consecutive_skips == INT64_MAX);
    }
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_nth_in_a_row),
        cmocka_unit_test(test_zero_is_no_limit),
        cmocka_unit_test(test_only_a_clean_update_resets),
        cmocka_unit_test(test_held_by_hysteresis_counts),
        cmocka_unit_test(test_one_optimizer_suffices),
        cmocka_unit_test(test_the_message_names_gradients_and_kind),
        cmocka_unit_test(test_the_message_without_names),
        cmocka_unit_test(test_a_loaded_count_goes_on),
        cmocka_unit_test(test_the_count_stops_at_its_greatest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
