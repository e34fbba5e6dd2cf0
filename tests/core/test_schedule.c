/* SPDX-License-Identifier: Apache-2.0 */
/* Rules 2 and 8: the scale over many iterations: when it grows and backs off, its limits and its arithmetic. */
#include <float.h>

#include "rig.h"

/* rule 8.2, conformance E */
static void test_tracker_at_or_past_the_interval(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(1024, 100);
    rig r;
    rig_start_with(&r, &options);
    for (int i = 0; i < 7; i++)
        rig_iterate(&r, 1);
    assert_schedule(&r, 1024, 7);
    assert_ok(gsc_scaler_set_growth_interval(r.scaler, 5)); /* already passed */
    rig_iterate(&r, 1);
    assert_schedule(&r, 2048, 0);
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
    assert_schedule(&r, 8, ((int64_t)1 << 40) + 2);
    rig_iterate(&r, 1);
    assert_schedule(&r, 16, 0);
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
        assert_schedule(&r, (double)(float)cases[i].expected, 0);
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

/* A schedule as a row: after each letter (c clean, O overflow, - update without gradients) the scale is as given. */
typedef struct schedule {
    const char *item;
    double scale, growth, backoff;
    int64_t interval;
    double min_scale; /* 0: the default */
    int32_t hysteresis;
    const char *iterations;
    double after[14];
} schedule;

static const schedule schedules[] = {
    {"59", 4, 2, 0.25, 2, 0, 1, "ccO", {4, 8, 2}},
    {"60", 4, 2, 0.5, 3, 0, 1, "cccO", {4, 4, 8, 4}},
    {"61", 1024, 2, 0.5, 5, 0, 1, "cccccO", {1024, 1024, 1024, 1024, 2048, 1024}},
    {"63", 100, 3, 0.5, 1, 0, 1, "cc", {300, 900}},
    {"63", 100, 3, 0.5, 2, 0, 1, "cccc", {100, 300, 300, 900}},
    {"64", 8, 2, 0.5, 2, 0, 1, "Occ", {4, 4, 8}},
    {"67", 4, 2, 0.5, 2, 0, 1, "OOOO", {2, 1, 0.5, 0.25}},
    {"73", 65536, 2, 0.5, 3, 0, 1, "ccccccc", {65536, 65536, 131072, 131072, 131072, 262144, 262144}},
    {"73", 65536, 2, 0.5, 2000, 0, 1, "O", {32768}},
    {"74", 65536, 2, 0.5, 3, 0, 1, "ccccOcccc", {65536, 65536, 131072, 131072, 65536, 65536, 65536, 131072, 131072}},
    {"75", 256, 2, 0.5, 2, 0, 1, "ccccc", {256, 512, 512, 1024, 1024}},
    {"76", 400, 2, 0.5, 2000, 0, 1, "OOOO", {200, 100, 50, 25}},
    {"76", 2, 2, 0.5, 2, 0, 1, "cccccccc", {2, 4, 4, 8, 8, 16, 16, 32}},
    {"77", 10, 2, 0.5, 3, 1, 1, "ccOcccOOOOO", {10, 10, 5, 5, 5, 10, 5, 2.5, 1.25, 1, 1}},
    {"78", 2048, 2, 0.8, 1000, 0, 2, "OO", {2048, (double)(float)(2048 * 0.8)}},
    {"81", 16, 2, 0.5, 2, 1, 1, "OOOOOOOO", {8, 4, 2, 1, 1, 1, 1, 1}},
    {"81", 16, 2, 0.5, 2, 2, 1, "OOOO", {8, 4, 2, 2}},
    {"82", 256, 2, 0.5, 2, 0, 1, "OOccO", {128, 64, 64, 128, 64}},
    {"85", 1024, 2, 0.25, 10, 0, 3, "OOOOOcOOO", {1024, 1024, 256, 64, 16, 16, 16, 16, 4}},
    {"141", 8, 2, 0.5, 2, 0, 1, "c-c--c", {8, 8, 16, 16, 16, 16}},
};

/* rule 2.1, conformance E, 59, 60, 61, 63, 64, 67, 73, 74, 75, 76, 77, 78, 81, 82, 85, 141 */
static void test_schedules(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        const schedule *s = &schedules[i];
        gsc_scaler_options options = options_of(s->scale, s->interval);
        options.growth_factor = s->growth;
        options.backoff_factor = s->backoff;
        options.hysteresis = s->hysteresis;
        if (s->min_scale > 0)
            options.min_scale = s->min_scale;
        rig r;
        rig_start_with(&r, &options);
        for (size_t j = 0; s->iterations[j] != '\0'; j++) {
            r.optimizer.params[0].absent = s->iterations[j] == '-';
            rig_iterate(&r, s->iterations[j] == 'O' ? NAN : 1);
            if (gsc_scaler_get_scale(r.scaler) != s->after[j])
                fail_msg("item %s, iteration %zu: %.9g", s->item, j, gsc_scaler_get_scale(r.scaler));
        }
        rig_stop(&r);
    }
}

