/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 14: the total norm and clipping by it, through the scaler. */

#include "rig.h"

/* Gradients of one dtype, scaled, clipped; what is expected is given unscaled. */
typedef struct clip_case {
    DLDataType dtype;
    double scale, grads[3], max_norm, p, norm;
} clip_case;

static void check_clip(const clip_case *c, bool unscale_first)
{
    gsc_scaler_options options = options_of(c->scale, 1);
    options.allow_fp16_grads = true;
    gsc_scaler *scaler = new_scaler(&options);
    double data[3] = {0};
    fake_optimizer optimizer;
    fake_init(&optimizer);
    DLTensor *grad = &fake_add(&optimizer, c->dtype, NULL, data, 3, "g")->grad;
    for (size_t i = 0; i < 3; i++)
        element_set(grad, i, c->grads[i] * c->scale);
    if (unscale_first)
        assert_ok(gsc_scaler_unscale(scaler, &optimizer.base));
    double norm = -1;
    assert_ok(gsc_scaler_clip_grad_norm(scaler, &optimizer.base, c->max_norm, c->p, &norm));
    if (!(fabs(norm - c->norm) <= 1e-14 * c->norm))
        fail_msg("norm %.17g instead of %.17g", norm, c->norm);
    double coefficient = c->max_norm / (norm + 1e-6);
    bool wide = dtype_is(c->dtype, GSC_FLOAT64);
    for (size_t i = 0; i < 3; i++) {
        double expected = c->grads[i];
        if (coefficient < 1) {
            DLTensor product = *grad;
            double product_data = 0;
            product.data = &product_data;
            element_set(&product, 0, wide ? expected * coefficient : (double)((float)expected * (float)coefficient));
            expected = element_get(&product, 0);
        }
        assert_exact(element_get(grad, i), expected);
    }
    assert_int_equal(gsc_scaler_get_stage(scaler, &optimizer.base), GSC_STAGE_UNSCALED);
    gsc_scaler_destroy(scaler);
}

/* rule 14.1, 14.2, 14.3, conformance H */
static void test_exact_numbers(void **state)
{
    (void)state;
    const double inf = (double)INFINITY;
    const clip_case cases[] = {
        {GSC_FLOAT32, 65536, {3, 4, 0}, 1, 2, 5},
        {GSC_FLOAT32, 65536, {3, -4, 0}, 1, 1, 7},
        {GSC_FLOAT32, 65536, {3, -4, 0}, 1, inf, 4},
        {GSC_FLOAT32, 8, {3, 4, 5}, 1, 3, 6},
        {GSC_FLOAT32, 1, {3, 4, 0}, 5, 2, 5}, /* coefficient just below 1 */
        {GSC_FLOAT32, 1, {3, 4, 0}, 5.00001, 2, 5},
        {GSC_FLOAT32, 1, {3, 4, 0}, 100, 2, 5},
        {GSC_FLOAT32, 1, {3, 4, 0}, inf, 2, 5},
        {GSC_FLOAT32, 1, {3, 4, 0}, 0, 2, 5},
        {GSC_FLOAT32, 2, {0, 0, 0}, 1, 2, 0},
        {GSC_FLOAT32, 1, {1, 0, 0}, 1, 0.5, 1},
        {GSC_FLOAT32, 1, {0x1p100, 0, 0}, 1, 2, 0x1p100}, /* squares overflow float32 */
        {GSC_FLOAT32, 1, {0x1p-100, 0, 0}, 0x1p-120, 2, 0x1p-100},
        {GSC_FLOAT64, 65536, {3, 4, 0}, 1, 2, 5},
        {GSC_FLOAT64, 1, {3e200, 4e200, 0}, 1, 2, 5e200},
        {GSC_FLOAT64, 1, {3e-200, 4e-200, 0}, 1, 2, 5e-200},
        {GSC_FLOAT64, 1, {1e300, 0, 0}, 2, 7, 1e300},
        {GSC_FLOAT64, 1, {1e308, 0, 0}, 1, 2, 1e308},
        {GSC_FLOAT64, 1, {1e308, 0, 0}, 1, inf, 1e308},
        {GSC_BFLOAT16, 256, {3, 4, 0}, 1, 2, 5},
        {GSC_BFLOAT16, 1, {0x1p120, 0, 0}, 1, 2, 0x1p120},
        {GSC_FLOAT16, 256, {3, 4, 0}, 1, 2, 5},
        {GSC_FLOAT16, 1, {300, 0, 0}, 1, 2, 300},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_clip(&cases[i], false); /* unscales first */
        check_clip(&cases[i], true);
    }
}

/* rule 14.1 */
static void test_the_norm_is_over_all_gradients(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(2, 1);
    options.allow_fp16_grads = true;
    rig r;
    rig_start_with(&r, &options);
    double f64 = 4;
    uint16_t bf16 = to_bf16(8), fp16 = to_fp16(8);
    fake_add(&r.optimizer, GSC_FLOAT64, NULL, &f64, 1, "f64");
    fake_add(&r.optimizer, GSC_BFLOAT16, NULL, &bf16, 1, "bf16");
    fake_add(&r.optimizer, GSC_FLOAT16, NULL, &fp16, 1, "fp16");
    fake_add(&r.optimizer, GSC_FLOAT16, NULL, &fp16, 1, "fp16 again")->absent = true;
    r.grad = 16;
    double norm;
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1000, 2, &norm));
    assert_exact(norm, 10); /* 8, 2, 4, 4 */
    rig_stop(&r);
}

