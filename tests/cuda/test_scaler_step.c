/* SPDX-License-Identifier: Apache-2.0 */
/* A scaler on a device: stages, what waits and what does not, plain and scale-aware steps. */
#include "scaler_rig.h"
#include "standin/abi.h"

static void gradients_are_unscaled_without_waiting(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, NULL);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 4, "a");
    add_grad(&r.optimizer, 0, GSC_FLOAT64, 3, "b");
    set_grad(&r.optimizer, 0, (double[]){8, -16, 0, 2});
    set_grad(&r.optimizer, 1, (double[]){24, 1, 40});
    assert_waits(0, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_UNSCALED);
    assert_exact(grad_at(&r.optimizer, 0, 1), -2);
    assert_exact(grad_at(&r.optimizer, 0, 3), 0.25);
    assert_exact(grad_at(&r.optimizer, 1, 2), 5);
    assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(r.scaler, &r.optimizer.base), "already unscaled");
    assert_exact(grad_at(&r.optimizer, 0, 1), -2);
    rig_stop(&r);
}

/* rule 17.3 */
static void a_plain_step_waits_once(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    rig_start(&r, NULL);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 2, "a");
    for (int i = 0; i < 3; i++) {
        set_grad(&r.optimizer, 0, (double[]){8, -16});
        assert_waits(1, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
        assert_int_equal(result.outcome, GSC_STEPPED);
        assert_exact(result.max_abs, i < 2 ? 2 : 1);
        assert_exact(result.scale, i < 2 ? 8 : 16);
        assert_exact(grad_at(&r.optimizer, 0, 0), i < 2 ? 1 : 0.5);
        assert_waits(0, gsc_scaler_update(r.scaler));
        if (i == 1)
            assert_exact(scale_of(r.scaler), 16);
    }
    assert_int_equal(r.optimizer.steps, 3);
    rig_stop(&r);
}

static void a_plain_step_after_an_overflow_is_not_made(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    rig_start(&r, NULL);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 2, "a");
    set_grad(&r.optimizer, 0, (double[]){INFINITY, -16});
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    assert_exact(result.max_abs, INFINITY);
    assert_exact(result.scale, 8);
    assert_int_equal(r.optimizer.steps, 0);
    assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    assert_fails(GSC_ERR_STATE, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result), "already stepped");
    assert_ok(gsc_scaler_update(r.scaler));
    assert_exact(scale_of(r.scaler), 4);
    assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    rig_stop(&r);
}

/* rule 17.2, 17.3 */
static void a_scale_aware_step_is_pending_until_it_is_asked_for(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    rig_start(&r, NULL);
    r.optimizer.base.step_scaled = optimizer_step_scaled;
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 2, "a");
    for (int i = 0; i < 2; i++) {
        const bool overflows = i == 1;
        set_grad(&r.optimizer, 0, (double[]){8, overflows ? (double)NAN : 24});
        assert_waits(0, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
        assert_int_equal(result.outcome, GSC_PENDING);
        assert_true(result.has_value && result.value == 5.0);
        assert_true(isnan(result.max_abs) && isnan(result.scale) && isnan(result.grad_norm));
        assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_STEPPED);
        assert_int_equal(r.optimizer.scaled_steps, i + 1);
        assert_true(isnan(r.optimizer.last_scaling.multiplier));
        assert_waits(0, gsc_scaler_update(r.scaler));
        assert_exact((double)device_float(r.optimizer.last_scaling.multiplier_dev), 0.125);
        assert_exact((double)device_float(r.optimizer.last_scaling.found_inf_dev), overflows);
        assert_exact(grad_at(&r.optimizer, 0, 0), 8); /* still scaled */
        assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
        assert_int_equal(result.outcome, overflows ? GSC_SKIPPED_OVERFLOW : GSC_STEPPED);
        assert_exact(result.max_abs, overflows ? (double)NAN : 3);
        assert_exact(result.scale, 8);
        assert_true(isnan(result.grad_norm));
    }
    assert_int_equal(r.optimizer.steps, 0);
    const gsc_scaler_stats stats = stats_of(r.scaler);
    assert_int_equal(stats.steps, 1);
    assert_int_equal(stats.skipped_steps, 1);
    assert_int_equal(stats.updates, 2);
    assert_int_equal(stats.backoffs, 1);
    rig_stop(&r);
}

