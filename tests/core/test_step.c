/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 7: what step calls, returns and leaves alone. step_scaled: test_step_scaled.c. */
#include <float.h>

#include "rig.h"

/* rule 1.5, 6.3, 7.3, conformance D */
static void test_a_clean_step(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 65536);
    r.grad = 65536;
    r.optimizer.has_value = true;
    r.optimizer.value = 0.125;
    gsc_step_result result;
    memset(&result, 0xff, sizeof result);
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_true(result.has_value);
    assert_exact(result.value, 0.125);
    assert_exact(result.grad_norm, (double)NAN); /* not asked for */
    assert_exact(result.max_abs, 1);
    assert_reserved_zero(result);
    assert_exact((double)r.grad, 1);
    assert_exact((double)r.param, -1);
    assert_int_equal(r.optimizer.steps, 1);
    rig_stop(&r);
}

/* rule 7.3 */
static void test_without_a_value(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 2);
    gsc_step_result result;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_false(result.has_value);
    rig_stop(&r);
}

/* Parameters, gradients of the fused path and optimizer state stay bitwise; the step is not called. */
/* rule 7.1, case 50, 51, conformance D */
static void test_an_overflow_skips_the_step(void **state)
{
    (void)state;
    static const float bad[] = {INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < 3; i++) {
        for (int scaled = 0; scaled < 2; scaled++) {
            rig r;
            rig_start(&r, 4);
            float params[3] = {1, -0.0f, 3}, grads[3] = {4, 8, 12}, before[3] = {4, 8, 12};
            fake_add(&r.optimizer, GSC_FLOAT32, params, grads, 3, "clean");
            r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
            r.optimizer.has_value = true;
            r.optimizer.value = 5;
            r.grad = bad[i];
            r.param = bits_to_float(0x00000001u);
            gsc_step_result result;
            assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
            assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
            assert_false(result.has_value);
            assert_int_equal(r.optimizer.steps + r.optimizer.scaled_steps, 0);
            assert_int_equal(float_to_bits(r.param), 1);
            assert_exact((double)params[0], 1);
            assert_exact((double)params[1], -0.0);
            assert_true(i == 2 ? isnan(result.max_abs) : isinf(result.max_abs) != 0);
            if (scaled != 0)
                assert_memory_equal(grads, before, sizeof grads);
            else
                assert_exact((double)grads[2], 3);
            rig_stop(&r);
        }
    }
}

/* rule 7.1, case 40 */
static void test_only_the_optimizer_that_overflowed_skips(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        rig a, b;
        rig_start(&a, 4);
        rig_start(&b, 4);
        a.grad = INFINITY;
        b.grad = 4;
        gsc_step_result first, second;
        rig *const steps[] = {order == 0 ? &a : &b, order == 0 ? &b : &a};
        assert_ok(gsc_scaler_step(a.scaler, &steps[0]->optimizer.base, NULL, &first));
        assert_ok(gsc_scaler_step(a.scaler, &steps[1]->optimizer.base, NULL, &second));
        assert_int_equal((order == 0 ? first : second).outcome, GSC_SKIPPED_OVERFLOW);
        assert_int_equal((order == 0 ? second : first).outcome, GSC_STEPPED);
        assert_exact((double)a.param, 0);
        assert_exact((double)b.param, -1);
        assert_true(gsc_scaler_found_inf(a.scaler, &a.optimizer.base));
        assert_false(gsc_scaler_found_inf(a.scaler, &b.optimizer.base));
        assert_ok(gsc_scaler_update(a.scaler));
        assert_exact(gsc_scaler_get_scale(a.scaler), 2);
        rig_stop(&a);
        rig_stop(&b);
    }
}