/* rule 14.4 */
static void test_not_finite_is_returned_and_clips_nothing(void **state)
{
    (void)state;
    const struct {
        float bad;
        double p, norm;
    } cases[] = {
        {INFINITY, 2, (double)INFINITY},
        {INFINITY, 1, (double)INFINITY},
        {-INFINITY, (double)INFINITY, (double)INFINITY},
        {NAN, 2, (double)NAN},
        {NAN, (double)INFINITY, (double)NAN},
        {NAN, 3, (double)NAN},
        {INFINITY, 3, (double)INFINITY},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r;
        rig_start(&r, 2);
        float others[3] = {200, cases[i].bad, 400};
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, others, 3, "others");
        r.grad = 100;
        double norm = 0;
        assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1, cases[i].p, &norm));
        assert_exact(norm, cases[i].norm);
        assert_exact((double)r.grad, 50); /* unscaled, not clipped */
        assert_exact((double)others[2], 200);
        assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
        rig_stop(&r);
    }
}

/* rule 14.1 */
static void test_nan_wins_over_infinity(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        rig r;
        rig_start(&r, 2);
        float other = i == 0 ? NAN : INFINITY;
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, &other, 1, "other");
        r.grad = i == 0 ? INFINITY : NAN;
        double norm = 0;
        assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1, i == 0 ? 2 : (double)INFINITY, &norm));
        assert_exact(norm, (double)NAN);
        rig_stop(&r);
    }
}

/* rule 14.3 */
static void test_wrong_numbers_are_refused(void **state)
{
    (void)state;
    static const struct {
        double max_norm, p;
        const char *word;
    } cases[] = {
        {-1, 2, "max_norm"},  {(double)NAN, 2, "max_norm"},  {-(double)INFINITY, 2, "max_norm"},  {1, 0, "norm_type"},
        {1, -2, "norm_type"}, {1, (double)NAN, "norm_type"}, {1, -(double)INFINITY, "norm_type"},
    };
    rig r;
    rig_start(&r, 2);
    r.grad = 100;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double norm = 42;
        assert_fails(GSC_ERR_VALUE,
                     gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, cases[i].max_norm, cases[i].p, &norm));
        assert_message(cases[i].word);
        assert_exact(norm, 42);
        assert_exact((double)r.grad, 100);
        assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_READY);
    }
    rig_stop(&r);
}

/* rule 14.2 */
static void test_clipping_twice(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 2);
    r.grad = 20;
    double norm;
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 5, 2, NULL));
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1, 2, &norm));
    assert_float_equal(norm, 5, 1e-5); /* not unscaled again */
    assert_float_equal(r.grad, 1, 1e-5);
    rig_stop(&r);
}

/* rule 5.8 */
static void test_identical_views_count_once(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 2);
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, &r.grad, 1, "tied");
    r.grad = 6;
    double norm;
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1.5, 2, &norm));
    assert_exact(norm, 3);
    assert_float_equal(r.grad, 1.5, 1e-5);
    rig_stop(&r);
}

/* A sum that float32 could not hold: every element is the same small number. */
/* rule 14.1 */
static void test_sums_are_in_double(void **state)
{
    (void)state;
    enum { N = 1 << 21 };
    static float data[N];
    for (size_t i = 0; i < N; i++)
        data[i] = 2;
    rig r;
    rig_start(&r, 2);
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, data, N, "large");
    double norm;
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, (double)INFINITY, 1, &norm));
    assert_exact(norm, N);
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, (double)INFINITY, 2, &norm));
    assert_exact(norm, sqrt(N));
    rig_stop(&r);
}

/* case 21 */
static void test_overflow_is_of_elements_not_of_the_norm(void **state)
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

/* case 61 */
static void test_clip_unscales_first(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 65536);
    float second = 4 * 65536;
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, &second, 1, "second");
    r.grad = 3 * 65536;
    double norm;
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1, 2, &norm));
    assert_exact(norm, 5);
    assert_float_equal(r.grad, 0.6, 1e-6);
    assert_float_equal(second, 0.8, 1e-6);
    rig_stop(&r);
}

/* case 64 */
static void test_norms_do_not_follow_the_scale(void **state)
{
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        gsc_scaler_options options = options_of(8, 1);
        rig r;
        rig_start_with(&r, &options);
        r.optimizer.base.step_scaled = fused != 0 ? fake_step_scaled : NULL;
        for (int i = 0; i < 10; i++) { /* constant true gradient, the scale doubles each time */
            gsc_step_args args = {.clip_norm = 100};
            gsc_step_result result;
            r.grad = (float)(3 * gsc_scaler_get_scale(r.scaler));
            assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &args, &result));
            assert_exact(result.grad_norm, 3);
            assert_exact(result.max_abs, 3);
            assert_ok(gsc_scaler_update(r.scaler));
        }
        assert_exact(gsc_scaler_get_scale(r.scaler), 8192);
        rig_stop(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_numbers),
        cmocka_unit_test(test_the_norm_is_over_all_gradients),
        cmocka_unit_test(test_not_finite_is_returned_and_clips_nothing),
        cmocka_unit_test(test_nan_wins_over_infinity),
        cmocka_unit_test(test_wrong_numbers_are_refused),
        cmocka_unit_test(test_clipping_twice),
        cmocka_unit_test(test_identical_views_count_once),
        cmocka_unit_test(test_sums_are_in_double),
        cmocka_unit_test(test_overflow_is_of_elements_not_of_the_norm),
        cmocka_unit_test(test_clip_unscales_first),
        cmocka_unit_test(test_norms_do_not_follow_the_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
