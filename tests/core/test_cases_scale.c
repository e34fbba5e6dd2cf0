/* SPDX-License-Identifier: Apache-2.0 */
/* What users of other scalers ran into: values of the scale, of gradients and their dtypes. The number of each case is
 * that of tests/coverage.tsv. */
#include <float.h>

#include "rig.h"

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
static void test_case_1_the_scale_never_reaches_zero(void **state)
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
static void test_case_2_a_floor_of_one_or_none(void **state)
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
static void test_case_3_at_the_floor_hold_stop_or_be_told(void **state)
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
static void test_case_4_the_scale_never_becomes_infinite(void **state)
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
static void test_case_11_the_default_and_a_scale_far_too_big(void **state)
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

/* case 12 */
static void test_case_12_65536_is_no_float16(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    uint16_t loss = to_fp16(1), scaled;
    float wide;
    DLTensor in = tensor_of(GSC_FLOAT16, &loss, NULL), out = tensor_of(GSC_FLOAT32, &wide, NULL);
    DLTensor half = tensor_of(GSC_FLOAT16, &scaled, NULL);
    assert_ok(gsc_scaler_scale(scaler, &in, &out)); /* in float32 it is fine */
    assert_exact((double)wide, 65536);
    assert_ok(gsc_scaler_scale(scaler, &in, &half)); /* into float16 it is infinite, and the scaler backs off */
    assert_exact(from_fp16(scaled), (double)INFINITY);
    gsc_scaler_destroy(scaler);
    rig r;
    rig_start_with(&r, NULL);
    rig_iterate(&r, (float)from_fp16(scaled));
    assert_exact(gsc_scaler_get_scale(r.scaler), 32768);
    rig_stop(&r);
}

/* case 13 */
static void test_case_13_the_inverse_is_not_flushed(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(32768, 2000);
    options.allow_fp16_grads = true;
    static const double gradients[] = {1, 0.5, -1.5, 0x1p-10, 0x1p-20};
    for (size_t i = 0; i < 5; i++) {
        gsc_scaler *scaler = new_scaler(&options);
        uint16_t half = to_fp16(gradients[i] * 32768);
        fake_optimizer optimizer;
        fake_init(&optimizer);
        fake_add(&optimizer, GSC_FLOAT16, NULL, &half, 1, "half");
        assert_ok(gsc_scaler_unscale(scaler, &optimizer.base));
        assert_exact(from_fp16(half), gradients[i]);
        gsc_scaler_destroy(scaler);
    }
}

/* case 14 */
static void test_case_14_a_multiplication_by_the_reciprocal(void **state)
{
    (void)state;
    static const float scales[] = {3, 10, 5, 6, 7, 9, 11, 49, 100, 1000.5f, 0.3f};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        for (int g = 1; g < 50; g++) {
            rig r;
            rig_start(&r, (double)scales[i]);
            rig_step(&r, (float)g);
            float inverse = (float)(1.0 / (double)scales[i]);
            assert_exact((double)r.grad, (double)((float)g * inverse));
            rig_stop(&r);
        }
    }
    for (int e = -100; e <= 100; e += 7) { /* powers of two are exact */
        rig r;
        rig_start(&r, ldexp(1, e));
        rig_step(&r, ldexpf(1.2345f, e));
        assert_exact((double)r.grad, (double)1.2345f);
        rig_stop(&r);
    }
}

/* case 18 */
static void test_case_18_a_scale_of_the_users(void **state)
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

/* case 21 */
static void test_case_21_overflow_is_of_elements_not_of_the_norm(void **state)
{
    (void)state;
    static const float gradients[] = {300, 1e20f, 3e38f, 1e-25f, 1e-40f};
    for (size_t i = 0; i < sizeof gradients / sizeof *gradients; i++) {
        rig r;
        rig_start(&r, 1);
        r.grad = gradients[i];
        double norm;
        assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1, 2, &norm));
        assert_exact(norm, (double)gradients[i]);
        assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
        assert_float_equal(r.grad, gradients[i] > 1 ? 1 : gradients[i], 1e-6);
        rig_stop(&r);
    }
    uint16_t half = to_fp16(300);
    gsc_scaler_options options = options_of(1, 2);
    options.allow_fp16_grads = true;
    gsc_scaler *scaler = new_scaler(&options);
    fake_optimizer optimizer;
    fake_init(&optimizer);
    fake_add(&optimizer, GSC_FLOAT16, NULL, &half, 1, "half");
    assert_ok(gsc_scaler_clip_grad_norm(scaler, &optimizer.base, 1, 2, NULL));
    assert_exact(from_fp16(half), 1);
    gsc_scaler_destroy(scaler);
}