/* rule 7.2 */
static void test_without_gradients_the_step_is_called(void **state)
{
    (void)state;
    for (int count = 0; count < 2; count++) {
        rig r;
        rig_start(&r, 4);
        r.optimizer.params[0].absent = true;
        r.optimizer.count = (size_t)count;
        gsc_step_args clip = {.clip_norm = 1};
        gsc_step_result result;
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &clip, &result));
        assert_int_equal(result.outcome, GSC_NO_GRADS);
        assert_exact(result.grad_norm, 0);
        assert_exact(result.max_abs, 0);
        assert_int_equal(r.optimizer.steps, 1);
        rig_stop(&r);
    }
}

/* rule 7.4, case 27 */
static void test_gradients_are_not_looked_at_again(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 65536);
    r.grad = 65536;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_exact((double)r.grad, 1);
    r.grad = NAN; /* e.g. by noise */
    gsc_step_result result;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_true(isnan(r.param));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_exact(gsc_scaler_get_scale(r.scaler), 65536);
    rig_stop(&r);
}

/* rule 7.1 */
static void test_an_overflow_stays_one_when_the_gradient_is_mended(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 4);
    r.grad = INFINITY;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    r.grad = 0;
    gsc_step_result result;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    assert_int_equal(r.optimizer.steps, 0);
    rig_stop(&r);
}

/* rule 7.3 */
static void test_args_are_passed_on(void **state)
{
    (void)state;
    int extra = 0;
    gsc_step_args args = {.extra = &extra, .closure_ctx = &args};
    for (int scaled = 0; scaled < 2; scaled++) {
        rig r;
        rig_start(&r, 4);
        r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &args, NULL));
        assert_ptr_equal(r.optimizer.last_args.extra, &extra);
        assert_int_equal(scaled != 0 ? r.optimizer.scaled_steps : r.optimizer.steps, 1);
        rig_stop(&r);
    }
}

/* rule 7.7 */
static void test_clipping_as_part_of_the_step(void **state)
{
    (void)state;
    for (int scaled = 0; scaled < 2; scaled++) {
        rig r;
        rig_start(&r, 65536);
        float param = 0, grad = 4 * 65536;
        fake_add(&r.optimizer, GSC_FLOAT32, &param, &grad, 1, "second");
        r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
        r.grad = 3 * 65536;
        gsc_step_args args = {.clip_norm = 1};
        gsc_step_result result;
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &args, &result));
        assert_exact(result.grad_norm, 5); /* before clipping, unscaled */
        assert_exact(result.max_abs, 4);
        assert_float_equal(r.param, -0.6, 1e-6);
        assert_float_equal(param, -0.8, 1e-6);
        if (scaled != 0) {
            assert_exact((double)grad, 4 * 65536);
            double multiplier = 1 / (5 + 1e-6) / 65536;
            assert_true(fabs(r.optimizer.last_scaling.multiplier - multiplier) <= (double)FLT_EPSILON * multiplier);
        } else {
            assert_exact((double)grad, (double)(4 * (float)(1 / (5 + 1e-6)))); /* clipped in place */
        }
        rig_stop(&r);
    }
}

/* rule 7.7 */
static void test_norm_types_of_the_step(void **state)
{
    (void)state;
    const struct {
        double type, norm;
    } cases[] = {{0, 5}, {2, 5}, {1, 7}, {(double)INFINITY, 4}, {3, cbrt(27 + 64)}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int scaled = 0; scaled < 2; scaled++) {
            rig r;
            rig_start(&r, 8);
            float param = 0, grad = -32;
            fake_add(&r.optimizer, GSC_FLOAT32, &param, &grad, 1, "second");
            r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
            r.grad = 24;
            gsc_step_args args = {.clip_norm = (double)INFINITY, .clip_norm_type = cases[i].type};
            gsc_step_result result;
            assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &args, &result));
            assert_true(fabs(result.grad_norm - cases[i].norm) <= 1e-14 * cases[i].norm);
            assert_exact((double)param, 4); /* an infinite limit clips nothing */
            rig_stop(&r);
        }
    }
}

