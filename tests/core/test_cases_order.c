/* SPDX-License-Identifier: Apache-2.0 */
/* What users of other scalers ran into: the order of calls, several optimizers, what a skipped step leaves alone. The
 * number of each case is that of tests/coverage.tsv. */
#include "rig.h"

/* case 19 */
static void test_case_19_a_new_scaler_takes_over_the_state(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 65536);
    for (int i = 0; i < 6; i++)
        rig_iterate(&r, NAN);
    assert_exact(gsc_scaler_get_scale(r.scaler), 1024);
    gsc_scaler_state settled = state_of(r.scaler);
    gsc_scaler *next = new_scaler(NULL);
    assert_ok(gsc_scaler_load_state_dict(next, &settled));
    assert_exact(gsc_scaler_get_scale(next), 1024);
    gsc_scaler_destroy(next);
    rig_stop(&r);
}

/* case 29 */
static void test_case_29_every_gradient_is_unscaled(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 65536);
    float grads[15][3];
    for (int i = 0; i < 15; i++) {
        for (int j = 0; j < 3; j++)
            grads[i][j] = 65536;
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, grads[i], 3, "group");
    }
    r.grad = 65536;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_exact((double)r.grad, 1);
    for (int i = 0; i < 15; i++) {
        for (int j = 0; j < 3; j++)
            assert_exact((double)grads[i][j], 1);
    }
    rig_stop(&r);
}

/* case 31, 32 */
static void test_cases_31_and_32_divided_once(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 65536);
    r.param = 1;
    r.grad = 65536;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_exact((double)r.grad, 1); /* not 1.5e-5 */
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 10, 2, NULL));
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_exact((double)r.param, 0); /* exactly */
    rig_stop(&r);
}

/* case 33 */
static void test_case_33_stepped_once(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    assert_int_equal(rig_step(&r, 8), GSC_STEPPED);
    assert_fails(GSC_ERR_STATE, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_exact((double)r.param, -1);
    assert_int_equal(r.optimizer.steps, 1);
    rig_stop(&r);
}

/* case 34, 95 */
static void test_cases_34_and_95_without_scale(void **state)
{
    (void)state;
    rig r, resumed;
    rig_start(&r, 8);
    assert_int_equal(rig_iterate(&r, 8), GSC_STEPPED);
    assert_exact((double)r.param, -1);
    gsc_scaler_state saved = state_of(r.scaler);
    rig_start(&resumed, 2);
    assert_ok(gsc_scaler_load_state_dict(resumed.scaler, &saved));
    resumed.grad = 8;
    assert_ok(gsc_scaler_unscale(resumed.scaler, &resumed.optimizer.base));
    assert_exact((double)resumed.grad, 1);
    rig_stop(&r);
    rig_stop(&resumed);
}

/* case 35 */
static void test_case_35_update_with_nothing_checked(void **state)
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

/* case 36, 37 */
static void test_cases_36_and_37_missing_gradients(void **state)
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
static void test_case_39_one_update_an_iteration(void **state)
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

/* case 41 */
static void test_case_41_unscaled_but_never_stepped(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    r.grad = INFINITY;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base)); /* whoever steps alone can ask */
    assert_ok(gsc_scaler_update(r.scaler));
    assert_exact(gsc_scaler_get_scale(r.scaler), 4);
    assert_int_equal(stats_of(r.scaler).steps, 0); /* and the counters tell */
    rig_stop(&r);
}

