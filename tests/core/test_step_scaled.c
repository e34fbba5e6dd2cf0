/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 7: step_scaled, which multiplies on the fly, beside the plain step. */
#include <float.h>

#include "rig.h"

/* rule 7.5 */
static void test_the_fused_path_multiplies_on_the_fly(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 65536);
    r.optimizer.base.step_scaled = fake_step_scaled;
    r.grad = 65536 * 3;
    gsc_step_result result;
    r.optimizer.has_value = true;
    r.optimizer.value = -7;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_exact(result.value, -7);
    assert_exact(result.max_abs, 3);
    assert_exact(result.grad_norm, (double)NAN);
    assert_int_equal(r.optimizer.scaled_steps, 1);
    assert_int_equal(r.optimizer.steps, 0);
    assert_exact(r.optimizer.last_scaling.multiplier, 1.0 / 65536);
    assert_null(r.optimizer.last_scaling.multiplier_dev);
    assert_null(r.optimizer.last_scaling.found_inf_dev);
    assert_null(r.optimizer.last_scaling.stream);
    assert_null(r.optimizer.last_scaling.multiplier64_dev);
    for (size_t i = 0; i < sizeof r.optimizer.last_scaling.reserved / sizeof(uint64_t); i++)
        assert_int_equal(r.optimizer.last_scaling.reserved[i], 0);
    assert_exact((double)r.grad, 65536 * 3); /* stays scaled */
    assert_exact((double)r.param, -3);
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_STEPPED);
    rig_stop(&r);
}

/* rule 7.5, case 51 */
static void test_the_fused_path_after_unscale_divides_no_more(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 65536);
    r.optimizer.base.step_scaled = fake_step_scaled;
    r.grad = 65536;
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 10, 2, NULL));
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_int_equal(r.optimizer.steps + r.optimizer.scaled_steps, 1);
    assert_exact((double)r.param, -1);
    rig_stop(&r);
}

/* rule 7.6, case 51 */
static void test_the_fused_path_equals_the_plain_one_to_rounding(void **state)
{
    (void)state;
    enum { N = 257 };
    static float plain_params[N], fused_params[N], plain_grads[N], fused_grads[N];
    static const double scales[] = {3, 65536, 1000, 0.7};
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
        for (int clipping = 0; clipping < 2; clipping++) {
            gsc_scaler_options options = options_of(scales[s], 1);
            gsc_scaler *scaler = new_scaler(&options);
            fake_optimizer plain, fused;
            fake_init(&plain);
            fake_init(&fused);
            fused.base.step_scaled = fake_step_scaled;
            fake_add(&plain, GSC_FLOAT32, plain_params, plain_grads, N, "p");
            fake_add(&fused, GSC_FLOAT32, fused_params, fused_grads, N, "p");
            for (int i = 0; i < N; i++) {
                plain_params[i] = fused_params[i] = 0;
                plain_grads[i] = fused_grads[i] = (float)scales[s] * (float)(i - 128) * 0.013f;
            }
            gsc_step_args args = {.clip_norm = clipping != 0 ? 0.5 : 0};
            gsc_step_result a, b;
            assert_ok(gsc_scaler_step(scaler, &plain.base, &args, &a));
            assert_ok(gsc_scaler_step(scaler, &fused.base, &args, &b));
            assert_exact(a.grad_norm, b.grad_norm);
            assert_exact(a.max_abs, b.max_abs);
            for (int i = 0; i < N; i++) {
                double difference = fabs((double)plain_params[i] - (double)fused_params[i]);
                assert_true(difference <= 3 * (double)FLT_EPSILON * fabs((double)plain_params[i]));
            }
            gsc_scaler_destroy(scaler);
        }
    }
}

/* The training case that PyTorch's tests share: init 128, interval 1, overflow at the third of four batches. */
typedef struct shared_case {
    bool enabled, unscale_first, fused;
    double clip_norm;
} shared_case;

static void run_shared_case(const shared_case *c)
{
    gsc_scaler_options options = options_of(128, 1);
    options.enabled = c->enabled;
    rig r, control;
    rig_start_with(&r, &options);
    rig_start_with(&control, &options);
    gsc_scaler_options plain = options;
    plain.enabled = false;
    gsc_scaler_destroy(control.scaler);
    control.scaler = new_scaler(&plain);
    r.optimizer.base.step_scaled = c->fused ? fake_step_scaled : NULL;
    r.param = control.param = 1;
    gsc_step_args args = {.clip_norm = c->clip_norm};
    for (int i = 0; i < 4; i++) {
        float g = 0.25f * (float)(i + 1);
        bool overflow = i == 2;
        r.grad = overflow && c->enabled ? INFINITY : g * (float)gsc_scaler_get_scale(r.scaler);
        if (c->unscale_first)
            assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &args, NULL));
        assert_ok(gsc_scaler_update(r.scaler));
        control.grad = g;
        if (!overflow || !c->enabled)
            assert_ok(gsc_scaler_step(control.scaler, &control.optimizer.base, &args, NULL));
        assert_float_equal(r.param, control.param, 1e-6);
    }
    assert_exact(gsc_scaler_get_scale(r.scaler), c->enabled ? 128.0 * 2 * 2 * 0.5 * 2 : 1);
    rig_stop(&r);
    rig_stop(&control);
}

/* case 82, conformance D, H, O, 50, 102, 103, 132 */
static void test_the_shared_training_case(void **state)
{
    (void)state;
    for (int bits = 0; bits < 16; bits++) {
        const shared_case c = {.enabled = (bits & 1) != 0,
                               .unscale_first = (bits & 2) != 0,
                               .fused = (bits & 4) != 0,
                               .clip_norm = (bits & 8) != 0 ? 0.2 : 0};
        run_shared_case(&c);
    }
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
static void test_state_is_not_poisoned(void **state)
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

/* A divisor of the user's own belongs into the learning rate; the multiplier is applied in addition. */
/* case 52 */
static void test_the_users_own_divisor(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_fused_path_multiplies_on_the_fly),
        cmocka_unit_test(test_the_fused_path_after_unscale_divides_no_more),
        cmocka_unit_test(test_the_fused_path_equals_the_plain_one_to_rounding),
        cmocka_unit_test(test_the_shared_training_case),
        cmocka_unit_test(test_state_is_not_poisoned),
        cmocka_unit_test(test_the_users_own_divisor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
