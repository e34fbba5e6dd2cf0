/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 6: the stages of each optimizer, and what each call does in each of them. */
#include "rig.h"

typedef enum call { UNSCALE, RECORD, CLIP, STEP, SKIP, REARM, UPDATE, UPDATE_TO, UPDATE_TO_TENSOR } call;

static gsc_status make(rig *r, call which)
{
    const gsc_optimizer *optimizer = &r->optimizer.base;
    float eight = 8;
    DLTensor tensor = tensor_of(GSC_FLOAT32, &eight, NULL);
    switch (which) {
    case UNSCALE: return gsc_scaler_unscale(r->scaler, optimizer);
    case RECORD: return gsc_scaler_record(r->scaler, optimizer, false);
    case CLIP: return gsc_scaler_clip_grad_norm(r->scaler, optimizer, 100, 2, NULL);
    case STEP: return gsc_scaler_step(r->scaler, optimizer, NULL, NULL);
    case SKIP: return gsc_scaler_skip(r->scaler, optimizer);
    case REARM: return gsc_scaler_rearm(r->scaler, optimizer);
    case UPDATE: return gsc_scaler_update(r->scaler);
    case UPDATE_TO: return gsc_scaler_update_to(r->scaler, 8);
    default: return gsc_scaler_update_to_tensor(r->scaler, &tensor);
    }
}

/* rule 6.1, 6.2, 6.3, conformance P */
static void test_every_call_in_every_stage(void **state)
{
    (void)state;
    const gsc_stage ready = GSC_STAGE_READY, unscaled = GSC_STAGE_UNSCALED, stepped = GSC_STAGE_STEPPED;
    const struct {
        int lead_in; /* -1: READY; else the call that leads to the stage */
        call which;
        gsc_status status;
        gsc_stage after;
    } cases[] = {
        {-1, UNSCALE, GSC_OK, unscaled},
        {-1, RECORD, GSC_OK, unscaled},
        {-1, CLIP, GSC_OK, unscaled},
        {-1, STEP, GSC_OK, stepped},
        {-1, SKIP, GSC_OK, stepped},
        {-1, REARM, GSC_OK, ready},
        {-1, UPDATE, GSC_ERR_STATE, ready},
        {-1, UPDATE_TO, GSC_OK, ready},
        {-1, UPDATE_TO_TENSOR, GSC_OK, ready},
        {UNSCALE, UNSCALE, GSC_ERR_STATE, unscaled},
        {UNSCALE, RECORD, GSC_ERR_STATE, unscaled},
        {RECORD, RECORD, GSC_ERR_STATE, unscaled},
        {RECORD, UNSCALE, GSC_ERR_STATE, unscaled},
        {CLIP, UNSCALE, GSC_ERR_STATE, unscaled},
        {UNSCALE, CLIP, GSC_OK, unscaled},
        {RECORD, CLIP, GSC_OK, unscaled},
        {UNSCALE, STEP, GSC_OK, stepped},
        {RECORD, STEP, GSC_OK, stepped},
        {UNSCALE, SKIP, GSC_OK, stepped},
        {UNSCALE, REARM, GSC_OK, ready},
        {UNSCALE, UPDATE, GSC_OK, ready},
        {UNSCALE, UPDATE_TO, GSC_OK, ready},
        {UNSCALE, UPDATE_TO_TENSOR, GSC_OK, ready},
        {STEP, UNSCALE, GSC_ERR_STATE, stepped},
        {STEP, RECORD, GSC_ERR_STATE, stepped},
        {STEP, CLIP, GSC_ERR_STATE, stepped},
        {STEP, STEP, GSC_ERR_STATE, stepped},
        {SKIP, UNSCALE, GSC_ERR_STATE, stepped},
        {SKIP, RECORD, GSC_ERR_STATE, stepped},
        {SKIP, CLIP, GSC_ERR_STATE, stepped},
        {SKIP, STEP, GSC_ERR_STATE, stepped},
        {STEP, REARM, GSC_OK, ready},
        {STEP, UPDATE, GSC_OK, ready},
        {SKIP, UPDATE, GSC_OK, ready},
        {STEP, UPDATE_TO, GSC_OK, ready},
        {STEP, UPDATE_TO_TENSOR, GSC_OK, ready},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int scaled = 0; scaled < 2; scaled++) {
            rig r;
            rig_start(&r, 8);
            r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
            r.grad = 16;
            if (cases[i].lead_in >= 0)
                assert_ok(make(&r, (call)cases[i].lead_in));
            float grad = r.grad, param = r.param;
            if (make(&r, cases[i].which) != cases[i].status)
                fail_msg("case %zu: not %s", i, gsc_status_name(cases[i].status));
            if (cases[i].status != GSC_OK) { /* nothing touched */
                assert_exact((double)r.grad, (double)grad);
                assert_exact((double)r.param, (double)param);
            }
            assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), cases[i].after);
            rig_stop(&r);
        }
    }
}