/* rule 7.7 */
static void test_overflow_and_clip_norm(void **state)
{
    (void)state;
    static const float bad[] = {INFINITY, NAN};
    for (size_t i = 0; i < 2; i++) {
        for (int scaled = 0; scaled < 2; scaled++) {
            rig r;
            rig_start(&r, 8);
            r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
            r.grad = bad[i];
            gsc_step_args args = {.clip_norm = 1};
            gsc_step_result result;
            assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &args, &result));
            assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
            assert_true(isnan(result.grad_norm) || isinf(result.grad_norm) != 0);
            rig_stop(&r);
        }
    }
}

/* rule 1.5, 7.7 */
static void test_wrong_args_are_refused(void **state)
{
    (void)state;
    static const double wrong_norm[] = {-1, (double)NAN, -(double)INFINITY}, wrong_type[] = {-2, (double)NAN};
    rig r;
    rig_start(&r, 8);
    r.grad = 8;
    for (size_t i = 0; i < 3; i++) {
        gsc_step_args args = {.clip_norm = wrong_norm[i]};
        assert_fails(GSC_ERR_VALUE, gsc_scaler_step(r.scaler, &r.optimizer.base, &args, NULL));
        assert_message("clip_norm");
    }
    for (size_t i = 0; i < 2; i++) {
        gsc_step_args args = {.clip_norm = 1, .clip_norm_type = wrong_type[i]};
        assert_fails(GSC_ERR_VALUE, gsc_scaler_step(r.scaler, &r.optimizer.base, &args, NULL));
        assert_message("clip_norm_type");
    }
    gsc_step_args with_stream = {.stream = &r};
    assert_fails(GSC_ERR_VALUE, gsc_scaler_step(r.scaler, &r.optimizer.base, &with_stream, NULL));
    assert_message("args.stream is set, but it is the scaler that sets it");
    for (size_t i = 0; i < 7; i++) {
        gsc_step_args args = {0};
        args.reserved[i] = 1;
        assert_fails(GSC_ERR_VALUE, gsc_scaler_step(r.scaler, &r.optimizer.base, &args, NULL));
        assert_message("reserved");
    }
    assert_exact((double)r.grad, 8);
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_READY);
    rig_stop(&r);
}

/* rule 7.3 */
static void test_result_is_of_the_last_step(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    gsc_step_result result;
    assert_fails(GSC_ERR_STATE, gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
    r.grad = 16;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_fails(GSC_ERR_STATE, gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
    r.optimizer.has_value = true;
    r.optimizer.value = 3;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    memset(&result, 0xff, sizeof result);
    assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_exact(result.value, 3);
    assert_exact(result.max_abs, 2);
    assert_reserved_zero(result);
    assert_ok(gsc_scaler_update(r.scaler));
    assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result)); /* also after update */
    assert_int_equal(result.outcome, GSC_STEPPED);
    rig_iterate(&r, NAN);
    assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_result(r.scaler, &r.optimizer.base, NULL));
    rig_stop(&r);
}

/* rule 7.3 */
static void test_max_abs_of_each_dtype(void **state)
{
    (void)state;
    const DLDataType dtypes[] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16, GSC_FLOAT16};
    for (size_t d = 0; d < 4; d++) {
        gsc_scaler_options options = options_of(4, 1);
        options.allow_fp16_grads = true;
        gsc_scaler *scaler = new_scaler(&options);
        double data[8] = {0};
        fake_optimizer optimizer;
        fake_init(&optimizer);
        DLTensor *grad = &fake_add(&optimizer, dtypes[d], NULL, data, 8, "g")->grad;
        for (size_t i = 0; i < 8; i++)
            element_set(grad, i, i == 5 ? -48 : (double)i);
        gsc_step_result result;
        assert_ok(gsc_scaler_step(scaler, &optimizer.base, NULL, &result));
        assert_exact(result.max_abs, 12);
        gsc_scaler_destroy(scaler);
    }
}