/* The perturbation of SAM is undone when the second pass overflows; the scale halves once. */
/* case 44 */
static void test_case_44_two_passes(void **state)
{
    (void)state;
    static const float passes[][2] = {{65536, INFINITY}, {INFINITY, 65536}, {INFINITY, INFINITY}, {65536, 65536}};
    for (size_t i = 0; i < 4; i++) {
        rig r;
        rig_start(&r, 65536);
        r.param = 1;
        r.grad = passes[i][0];
        assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        bool perturbed = !gsc_scaler_found_inf(r.scaler, &r.optimizer.base);
        if (perturbed)
            r.param += r.grad;
        assert_ok(gsc_scaler_rearm(r.scaler, &r.optimizer.base));
        r.grad = passes[i][1];
        assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        if (perturbed)
            r.param -= 1;
        gsc_step_result result;
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
        assert_int_equal(result.outcome, isinf(passes[i][1]) ? GSC_SKIPPED_OVERFLOW : GSC_STEPPED);
        assert_exact((double)r.param, isinf(passes[i][1]) ? 1 : 0);
        assert_ok(gsc_scaler_update(r.scaler));
        assert_exact(gsc_scaler_get_scale(r.scaler), i < 3 ? 32768 : 65536);
        assert_int_equal(state_of(r.scaler).growth_tracker, i < 3 ? 0 : 1);
        rig_stop(&r);
    }
}

/* case 45 */
static void test_case_45_the_same_batch_again(void **state)
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

/* case 48 */
static void test_case_48_the_result_tells(void **state)
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
static void test_cases_49_and_57_followers(void **state)
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

/* An Adam-like state of one moment per element, over two parameters. */
static gsc_status moments_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)args, (void)value, (void)has_value;
    fake_optimizer *fake = self;
    fake->steps++;
    for (size_t i = 0; i < fake->count; i++) {
        double moment = element_get(&fake->params[i].param, 0);
        element_set(&fake->params[i].param, 0, 0.9 * moment + 0.1 * element_get(&fake->params[i].grad, 0));
    }
    return GSC_OK;
}

static gsc_status moments_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling,
                                      double *value, bool *has_value)
{
    (void)scaling;
    return moments_step(self, args, value, has_value);
}

/* rule 7.1, case 50, 56 */
static void test_cases_50_and_56_state_is_not_poisoned(void **state)
{
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        for (int bad = 0; bad < 2; bad++) {
            rig r;
            rig_start(&r, 8);
            float moment = 0.25f, grad = bad == 1 ? NAN : 8;
            fake_add(&r.optimizer, GSC_FLOAT32, &moment, &grad, 1, "second");
            r.optimizer.base.step = moments_step;
            r.optimizer.base.step_scaled = fused != 0 ? moments_step_scaled : NULL;
            r.param = 0.125f;
            assert_int_equal(rig_iterate(&r, bad == 0 ? INFINITY : 8), GSC_SKIPPED_OVERFLOW);
            assert_exact((double)r.param, 0.125);
            assert_exact((double)moment, 0.25);
            assert_int_equal(r.optimizer.steps, 0); /* its step count too */
            rig_stop(&r);
        }
    }
}

/* The user's own divisor is the optimizer's business: its learning rate, and the multiplier on top. */
/* case 52 */
static void test_case_52_the_users_own_divisor(void **state)
{
    (void)state;
    for (int fused = 0; fused < 2; fused++) {
        rig r;
        rig_start(&r, 65536);
        r.optimizer.base.step_scaled = fused != 0 ? fake_step_scaled : NULL;
        r.optimizer.lr = 1.0 / 4;
        rig_iterate(&r, 4 * 65536);
        assert_exact((double)r.param, -1);
        assert_exact(r.optimizer.lr, 0.25);
        rig_stop(&r);
    }
}

/* case 61 */
static void test_case_61_clip_unscales_first(void **state)
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
static void test_case_64_norms_do_not_follow_the_scale(void **state)
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

/* case 66, 68, conformance I */
static void test_cases_66_and_68_accumulation(void **state)
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