/* A backward pass in float16: the gradient is stored as scale * g, infinite where float16 cannot hold it. */
static float half_backward(const gsc_scaler *scaler, double g)
{
    return (float)from_fp16(to_fp16(gsc_scaler_get_scale(scaler) * g));
}

/* How many of `iterations` steps of a constant true gradient take place. */
static int successful_steps(rig *r, double g, int iterations)
{
    int steps = 0;
    for (int i = 0; i < iterations; i++)
        steps += rig_iterate(r, half_backward(r->scaler, g)) == GSC_STEPPED;
    return steps;
}

/* case 1 */
static void test_the_scale_never_reaches_zero(void **state)
{
    (void)state;
    static const double backoffs[] = {0.5, 0.1, 0.9, DBL_MIN};
    for (size_t i = 0; i < 4; i++) {
        gsc_scaler_options options = options_of(65536, 2000);
        options.backoff_factor = backoffs[i];
        rig r;
        rig_start_with(&r, &options);
        for (int j = 0; j < 1100; j++) {
            rig_iterate(&r, NAN);
            double inverse = 1 / gsc_scaler_get_scale(r.scaler);
            assert_true(gsc_scaler_get_scale(r.scaler) >= (double)FLT_MIN);
            assert_true(inverse <= (double)FLT_MAX);
        }
        assert_exact(gsc_scaler_get_scale(r.scaler), (double)FLT_MIN);
        rig_stop(&r);
    }
}

/* case 2 */
static void test_a_floor_of_one_or_none(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(1, 2000);
    options.min_scale = 1;
    rig r;
    rig_start_with(&r, &options);
    assert_int_equal(successful_steps(&r, 1e5, 100), 0); /* float16 ends at 65504 */
    assert_exact(gsc_scaler_get_scale(r.scaler), 1);
    rig_stop(&r);
    options.min_scale = (double)FLT_MIN;
    rig_start_with(&r, &options);
    assert_int_equal(successful_steps(&r, 1e5, 100), 99);
    assert_exact(gsc_scaler_get_scale(r.scaler), 0.5);
    rig_stop(&r);
    options.min_scale = 0.25; /* any positive floor */
    rig_start_with(&r, &options);
    assert_int_equal(successful_steps(&r, 3e5, 100), 0);
    assert_exact(gsc_scaler_get_scale(r.scaler), 0.25);
    rig_stop(&r);
}

static int at_minimum;

static void count_at_minimum(void *ctx, const gsc_event *event)
{
    (void)ctx;
    at_minimum += event->kind == GSC_EVENT_AT_MIN_SCALE;
}

/* case 3 */
static void test_at_the_floor_hold_stop_or_be_told(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(2, 2000);
    options.min_scale = 1;
    options.observer = count_at_minimum;
    rig r;
    rig_start_with(&r, &options);
    at_minimum = 0;
    for (int i = 0; i < 3; i++)
        rig_iterate(&r, INFINITY);
    assert_exact(gsc_scaler_get_scale(r.scaler), 1); /* hold */
    assert_int_equal(at_minimum, 3);                 /* never silent */
    rig_stop(&r);
    options.max_consecutive_skips = 3; /* stop */
    rig_start_with(&r, &options);
    rig_iterate(&r, INFINITY);
    rig_iterate(&r, INFINITY);
    rig_step(&r, INFINITY);
    assert_fails(GSC_ERR_DIVERGED, gsc_scaler_update(r.scaler));
    rig_stop(&r);
}