/* case 48 */
static void test_the_result_tells(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(2, 1);
    options.min_scale = 2;
    options.max_scale = 8;
    rig r;
    rig_start_with(&r, &options);
    assert_int_equal(rig_iterate(&r, INFINITY), GSC_SKIPPED_OVERFLOW);
    assert_exact(gsc_scaler_get_scale(r.scaler), 2); /* comparing scales would not tell */
    assert_int_equal(stats_of(r.scaler).skipped_steps, 1);
    assert_int_equal(rig_iterate(&r, 2), GSC_STEPPED); /* with growth at the same time */
    assert_exact(gsc_scaler_get_scale(r.scaler), 4);
    r.optimizer.params[0].absent = true;
    assert_int_equal(rig_iterate(&r, 2), GSC_NO_GRADS);
    rig_stop(&r);
}

/* Schedules and averages that follow steps, not iterations. */
/* case 49, 57 */
static void test_followers_of_the_step(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 65536);
    r.param = 1;
    double average = 0, rate = 0;
    static const float grads[] = {INFINITY, NAN, 16384};
    for (int i = 0; i < 3; i++) {
        float before = r.param;
        if (rig_iterate(&r, grads[i]) == GSC_STEPPED) {
            rate += 0.1;
            average = 0.5 * average + 0.5 * (double)r.param;
        } else {
            assert_exact((double)r.param, (double)before);
            assert_exact(average, 0);
        }
    }
    assert_exact(rate, 0.1);
    assert_int_equal(stats_of(r.scaler).steps, 1);
    assert_int_equal(stats_of(r.scaler).skipped_steps, 2);
    rig_stop(&r);
}

/* trial T24: a loss that was scaled with 8 is divided by 8, also where update has changed the scale since. */
static void test_scale_that_the_gradients_carried(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(8, 1);
    for (int scaled = 0; scaled < 2; scaled++) {
        rig r;
        rig_start_with(&r, &options);
        r.optimizer.base.step_scaled = scaled ? fake_step_scaled : NULL;
        gsc_step_result result;
        assert_int_equal(rig_iterate(&r, 8), GSC_STEPPED);
        assert_exact(gsc_scaler_get_scale(r.scaler), 16);
        assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
        assert_exact(result.scale, 8);
        assert_int_equal(rig_iterate(&r, INFINITY), GSC_SKIPPED_OVERFLOW);
        assert_exact(gsc_scaler_get_scale(r.scaler), 8);
        assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
        assert_exact(result.scale, 16);
        assert_ok(gsc_scaler_record(r.scaler, &r.optimizer.base, false));
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
        assert_exact(result.scale, 8);
        rig_stop(&r);
    }
    options.enabled = false;
    rig r;
    rig_start_with(&r, &options);
    gsc_step_result result;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_exact(result.scale, 1);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_clean_step),
        cmocka_unit_test(test_without_a_value),
        cmocka_unit_test(test_an_overflow_skips_the_step),
        cmocka_unit_test(test_only_the_optimizer_that_overflowed_skips),
        cmocka_unit_test(test_without_gradients_the_step_is_called),
        cmocka_unit_test(test_gradients_are_not_looked_at_again),
        cmocka_unit_test(test_an_overflow_stays_one_when_the_gradient_is_mended),
        cmocka_unit_test(test_args_are_passed_on),
        cmocka_unit_test(test_clipping_as_part_of_the_step),
        cmocka_unit_test(test_norm_types_of_the_step),
        cmocka_unit_test(test_overflow_and_clip_norm),
        cmocka_unit_test(test_wrong_args_are_refused),
        cmocka_unit_test(test_result_is_of_the_last_step),
        cmocka_unit_test(test_max_abs_of_each_dtype),
        cmocka_unit_test(test_the_result_tells),
        cmocka_unit_test(test_followers_of_the_step),
        cmocka_unit_test(test_scale_that_the_gradients_carried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