/* case 73 */
static void test_case_73_scale_one_still_checks(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(1, 1);
    options.min_scale = options.max_scale = 1;
    rig r;
    rig_start_with(&r, &options);
    uint16_t grad = 0x7fc0;
    fake_add(&r.optimizer, GSC_BFLOAT16, NULL, &grad, 1, "bf16");
    assert_int_equal(rig_iterate(&r, 1), GSC_SKIPPED_OVERFLOW);
    grad = to_bf16(1);
    assert_int_equal(rig_iterate(&r, 1), GSC_STEPPED);
    assert_exact(gsc_scaler_get_scale(r.scaler), 1);
    rig_stop(&r);
}

static gsc_status never_stepped(void *ctx)
{
    (void)ctx;
    return gsc_fail(GSC_ERR_VALUE, "this test only unscales");
}

/* case 81 */
static void test_case_81_many_small_tensors(void **state)
{
    (void)state;
    enum { N = 1000, SIZE = 64 };
    static float data[N][SIZE];
    static gsc_buffer buffers[N];
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < SIZE; j++)
            data[i][j] = 8.0f * (float)(i + 1);
        buffers[i] = (gsc_buffer){.data = data[i], .count = SIZE, .dtype = GSC_FLOAT32};
    }
    rig r;
    rig_start(&r, 8);
    gsc_optimizer *optimizer = NULL;
    assert_ok(gsc_optimizer_from_buffers(buffers, N, never_stepped, NULL, &optimizer));
    assert_ok(gsc_scaler_unscale(r.scaler, optimizer));
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < SIZE; j++)
            assert_exact((double)data[i][j], i + 1);
    }
    assert_ok(gsc_scaler_update(r.scaler));
    data[777][63] = NAN;
    assert_ok(gsc_scaler_unscale(r.scaler, optimizer));
    gsc_overflow overflow;
    assert_int_equal(gsc_scaler_overflows(r.scaler, optimizer, &overflow, 1), 1);
    assert_int_equal(overflow.index, 777);
    assert_int_equal(overflow.first_index, 63);
    rig_stop(&r);
    gsc_optimizer_free(optimizer);
}

/* case 89 */
static void test_case_89_the_scale_seeds_a_backward_pass(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 512);
    DLTensor view;
    assert_ok(gsc_scaler_scale_view(r.scaler, (DLDevice){kDLCPU, 0}, &view));
    assert_exact(element_get(&view, 0), gsc_scaler_get_scale(r.scaler));
    assert_int_equal(rig_iterate(&r, (float)element_get(&view, 0)), GSC_STEPPED); /* no loss tensor at hand */
    assert_exact((double)r.param, -1);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_case_19_a_new_scaler_takes_over_the_state),
        cmocka_unit_test(test_case_29_every_gradient_is_unscaled),
        cmocka_unit_test(test_cases_31_and_32_divided_once),
        cmocka_unit_test(test_case_33_stepped_once),
        cmocka_unit_test(test_cases_34_and_95_without_scale),
        cmocka_unit_test(test_case_35_update_with_nothing_checked),
        cmocka_unit_test(test_cases_36_and_37_missing_gradients),
        cmocka_unit_test(test_case_39_one_update_an_iteration),
        cmocka_unit_test(test_case_41_unscaled_but_never_stepped),
        cmocka_unit_test(test_case_44_two_passes),
        cmocka_unit_test(test_case_45_the_same_batch_again),
        cmocka_unit_test(test_case_48_the_result_tells),
        cmocka_unit_test(test_cases_49_and_57_followers),
        cmocka_unit_test(test_cases_50_and_56_state_is_not_poisoned),
        cmocka_unit_test(test_case_52_the_users_own_divisor),
        cmocka_unit_test(test_case_61_clip_unscales_first),
        cmocka_unit_test(test_case_64_norms_do_not_follow_the_scale),
        cmocka_unit_test(test_cases_66_and_68_accumulation),
        cmocka_unit_test(test_case_73_scale_one_still_checks),
        cmocka_unit_test(test_case_81_many_small_tensors),
        cmocka_unit_test(test_case_89_the_scale_seeds_a_backward_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