static void unscaled_gradients_are_not_divided_again(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    rig_start(&r, NULL);
    r.optimizer.base.step_scaled = optimizer_step_scaled;
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 2, "a");
    set_grad(&r.optimizer, 0, (double[]){8, 24});
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_waits(0, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_PENDING);
    assert_exact((double)device_float(r.optimizer.last_scaling.multiplier_dev), 1);
    assert_exact(grad_at(&r.optimizer, 0, 1), 3);
    rig_stop(&r);
}

/* rule 15.3, 17.2 */
static void an_iteration_neither_waits_nor_allocates(void **state)
{
    (void)state;
    rig r;
    device_optimizer second;
    rig_start(&r, NULL);
    optimizer_init(&second);
    r.optimizer.base.step_scaled = second.base.step_scaled = optimizer_step_scaled;
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 5000, "a");
    add_grad(&r.optimizer, 0, GSC_BFLOAT16, 3, "b");
    add_grad(&second, 0, GSC_FLOAT32, 7, "c");
    const gsc_step_args clips = {.clip_norm = 1.0};
    for (int i = 0; i < 6; i++) {
        fill_grad(&r.optimizer, 0, i == 3 ? (double)INFINITY : 1);
        fill_grad(&r.optimizer, 1, 1);
        fill_grad(&second, 0, 1);
        standin_run_all();
        standin_reset_counts();
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &clips, NULL));
        assert_ok(gsc_scaler_unscale(r.scaler, &second.base));
        assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &second.base, 0.5, 2.0, NULL));
        assert_ok(gsc_scaler_step(r.scaler, &second.base, NULL, NULL));
        assert_ok(gsc_scaler_update(r.scaler));
        assert_int_equal(standin_synchronisations(), 0);
        if (i > 0)
            assert_int_equal(standin_allocations(), 0);
    }
    assert_int_equal(stats_of(r.scaler).skipped_steps, 1);
    optimizer_free_grads(&second);
    rig_stop(&r);
}

static void a_failed_step_is_told_and_can_be_repeated(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    rig_start(&r, NULL);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "a");
    for (int scaled = 0; scaled < 2; scaled++) {
        r.optimizer.base.step_scaled = scaled ? optimizer_step_scaled : NULL;
        fill_grad(&r.optimizer, 0, 8);
        r.optimizer.failing = true;
        assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result), "asked to fail",
                     scaled ? "still scaled" : "are unscaled");
        assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base),
                         scaled ? GSC_STAGE_READY : GSC_STAGE_UNSCALED);
        r.optimizer.failing = false;
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
        assert_exact(grad_at(&r.optimizer, 0, 0), scaled ? 8 : 1);
        assert_ok(gsc_scaler_update(r.scaler));
        assert_int_equal(stats_of(r.scaler).steps, scaled + 1);
    }
    rig_stop(&r);
}

static void an_optimizer_without_gradients_steps_without_counting(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    rig_start(&r, NULL);
    r.optimizer.base.step_scaled = optimizer_step_scaled;
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "a")->absent = true;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &(gsc_step_args){.clip_norm = 1}, &result));
    assert_int_equal(result.outcome, GSC_NO_GRADS);
    assert_exact(result.grad_norm, 0);
    assert_exact(result.max_abs, 0);
    assert_int_equal(r.optimizer.steps, 1);
    assert_ok(gsc_scaler_update(r.scaler));
    assert_int_equal(state_of(r.scaler).growth_tracker, 0);
    rig_stop(&r);
}

static void a_callers_own_check_counts(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    rig_start(&r, NULL);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "a");
    fill_grad(&r.optimizer, 0, 3);
    assert_waits(0, gsc_scaler_record(r.scaler, &r.optimizer.base, true));
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, NULL, 0), 0);
    assert_ok(gsc_scaler_update(r.scaler));
    assert_exact(scale_of(r.scaler), 4);
    assert_ok(gsc_scaler_record(r.scaler, &r.optimizer.base, false));
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_exact(grad_at(&r.optimizer, 0, 0), 3);
    rig_stop(&r);
}