/* rule 6.2 */
static void test_messages_say_what_was_called(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    r.grad = 8;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_message("unscale");
    assert_message("update");
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_fails(GSC_ERR_STATE, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_message("step");
    assert_message("update");
    rig_stop(&r);
}

/* rule 6.1 */
static void test_an_unknown_optimizer_is_ready(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_READY);
    assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    gsc_step_result result;
    assert_fails(GSC_ERR_STATE, gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, NULL, 0), 0);
    assert_ok(gsc_scaler_forget(r.scaler, &r.optimizer.base));
    rig_stop(&r);
}

/* rule 6.1 */
static void test_stages_are_per_optimizer_and_update_resets_all(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    fake_optimizer other, third;
    float grad = 8, third_grad = 8;
    fake_init(&other);
    fake_add(&other, GSC_FLOAT32, NULL, &grad, 1, "other");
    fake_init(&third);
    fake_add(&third, GSC_FLOAT32, NULL, &third_grad, 1, "third");
    r.grad = 8;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_step(r.scaler, &other.base, NULL, NULL));
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_UNSCALED);
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &other.base), GSC_STAGE_STEPPED);
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &third.base), GSC_STAGE_READY);
    assert_exact((double)third_grad, 8);
    assert_ok(gsc_scaler_update(r.scaler));
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_READY);
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &other.base), GSC_STAGE_READY);
    assert_int_equal(state_of(r.scaler).growth_tracker, 1); /* two optimizers, one iteration */
    rig_stop(&r);
}

static double closure_value(void *ctx)
{
    ++*(int *)ctx;
    return 42;
}

/* rule 6.4, case 43 */
static void test_closure_is_refused_while_enabled(void **state)
{
    (void)state;
    int calls = 0;
    gsc_step_args args = {.closure = closure_value, .closure_ctx = &calls};
    for (int scaled = 0; scaled < 2; scaled++) {
        rig r;
        rig_start(&r, 8);
        r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
        r.grad = 16;
        assert_fails(GSC_ERR_STATE, gsc_scaler_step(r.scaler, &r.optimizer.base, &args, NULL));
        assert_message("closure");
        assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_READY);
        assert_exact((double)r.grad, 16);
        assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_fails(GSC_ERR_STATE, gsc_scaler_step(r.scaler, &r.optimizer.base, &args, NULL));
        assert_int_equal(calls, 0);
        assert_int_equal(r.optimizer.steps + r.optimizer.scaled_steps, 0);
        rig_stop(&r);
    }
}

/* rule 6.5 */
static void test_a_failing_step_leaves_unscaled(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    r.optimizer.failing = true;
    r.grad = 16;
    assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_message("the fake step failed");
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_UNSCALED);
    assert_exact((double)r.grad, 2);
    assert_exact((double)r.param, 0);
    r.optimizer.failing = false; /* once more: not unscaled again */
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_exact((double)r.param, -2);
    assert_int_equal(stats_of(r.scaler).steps, 1);
    rig_stop(&r);
}

/* rule 6.6 */
static void test_a_failing_scaled_step_leaves_ready(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    r.optimizer.base.step_scaled = fake_step_scaled;
    r.optimizer.failing = true;
    r.grad = 16;
    assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_message("the fake step failed");
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_READY);
    assert_exact((double)r.grad, 16); /* still scaled */
    r.optimizer.failing = false;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_exact((double)r.param, -2);
    rig_stop(&r);
}

