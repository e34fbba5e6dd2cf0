/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 11: a disabled scaler passes through. */
#include "rig.h"

static void start(rig *r)
{
    gsc_scaler_options options = options_of(65536, 2);
    options.enabled = false;
    rig_start_with(r, &options);
}

/* rule 11.1 */
static void test_scale_copies(void **state)
{
    (void)state;
    rig r;
    start(&r);
    assert_false(gsc_scaler_is_enabled(r.scaler));
    assert_exact(gsc_scaler_get_scale(r.scaler), 1);
    uint32_t bits[4] = {0x7f800001u, 0xffc12345u, 1u, 0x80000000u}, copy[4] = {0}; /* every bit, NaNs too */
    int64_t four = 4;
    DLTensor in = tensor_of(GSC_FLOAT32, bits, &four), out = tensor_of(GSC_FLOAT32, copy, &four);
    assert_ok(gsc_scaler_scale(r.scaler, &in, &out));
    assert_memory_equal(bits, copy, sizeof bits);
    assert_ok(gsc_scaler_scale(r.scaler, &in, &in));
    assert_memory_equal(bits, copy, sizeof bits);
    uint16_t half[2] = {to_fp16(65504), to_fp16(0x1p-24)};
    float wide[2];
    int64_t two = 2;
    in = tensor_of(GSC_FLOAT16, half, &two);
    out = tensor_of(GSC_FLOAT32, wide, &two);
    assert_ok(gsc_scaler_scale(r.scaler, &in, &out));
    assert_exact((double)wide[0], 65504);
    assert_exact((double)wide[1], 0x1p-24);
    out.dtype.code = kDLInt; /* arguments are checked nevertheless */
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(r.scaler, &in, &out));
    DLTensor view;
    assert_ok(gsc_scaler_scale_view(r.scaler, (DLDevice){kDLCPU, 0}, &view));
    assert_exact(element_get(&view, 0), 1);
    rig_stop(&r);
}

static double closure_value(void *ctx)
{
    ++*(int *)ctx;
    return 42;
}

/* rule 11.2, case 43, conformance O */
static void test_step_calls_the_optimizer(void **state)
{
    (void)state;
    rig r;
    start(&r);
    int calls = 0;
    gsc_step_args args = {.closure = closure_value, .closure_ctx = &calls};
    r.grad = 2;
    gsc_step_result result;
    memset(&result, 0xff, sizeof result);
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &args, &result));
    assert_int_equal(calls, 1); /* closures too */
    assert_true(result.has_value);
    assert_exact(result.value, 42);
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_reserved_zero(result);
    assert_exact((double)r.param, -2);
    assert_exact((double)r.grad, 2);
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL)); /* as often as the caller likes */
    assert_int_equal(r.optimizer.steps, 2);
    rig_stop(&r);
}

/* rule 11.2, case 47 */
static void test_an_infinite_gradient_is_applied(void **state)
{
    (void)state;
    rig r;
    start(&r);
    r.grad = INFINITY;
    gsc_step_result result;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_exact((double)r.param, -(double)INFINITY);
    assert_ok(gsc_scaler_update(r.scaler));
    assert_exact(gsc_scaler_get_scale(r.scaler), 1);
    assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    rig_stop(&r);
}

/* rule 11.2 */
static void test_without_gradients_it_is_stepped_too(void **state)
{
    (void)state;
    rig r;
    start(&r);
    r.optimizer.params[0].absent = true;
    gsc_step_result result;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_int_equal(r.optimizer.steps, 1);
    rig_stop(&r);
}

/* rule 11.2 */
static void test_clip_norm_is_honoured(void **state)
{
    (void)state;
    for (int scaled = 0; scaled < 2; scaled++) {
        rig r;
        start(&r);
        float param = 0, grad = 4;
        fake_add(&r.optimizer, GSC_FLOAT32, &param, &grad, 1, "second");
        r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
        r.grad = 3;
        gsc_step_args args = {.clip_norm = 1};
        gsc_step_result result;
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &args, &result));
        assert_int_equal(result.outcome, GSC_STEPPED);
        assert_exact(result.grad_norm, 5);
        assert_float_equal(r.param, -0.6, 1e-6);
        assert_float_equal(param, -0.8, 1e-6);
        assert_true(stats_of(r.scaler).steps == 1);
        args.clip_norm = -1;
        assert_fails(GSC_ERR_VALUE, gsc_scaler_step(r.scaler, &r.optimizer.base, &args, NULL));
        rig_stop(&r);
    }
}

/* rule 11.3 */
static void test_clip_grad_norm_clips(void **state)
{
    (void)state;
    rig r;
    start(&r);
    r.grad = 10;
    double norm;
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1, 2, &norm));
    assert_exact(norm, 10); /* not unscaled: nothing was scaled */
    assert_float_equal(r.grad, 1, 1e-6);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, -1, 2, &norm));
    rig_stop(&r);
}

/* float16 is refused because dividing it by the scale loses digits; a disabled scaler divides nothing. */
static void test_float16_is_clipped(void **state)
{
    (void)state;
    rig r;
    start(&r);
    uint16_t half = 0x4900; /* 10 */
    r.optimizer.params[0].grad.dtype = GSC_FLOAT16;
    r.optimizer.params[0].grad.data = &half;
    r.optimizer.params[0].param.data = NULL;
    double norm;
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 5, 2, &norm));
    assert_exact(norm, 10);
    assert_int_equal(half, 0x4500); /* 5 */
    const gsc_step_args args = {.clip_norm = 2.5};
    gsc_step_result result;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &args, &result));
    assert_exact(result.grad_norm, 5);
    assert_int_equal(half, 0x4100); /* 2.5 */
    rig_stop(&r);
}