static void skip_rearm_and_forget_need_no_device(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, NULL);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "a");
    fill_grad(&r.optimizer, 0, (double)INFINITY);
    assert_waits(0, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_waits(0, gsc_scaler_rearm(r.scaler, &r.optimizer.base));
    fill_grad(&r.optimizer, 0, 8); /* the second pass of SAM */
    assert_waits(0, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_waits(0, gsc_scaler_skip(r.scaler, &r.optimizer.base));
    assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base)); /* the overflow still counts */
    assert_waits(0, gsc_scaler_forget(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_exact(scale_of(r.scaler), 4);
    rig_stop(&r);
}

static void buffers_lie_on_the_scalers_device(void **state)
{
    (void)state;
    rig r;
    int key;
    gsc_step_result result;
    rig_start(&r, NULL);
    device_grad *grad = add_grad(&r.optimizer, 0, GSC_FLOAT32, 3, "a");
    const gsc_buffer buffer = {grad->tensor.data, 3, GSC_FLOAT32, "weights"};
    set_grad(&r.optimizer, 0, (double[]){8, 16, 24});
    assert_waits(1, gsc_scaler_step_buffers(r.scaler, &key, &buffer, 1, NULL, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_exact(grad_at(&r.optimizer, 0, 2), 3);
    assert_ok(gsc_scaler_update(r.scaler));
    bool found_inf = false;
    set_grad(&r.optimizer, 0, (double[]){8, (double)NAN, 24});
    assert_ok(gsc_scaler_unscale_buffers(r.scaler, &key, &buffer, 1, &found_inf));
    assert_true(found_inf);
    gsc_overflow overflow;
    assert_int_equal(gsc_scaler_overflows(r.scaler, (const gsc_optimizer *)(const void *)&key, &overflow, 1), 1);
    assert_string_equal(overflow.name, "weights");
    assert_int_equal(overflow.first_index, 1);
    assert_ok(gsc_scaler_step_buffers(r.scaler, &key, &buffer, 1, NULL, &result));
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    assert_ok(gsc_scaler_update(r.scaler));
    assert_waits(0, gsc_scaler_unscale_buffers(r.scaler, &key, &buffer, 1, NULL));
    rig_stop(&r);
}

static void a_disabled_scaler_passes_through(void **state)
{
    (void)state;
    rig r;
    gsc_step_result result;
    gsc_scaler_options options = device_options();
    options.enabled = false;
    rig_start(&r, &options);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 2, "a");
    set_grad(&r.optimizer, 0, (double[]){3, 4});
    assert_exact(gsc_scaler_get_scale(r.scaler), 1);
    assert_ok(gsc_scaler_scale(r.scaler, &r.optimizer.grads[0].tensor, &r.optimizer.grads[0].tensor));
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_waits(0, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_exact(grad_at(&r.optimizer, 0, 1), 4);
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &(gsc_step_args){.clip_norm = 1}, &result));
    assert_exact(result.grad_norm, 5);
    assert_exact(grad_at(&r.optimizer, 0, 0), (double)(3.0f * (float)(1.0 / (5 + 1e-6))));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_ok(gsc_scaler_update_to(r.scaler, 4));
    assert_exact(gsc_scaler_get_scale(r.scaler), 1);
    assert_int_equal(stats_of(r.scaler).steps, 2);
    rig_stop(&r);
}

static uint64_t uploads_of_iteration(rig *r, device_optimizer *second)
{
    standin_run_all();
    const uint64_t before = standin_kernels_run("gsc__kernel_upload");
    assert_ok(gsc_scaler_step(r->scaler, &r->optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_step(r->scaler, &second->base, NULL, NULL));
    assert_ok(gsc_scaler_update(r->scaler));
    standin_run_all();
    return standin_kernels_run("gsc__kernel_upload") - before;
}

/* Also where optimizers take turns, and with gradients that take more than the fast checks. */
static void a_list_is_sent_once(void **state)
{
    (void)state;
    rig r;
    device_optimizer second;
    gsc_scaler_options options = device_options();
    options.allow_fp16_grads = true;
    rig_start(&r, &options);
    optimizer_init(&second);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 4, "a");
    add_grad(&r.optimizer, 0, GSC_FLOAT16, 4, "b");
    device_grad *strided = add_grad(&second, 0, GSC_FLOAT32, 4, "c");
    strided->tensor.ndim = 2;
    strided->shape[0] = strided->shape[1] = 2;
    strided->strides[0] = 1;
    strided->strides[1] = 2;
    strided->tensor.strides = strided->strides;
    fill_grad(&r.optimizer, 0, 1);
    fill_grad(&r.optimizer, 1, 1);
    fill_grad(&second, 0, 1);
    assert_true(uploads_of_iteration(&r, &second) > 0);
    assert_int_equal(uploads_of_iteration(&r, &second), 0);
    assert_int_equal(uploads_of_iteration(&r, &second), 0);
    r.optimizer.grads[1].absent = true;
    const uint64_t uploads = uploads_of_iteration(&r, &second);
    assert_true(uploads > 0);
    assert_int_equal(uploads_of_iteration(&r, &second), 0);
    strided->tensor.strides = NULL; /* the same memory in another order */
    assert_true(uploads_of_iteration(&r, &second) > 0);
    optimizer_free_grads(&second);
    rig_stop(&r);
}

/* Nothing has to be known of the device; the scale then is told later. */
static void a_step_without_gradients_waits_for_nothing(void **state)
{
    (void)state;
    for (int unscaled = 0; unscaled < 2; unscaled++) {
        rig r;
        gsc_step_result result;
        rig_start(&r, NULL);
        r.optimizer.base.step_scaled = optimizer_step_scaled;
        add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "a");
        for (int i = 0; i < 2; i++) { /* the scale grows to 16 */
            fill_grad(&r.optimizer, 0, 8);
            assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
            assert_ok(gsc_scaler_update(r.scaler));
        }
        r.optimizer.grads[0].absent = true;
        for (int clips = 0; clips < 2; clips++) {
            const gsc_step_args args = {.clip_norm = clips ? 1 : 0};
            if (unscaled)
                assert_waits(0, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
            assert_waits(0, gsc_scaler_step(r.scaler, &r.optimizer.base, &args, &result));
            assert_int_equal(result.outcome, GSC_NO_GRADS);
            assert_exact(result.max_abs, 0);
            assert_true(clips ? result.grad_norm == 0 : isnan(result.grad_norm));
            assert_true(isnan(result.scale));
            assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_STEPPED);
            assert_waits(0, gsc_scaler_update(r.scaler));
            assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
            assert_int_equal(result.outcome, GSC_NO_GRADS);
            assert_exact(result.scale, 16);
            assert_exact(result.max_abs, 0);
            assert_true(clips ? result.grad_norm == 0 : isnan(result.grad_norm));
        }
        assert_int_equal(r.optimizer.steps, 2);
        assert_int_equal(r.optimizer.scaled_steps, 2);
        assert_int_equal(stats_of(r.scaler).steps, 2);
        rig_stop(&r);
    }
}