/* rule 6.7 */
static void test_what_a_failed_step_checked_still_counts(void **state)
{
    (void)state;
    for (int scaled = 0; scaled < 2; scaled++) {
        rig r;
        rig_start(&r, 8);
        r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
        r.optimizer.failing = true;
        for (int i = 0; i < 2; i++) {
            r.grad = 16;
            assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
            assert_ok(gsc_scaler_update(r.scaler));
        }
        assert_exact(gsc_scaler_get_scale(r.scaler), 16); /* two clean iterations, interval 2 */
        assert_int_equal(stats_of(r.scaler).steps, 0);
        rig_stop(&r);
    }
}

/* rule 6.7 */
static void test_rearm_keeps_an_overflow(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    assert_int_equal(rig_step(&r, INFINITY), GSC_SKIPPED_OVERFLOW);
    assert_ok(gsc_scaler_rearm(r.scaler, &r.optimizer.base));
    assert_int_equal(rig_step(&r, 16), GSC_STEPPED); /* the second pass is clean and steps */
    assert_exact((double)r.param, -2);
    assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base)); /* since the last update */
    assert_ok(gsc_scaler_update(r.scaler));
    assert_exact(gsc_scaler_get_scale(r.scaler), 4);
    assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    rig_stop(&r);
}

/* rule 6.7 */
static void test_rearm_counts_one_iteration(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    assert_int_equal(rig_step(&r, 8), GSC_STEPPED);
    assert_ok(gsc_scaler_rearm(r.scaler, &r.optimizer.base));
    assert_int_equal(rig_step(&r, 8), GSC_STEPPED);
    assert_ok(gsc_scaler_update(r.scaler));
    assert_int_equal(state_of(r.scaler).growth_tracker, 1);
    rig_stop(&r);
}

/* rule 6.7 */
static void test_forget_keeps_the_overflow(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    r.grad = INFINITY;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_forget(r.scaler, &r.optimizer.base));
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_READY);
    assert_ok(gsc_scaler_update(r.scaler));
    assert_exact(gsc_scaler_get_scale(r.scaler), 4);
    r.grad = 4; /* a clean check of a forgotten optimizer counts as well */
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_forget(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_int_equal(state_of(r.scaler).growth_tracker, 1);
    rig_stop(&r);
}

/* rule 6.1 */
static void test_many_optimizers(void **state)
{
    (void)state;
    enum { N = 100 };
    static fake_optimizer optimizers[N];
    static float grads[N];
    gsc_scaler_options options = options_of(8, 2);
    gsc_scaler *scaler = new_scaler(&options);
    for (int i = 0; i < N; i++) {
        fake_init(&optimizers[i]);
        grads[i] = 8.0f * (float)i;
        fake_add(&optimizers[i], GSC_FLOAT32, NULL, &grads[i], 1, "g");
        assert_ok(gsc_scaler_unscale(scaler, &optimizers[i].base));
    }
    for (int i = 0; i < N; i += 2)
        assert_ok(gsc_scaler_forget(scaler, &optimizers[i].base));
    for (int i = 0; i < N; i++) {
        assert_exact((double)grads[i], i);
        assert_int_equal(gsc_scaler_get_stage(scaler, &optimizers[i].base),
                         i % 2 == 0 ? GSC_STAGE_READY : GSC_STAGE_UNSCALED);
    }
    gsc_scaler_destroy(scaler);
}

/* case 31, 32 */
static void test_divided_once(void **state)
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
static void test_stepped_once(void **state)
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

/* The perturbation of SAM is undone when the second pass overflows; the scale halves once. */
/* case 44 */
static void test_two_passes(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_call_in_every_stage),
        cmocka_unit_test(test_messages_say_what_was_called),
        cmocka_unit_test(test_an_unknown_optimizer_is_ready),
        cmocka_unit_test(test_stages_are_per_optimizer_and_update_resets_all),
        cmocka_unit_test(test_closure_is_refused_while_enabled),
        cmocka_unit_test(test_a_failing_step_leaves_unscaled),
        cmocka_unit_test(test_a_failing_scaled_step_leaves_ready),
        cmocka_unit_test(test_what_a_failed_step_checked_still_counts),
        cmocka_unit_test(test_rearm_keeps_an_overflow),
        cmocka_unit_test(test_rearm_counts_one_iteration),
        cmocka_unit_test(test_forget_keeps_the_overflow),
        cmocka_unit_test(test_many_optimizers),
        cmocka_unit_test(test_divided_once),
        cmocka_unit_test(test_stepped_once),
        cmocka_unit_test(test_two_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