/* case 24 */
static void test_case_24_padding_and_empty_buffers(void **state)
{
    (void)state;
    for (int64_t used = 0; used < 8; used++) {
        float flat[8];
        for (int i = 0; i < 8; i++)
            flat[i] = i < used ? 8 : i % 2 == 0 ? NAN : INFINITY;
        rig r;
        rig_start(&r, 8);
        r.grad = 8;
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, flat, used, "flat");
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, NULL, 0, "empty shard");
        assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
        for (int i = 0; i < 8; i++) {
            if (i < used)
                assert_exact((double)flat[i], 1);
            else
                assert_true(isnan(flat[i]) || isinf(flat[i]) != 0);
        }
        rig_stop(&r);
    }
}

/* case 28 */
static void test_case_28_nan_is_told_from_infinity(void **state)
{
    (void)state;
    rig r;
    rig_start_with(&r, NULL);
    for (int i = 0; i < 20; i++)
        rig_iterate(&r, NAN);
    assert_exact(gsc_scaler_get_scale(r.scaler), 0.0625);
    gsc_overflow overflow;
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, &overflow, 1), 1);
    assert_int_equal(overflow.nan_count, 1);
    assert_int_equal(overflow.inf_count, 0);
    rig_iterate(&r, INFINITY);
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, &overflow, 1), 1);
    assert_int_equal(overflow.nan_count, 0);
    assert_int_equal(overflow.inf_count, 1);
    rig_stop(&r);
}

/* case 72 */
static void test_case_72_bfloat16(void **state)
{
    (void)state;
    const struct {
        uint16_t bits;
        bool found_inf;
    } cases[] = {{0x4000, false}, {0x7f80, true},  {0xff80, true},  {0x7fc0, true},
                 {0x7f81, true},  {0x7f7f, false}, {0xff7f, false}, {0x0001, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r;
        rig_start(&r, 2);
        uint16_t grad = cases[i].bits;
        fake_add(&r.optimizer, GSC_BFLOAT16, NULL, &grad, 1, "bf16");
        assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_int_equal(gsc_scaler_found_inf(r.scaler, &r.optimizer.base), cases[i].found_inf);
        if (i == 0)
            assert_int_equal(grad, 0x3f80);
        rig_stop(&r);
    }
}

/* case 77 */
static void test_case_77_mixed_dtypes(void **state)
{
    (void)state;
    const DLDataType dtypes[] = {GSC_FLOAT16, GSC_BFLOAT16, GSC_FLOAT32, GSC_FLOAT64};
    for (int bad = -1; bad < 8; bad++) {
        gsc_scaler_options options = options_of(1024, 2);
        options.allow_fp16_grads = true;
        gsc_scaler *scaler = new_scaler(&options);
        fake_optimizer optimizer;
        fake_init(&optimizer);
        double data[8][2] = {{0}};
        for (int i = 0; i < 8; i++) {
            DLTensor *grad = &fake_add(&optimizer, dtypes[i % 4], NULL, data[i], 2, "g")->grad;
            element_set(grad, 0, 1024);
            element_set(grad, 1, i == bad ? (i % 2 == 0 ? (double)INFINITY : (double)NAN) : -1024);
        }
        assert_ok(gsc_scaler_unscale(scaler, &optimizer.base));
        assert_int_equal(gsc_scaler_found_inf(scaler, &optimizer.base), bad >= 0);
        for (size_t i = 0; i < 8; i++) {
            assert_exact(element_get(&optimizer.params[i].grad, 0), 1);
            if ((int)i != bad)
                assert_exact(element_get(&optimizer.params[i].grad, 1), -1);
        }
        gsc_overflow overflow;
        assert_int_equal(gsc_scaler_overflows(scaler, &optimizer.base, &overflow, 1), bad >= 0);
        if (bad >= 0)
            assert_int_equal(overflow.index, bad);
        gsc_scaler_destroy(scaler);
    }
}

/* case 102 */
static void test_case_102_a_static_scale(void **state)
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
        cmocka_unit_test(test_case_1_the_scale_never_reaches_zero),
        cmocka_unit_test(test_case_2_a_floor_of_one_or_none),
        cmocka_unit_test(test_case_3_at_the_floor_hold_stop_or_be_told),
        cmocka_unit_test(test_case_4_the_scale_never_becomes_infinite),
        cmocka_unit_test(test_case_11_the_default_and_a_scale_far_too_big),
        cmocka_unit_test(test_case_12_65536_is_no_float16),
        cmocka_unit_test(test_case_13_the_inverse_is_not_flushed),
        cmocka_unit_test(test_case_14_a_multiplication_by_the_reciprocal),
        cmocka_unit_test(test_case_18_a_scale_of_the_users),
        cmocka_unit_test(test_case_21_overflow_is_of_elements_not_of_the_norm),
        cmocka_unit_test(test_case_24_padding_and_empty_buffers),
        cmocka_unit_test(test_case_28_nan_is_told_from_infinity),
        cmocka_unit_test(test_case_72_bfloat16),
        cmocka_unit_test(test_case_77_mixed_dtypes),
        cmocka_unit_test(test_case_102_a_static_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