/* The plain step gets the stream of the one device that has gradients. */
static void a_plain_step_has_its_stream(void **state)
{
    (void)state;
    for (int enabled = 0; enabled < 2; enabled++) {
        rig r;
        gsc_scaler_options options = device_options();
        const DLDevice other = {kDLCUDA, 1};
        CUcontext contexts[2];
        CUstream streams[2];
        options.enabled = enabled != 0;
        rig_start(&r, &options);
        for (int device = 0; device < 2; device++) {
            assert_int_equal(cuDevicePrimaryCtxRetain(&contexts[device], device), CUDA_SUCCESS);
            assert_int_equal(cuCtxSetCurrent(contexts[device]), CUDA_SUCCESS);
            assert_int_equal(cuStreamCreate(&streams[device], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        }
        add_grad(&r.optimizer, ON_CPU, GSC_FLOAT32, 1, "host");
        add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "first");
        add_grad(&r.optimizer, 1, GSC_FLOAT32, 1, "second");
        for (size_t i = 0; i < 3; i++)
            fill_grad(&r.optimizer, i, 1);
        r.optimizer.grads[2].absent = true;
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
        assert_ptr_equal(r.optimizer.last_args.stream, CU_STREAM_LEGACY);
        assert_ok(gsc_scaler_update(r.scaler));
        assert_ok(gsc_scaler_set_stream(r.scaler, DEVICE, streams[0]));
        assert_ok(gsc_scaler_set_stream(r.scaler, other, streams[1]));
        for (int p = 0; p < 2; p++) { /* clipped or not */
            const gsc_step_args args = {.clip_norm = p};
            void *const expected[4] = {NULL, streams[0], streams[1], NULL};
            for (int on = 0; on < 4; on++) { /* on none, the first, the second device, both */
                r.optimizer.grads[1].absent = (on & 1) == 0;
                r.optimizer.grads[2].absent = (on & 2) == 0;
                assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, &args, NULL));
                assert_ptr_equal(r.optimizer.last_args.stream, expected[on]);
                assert_true(r.optimizer.last_args.clip_norm == p);
                assert_ok(gsc_scaler_update(r.scaler));
            }
        }
        r.optimizer.grads[1].absent = true;
        assert_ok(gsc_scaler_record(r.scaler, &r.optimizer.base, false));
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
        assert_ptr_equal(r.optimizer.last_args.stream, streams[1]);
        rig_stop(&r);
        for (int device = 0; device < 2; device++) {
            assert_int_equal(cuStreamDestroy_v2(streams[device]), CUDA_SUCCESS);
            assert_int_equal(cuDevicePrimaryCtxRelease_v2(device), CUDA_SUCCESS);
        }
    }
}