/* case 4 */
static void test_the_scale_never_becomes_infinite(void **state)
{
    (void)state;
    static const double growths[] = {2, 1e30, 1.5, 1e300};
    for (size_t i = 0; i < 4; i++) {
        gsc_scaler_options options = options_of(65536, 1);
        options.growth_factor = growths[i];
        rig r;
        rig_start_with(&r, &options);
        for (int j = 0; j < 400; j++) {
            rig_iterate(&r, 0);
            assert_true(gsc_scaler_get_scale(r.scaler) <= (double)FLT_MAX);
            assert_exact((double)r.grad, 0); /* 0 x inf would be NaN */
        }
        rig_stop(&r);
    }
}

/* case 11 */
static void test_the_default_and_a_scale_far_too_big(void **state)
{
    (void)state;
    rig r;
    rig_start_with(&r, NULL);
    assert_exact(gsc_scaler_get_scale(r.scaler), 65536);
    rig_stop(&r);
    gsc_scaler_options options = options_of(4294967296.0, 2000);
    rig_start_with(&r, &options);
    assert_int_equal(successful_steps(&r, 1, 18), 1); /* 17 skipped steps */
    assert_exact(gsc_scaler_get_scale(r.scaler), 32768);
    assert_int_equal(stats_of(r.scaler).skipped_steps, 17);
    rig_stop(&r);
}

/* case 45 */
static void test_the_same_batch_again(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 65536);
    int attempts = 0;
    gsc_outcome outcome;
    do { /* a backward pass in float16 with g = 1 */
        outcome = rig_iterate(&r, (float)from_fp16(to_fp16(gsc_scaler_get_scale(r.scaler))));
        attempts++;
    } while (outcome == GSC_SKIPPED_OVERFLOW);
    assert_int_equal(attempts, 2);
    assert_int_equal(r.optimizer.steps, 1);
    assert_exact((double)r.param, -1);
    assert_exact(gsc_scaler_get_scale(r.scaler), 32768);
    assert_int_equal(state_of(r.scaler).growth_tracker, 1);
    rig_stop(&r);
}

/* case 102 */
static void test_a_static_scale(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(128, 1);
    options.min_scale = options.max_scale = 128;
    rig r;
    rig_start_with(&r, &options);
    assert_int_equal(rig_iterate(&r, INFINITY), GSC_SKIPPED_OVERFLOW);
    assert_exact(gsc_scaler_get_scale(r.scaler), 128);
    for (int i = 0; i < 5; i++)
        assert_int_equal(rig_iterate(&r, 128), GSC_STEPPED);
    assert_exact(gsc_scaler_get_scale(r.scaler), 128);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to(r.scaler, 64));
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tracker_at_or_past_the_interval),
        cmocka_unit_test(test_tracker_is_64_bits_wide),
        cmocka_unit_test(test_arithmetic_of_the_scale),
        cmocka_unit_test(test_every_value_of_the_walk_is_a_float),
        cmocka_unit_test(test_backoff_stops_at_min_scale),
        cmocka_unit_test(test_the_default_floor_keeps_the_reciprocal_finite),
        cmocka_unit_test(test_growth_past_a_limit_leaves_the_scale),
        cmocka_unit_test(test_zero_gradients_never_make_the_scale_infinite),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_the_scale_never_reaches_zero),
        cmocka_unit_test(test_a_floor_of_one_or_none),
        cmocka_unit_test(test_at_the_floor_hold_stop_or_be_told),
        cmocka_unit_test(test_the_scale_never_becomes_infinite),
        cmocka_unit_test(test_the_default_and_a_scale_far_too_big),
        cmocka_unit_test(test_the_same_batch_again),
        cmocka_unit_test(test_a_static_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