/* rule 11.3, case 47 */
static void test_the_other_calls_do_nothing(void **state)
{
    (void)state;
    rig r;
    start(&r);
    const gsc_optimizer *optimizer = &r.optimizer.base;
    r.grad = 65536;
    for (int i = 0; i < 2; i++) {
        assert_ok(gsc_scaler_unscale(r.scaler, optimizer));
        assert_ok(gsc_scaler_record(r.scaler, optimizer, true));
        assert_ok(gsc_scaler_skip(r.scaler, optimizer));
        assert_ok(gsc_scaler_rearm(r.scaler, optimizer));
        assert_ok(gsc_scaler_update(r.scaler));
        assert_ok(gsc_scaler_update_to(r.scaler, 8));
        assert_ok(gsc_scaler_set_stream(r.scaler, (DLDevice){kDLCPU, 0}, NULL));
        assert_ok(gsc_scaler_forget(r.scaler, optimizer));
    }
    assert_exact((double)r.grad, 65536);
    assert_exact(gsc_scaler_get_scale(r.scaler), 1);
    assert_int_equal(gsc_scaler_get_stage(r.scaler, optimizer), GSC_STAGE_READY);
    assert_false(gsc_scaler_found_inf(r.scaler, optimizer));
    assert_int_equal(gsc_scaler_overflows(r.scaler, optimizer, NULL, 0), 0);
    assert_int_equal(r.optimizer.steps, 0);
    rig_stop(&r);
}

/* A disabled scaler does not check gradients: those that an enabled one refuses are stepped. */
/* rule 11.2 */
static void test_any_gradient_may_be_stepped(void **state)
{
    (void)state;
    rig r;
    start(&r);
    uint16_t param = 0, grad = to_fp16(1);
    fake_add(&r.optimizer, GSC_FLOAT16, &param, &grad, 1, "half");
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_exact(from_fp16(param), -1);
    rig_stop(&r);
}

/* rule 11.4, case 94 */
static void test_state_is_empty_and_loading_is_checked_and_ignored(void **state)
{
    (void)state;
    rig r;
    start(&r);
    const gsc_scaler_state empty = {0};
    gsc_scaler_state saved = state_of(r.scaler);
    assert_memory_equal(&saved, &empty, sizeof empty);
    assert_ok(gsc_scaler_load_state_dict(r.scaler, &empty));
    gsc_scaler_state full = {.scale = 8, .growth_factor = 4, .backoff_factor = 0.25, .growth_interval = 9};
    assert_ok(gsc_scaler_load_state_dict(r.scaler, &full));
    saved = state_of(r.scaler);
    assert_memory_equal(&saved, &empty, sizeof empty);
    assert_exact(gsc_scaler_get_growth_factor(r.scaler), 2);
    full.growth_factor = 0.5;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_load_state_dict(r.scaler, &full));
    rig_stop(&r);
}

/* rule 11.2 */
static void test_a_failing_step_is_told(void **state)
{
    (void)state;
    rig r;
    start(&r);
    r.optimizer.failing = true;
    assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_message("the fake step failed");
    rig_stop(&r);
}

static gsc_scaler *open_scaler;
static fake_optimizer *open_optimizer;
static gsc_status in_grad;

static gsc_status step_that_forgets(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)self, (void)args, (void)value, (void)has_value;
    if (gsc_scaler_forget(open_scaler, &open_optimizer->base) != GSC_OK)
        return GSC_ERR_STATE;
    gsc_scaler_destroy(open_scaler); /* refused: the scaler is in use by this step */
    return gsc_scaler_update(open_scaler);
}

static DLTensor *grad_that_clips(void *self, size_t index)
{
    in_grad = gsc_scaler_clip_grad_norm(open_scaler, &open_optimizer->base, 1, 2, NULL);
    return fake_grad(self, index);
}

static void test_its_step_may_call_it(void **state)
{
    (void)state;
    rig r;
    start(&r);
    open_scaler = r.scaler;
    open_optimizer = &r.optimizer;
    r.optimizer.base.step = step_that_forgets;
    gsc_step_result result;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_fails(GSC_ERR_STATE, gsc_scaler_result(r.scaler, &r.optimizer.base, &result)); /* forgotten */
    rig_stop(&r);
}

static void test_its_other_callbacks_may_not(void **state)
{
    (void)state;
    rig r;
    start(&r);
    open_scaler = r.scaler;
    open_optimizer = &r.optimizer;
    r.optimizer.base.grad = grad_that_clips;
    r.grad = 10;
    double norm = 0;
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1, 2, &norm));
    assert_exact(norm, 10);
    assert_status(in_grad, GSC_ERR_STATE);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scale_copies),
        cmocka_unit_test(test_step_calls_the_optimizer),
        cmocka_unit_test(test_an_infinite_gradient_is_applied),
        cmocka_unit_test(test_without_gradients_it_is_stepped_too),
        cmocka_unit_test(test_clip_norm_is_honoured),
        cmocka_unit_test(test_clip_grad_norm_clips),
        cmocka_unit_test(test_float16_is_clipped),
        cmocka_unit_test(test_the_other_calls_do_nothing),
        cmocka_unit_test(test_any_gradient_may_be_stepped),
        cmocka_unit_test(test_state_is_empty_and_loading_is_checked_and_ignored),
        cmocka_unit_test(test_a_failing_step_is_told),
        cmocka_unit_test(test_its_step_may_call_it),
        cmocka_unit_test(test_its_other_callbacks_may_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