static DLTensor *no_gradient(void *self, size_t index)
{
    (void)self;
    (void)index;
    (void)gsc_fail(GSC_ERR_VALUE, "it is elsewhere");
    return GSC_GRAD_FAILED;
}

/* A disabled scaler asks where the gradients are; an optimizer need not be able to tell. */
static void where_gradients_are_may_be_unknown(void **state)
{
    (void)state;
    rig r;
    gsc_scaler_options options = device_options();
    options.enabled = false;
    rig_start(&r, &options);
    add_grad(&r.optimizer, 0, GSC_FLOAT32, 1, "w");
    r.optimizer.base.grad = no_gradient;
    assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL),
                 "gsc_scaler_step: gradient 0 (\"w\"): the optimizer's grad failed: it is elsewhere");
    assert_int_equal(r.optimizer.steps, 0);
    r.optimizer.base.grad = NULL;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_null(r.optimizer.last_args.stream);
    assert_int_equal(r.optimizer.steps, 1);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_unscaled_without_waiting),
        cmocka_unit_test(a_plain_step_waits_once),
        cmocka_unit_test(a_plain_step_after_an_overflow_is_not_made),
        cmocka_unit_test(a_scale_aware_step_is_pending_until_it_is_asked_for),
        cmocka_unit_test(unscaled_gradients_are_not_divided_again),
        cmocka_unit_test(an_iteration_neither_waits_nor_allocates),
        cmocka_unit_test(a_failed_step_is_told_and_can_be_repeated),
        cmocka_unit_test(an_optimizer_without_gradients_steps_without_counting),
        cmocka_unit_test(a_callers_own_check_counts),
        cmocka_unit_test(skip_rearm_and_forget_need_no_device),
        cmocka_unit_test(buffers_lie_on_the_scalers_device),
        cmocka_unit_test(a_disabled_scaler_passes_through),
        cmocka_unit_test(a_list_is_sent_once),
        cmocka_unit_test(a_step_without_gradients_waits_for_nothing),
        cmocka_unit_test(a_plain_step_has_its_stream),
        cmocka_unit_test(where_gradients_are_may_be_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
