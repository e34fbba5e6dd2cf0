/* SPDX-License-Identifier: Apache-2.0 */
/* Each sentence of the tensorplay.GradScaler page that states a behaviour, as a test. The numbers are those
 * of tests/coverage.tsv; sentences that both pages state are tested in test_lucid.c. */
#include "page_helpers.h"

/* ---- the signature and the parameters ---- */

/* "GradScaler(device, init_scale = 65536.0, growth_factor = 2.0, backoff_factor = 0.5, growth_interval = 2000,
 * enabled = True)": in C the device defaults to the CPU */
/* page tensorplay 1 */
static void the_default_options_are_those_of_the_signature(void **state)
{
    (void)state;
    gsc_scaler_options options = gsc_scaler_options_default();
    assert_int_equal(kDLCPU, options.device.device_type);
    assert_int_equal(0, options.device.device_id);
    assert_exact(options.init_scale, 65536);
    assert_exact(options.growth_factor, 2);
    assert_exact(options.backoff_factor, 0.5);
    assert_int_equal(2000, options.growth_interval);
    assert_true(options.enabled);
}

/* "device: device type to use": one that is not served is an error, never a scaler that silently does nothing */
/* page tensorplay 9 */
static void a_device_that_is_not_served_is_refused(void **state)
{
    (void)state;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.device = (DLDevice){kDLCUDA, 0};
    gsc_scaler *scaler = NULL;
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_create(&options, &scaler));
    assert_null(scaler);
    assert_message("device");
}

/* "enabled: if False, disables gradient scaling. step() simply invokes the underlying optimizer.step(), and other
 * methods become no-ops" */
/* page tensorplay 10 */
static void disabled_step_invokes_the_optimizer_and_the_rest_does_nothing(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_disabled_scaler();
    single one;
    const gsc_optimizer *optimizer = single_init(&one, 5, 2);
    one.fake.has_value = true;
    one.fake.value = 0.75;
    for (int i = 0; i < 2; i++) {
        assert_ok(gsc_scaler_unscale(scaler, optimizer));
        assert_exact((double)one.grad, 2);
    }
    gsc_step_result result;
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, &result));
    assert_int_equal(GSC_STEPPED, result.outcome);
    assert_true(result.has_value);
    assert_exact(result.value, 0.75);
    assert_exact((double)one.param, 3);
    assert_int_equal(1, one.fake.steps);
    assert_ok(gsc_scaler_update(scaler));
    assert_ok(gsc_scaler_update_to(scaler, 8));
    assert_exact(gsc_scaler_get_scale(scaler), 1);
    gsc_scaler_destroy(scaler);
}

/* ---- the idea ---- */

/* "scaler.scale(loss) multiplies a given loss by scaler's current scale factor": current, also after it changed */
/* page tensorplay 2 */
static void scale_multiplies_by_the_current_scale(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    single one;
    single_init(&one, 0, 0);
    for (int i = 0; i < 4; i++) {
        float loss = 1.5f;
        DLTensor tensor = tensor_of(GSC_FLOAT32, &loss, NULL);
        assert_ok(gsc_scaler_scale(scaler, &tensor, &tensor));
        assert_exact((double)loss, 1.5 * 65536 / (1 << i));
        iterate(scaler, &one, INFINITY);
    }
    gsc_scaler_destroy(scaler);
}

/* "the optimal scale factor is the largest factor that can be used without incurring inf or NaN gradient values; scaler
 * approximates it over time by checking the gradients during every step (or optional separate unscale_)" */
/* page tensorplay 6 */
static void the_scale_approaches_the_largest_that_does_not_overflow(void **state)
{
    (void)state;
    for (int explicitly = 0; explicitly < 2; explicitly++) {
        gsc_scaler *scaler = new_scaler_with(0x1p30, 10);
        single one;
        const gsc_optimizer *optimizer = single_init(&one, 0, 0);
        for (int i = 0; i < 60; i++) {
            one.grad =
                (float)from_fp16(to_fp16(4 * gsc_scaler_get_scale(scaler))); /* 4 * 2^13 fits, 4 * 2^14 does not */
            if (explicitly)
                assert_ok(gsc_scaler_unscale(scaler, optimizer));
            assert_ok(gsc_scaler_step(scaler, optimizer, NULL, NULL));
            assert_ok(gsc_scaler_update(scaler));
        }
        double scale = gsc_scaler_get_scale(scaler);
        assert_true(scale == 0x1p13 || scale == 0x1p14);
        gsc_scaler_destroy(scaler);
    }
}

/* "if infs/NaNs are found, step skips the underlying optimizer.step() (so the params themselves remain uncorrupted)":
 * every parameter of the optimizer keeps every bit, and the optimizer is not called */
/* page tensorplay 7, 22 */
static void a_skipped_step_leaves_the_parameters_uncorrupted(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    float good[2] = {1, -0.0f}, bad[2] = {0x1p-149f, 3}, good_grad[2] = {1, 1}, bad_grad[2] = {1, NAN};
    const float good_before[2] = {1, -0.0f}, bad_before[2] = {0x1p-149f, 3};
    fake_optimizer fake;
    fake_init(&fake);
    fake_add(&fake, GSC_FLOAT32, good, good_grad, 2, "good");
    fake_add(&fake, GSC_FLOAT32, bad, bad_grad, 2, "bad");
    assert_ok(gsc_scaler_step(scaler, &fake.base, NULL, NULL));
    assert_int_equal(0, fake.steps);
    assert_memory_equal(good_before, good, sizeof good);
    assert_memory_equal(bad_before, bad, sizeof bad);
    gsc_scaler_destroy(scaler);
}

/* "if no infs/NaNs are found, step runs optimizer.step() as usual. If growth_interval unskipped iterations occur
 * consecutively, update() multiplies the scale by growth_factor": at the interval, and again after as many more */
/* page tensorplay 4, 8, 29 */
static void growth_needs_growth_interval_consecutive_unskipped_iterations(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(8, 3);
    single one;
    single_init(&one, 0, 0);
    const float gradients[] = {1, 1, 1, 1, 1, 1, 1, 1, NAN, 1, 1, 1};
    const double scales[] = {8, 8, 16, 16, 16, 32, 32, 32, 16, 16, 16, 32};
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++) {
        assert_int_equal(!isnan(gradients[i]), iterate(scaler, &one, gradients[i]));
        assert_exact(gsc_scaler_get_scale(scaler), scales[i]);
    }
    gsc_scaler_destroy(scaler);
}

/* ---- getters and setters ---- */

/* "get_backoff_factor, get_growth_factor, get_growth_interval, get_scale, is_enabled" */
/* page tensorplay 11 */
static void getters_return_what_was_given(void **state)
{
    (void)state;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = 1024;
    options.growth_factor = 1.5;
    options.backoff_factor = 0.1; /* not a float32 value: factors are doubles */
    options.growth_interval = INT64_C(5000000000);
    gsc_scaler *scaler = new_scaler(&options);
    assert_exact(gsc_scaler_get_scale(scaler), 1024);
    assert_exact(gsc_scaler_get_growth_factor(scaler), 1.5);
    assert_exact(gsc_scaler_get_backoff_factor(scaler), 0.1);
    assert_true(gsc_scaler_get_growth_interval(scaler) == INT64_C(5000000000));
    assert_true(gsc_scaler_is_enabled(scaler));
    gsc_scaler_destroy(scaler);
}

/* "get_scale: ... or 1.0 if scaling is disabled"; "is_enabled" */
/* page tensorplay 12 */
static void a_disabled_scaler_has_scale_one(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_disabled_scaler();
    assert_exact(gsc_scaler_get_scale(scaler), 1);
    assert_false(gsc_scaler_is_enabled(scaler));
    gsc_scaler_destroy(scaler);
}

/* "set_backoff_factor, set_growth_factor, set_growth_interval": stored, and used by the next update */
/* page tensorplay 13 */
static void setters_set_what_the_schedule_uses(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(16, 2000);
    single one;
    single_init(&one, 0, 0);
    assert_ok(gsc_scaler_set_growth_factor(scaler, 4));
    assert_ok(gsc_scaler_set_backoff_factor(scaler, 0.125));
    assert_ok(gsc_scaler_set_growth_interval(scaler, 1));
    assert_exact(gsc_scaler_get_growth_factor(scaler), 4);
    assert_exact(gsc_scaler_get_backoff_factor(scaler), 0.125);
    assert_int_equal(1, gsc_scaler_get_growth_interval(scaler));
    iterate(scaler, &one, 1);
    assert_exact(gsc_scaler_get_scale(scaler), 64);
    iterate(scaler, &one, INFINITY);
    assert_exact(gsc_scaler_get_scale(scaler), 8);
    gsc_scaler_destroy(scaler);
}

/* Setters keep to the constructor's ranges, enabled or not. */
/* page tensorplay 13 */
static void setters_refuse_what_the_constructor_refuses(void **state)
{
    (void)state;
    for (int enabled = 0; enabled < 2; enabled++) {
        gsc_scaler *scaler = enabled ? new_scaler(NULL) : new_disabled_scaler();
        assert_fails(GSC_ERR_VALUE, gsc_scaler_set_growth_factor(scaler, 1));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_set_growth_factor(scaler, (double)NAN));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_set_backoff_factor(scaler, 1));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_set_backoff_factor(scaler, 0));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_set_growth_interval(scaler, 0));
        assert_exact(gsc_scaler_get_growth_factor(scaler), 2);
        assert_exact(gsc_scaler_get_backoff_factor(scaler), 0.5);
        assert_int_equal(2000, gsc_scaler_get_growth_interval(scaler));
        gsc_scaler_destroy(scaler);
    }
}

/* ---- scale ---- */

/* "scale: a tensor, a list, a tuple or an iterable": in C all are arrays of tensors, of any length and mixed dtypes */
/* page tensorplay 16 */
static void scale_takes_arrays_of_tensors(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(2, 2000);
    float a = 1;
    double b = 2;
    uint16_t c = to_bf16(3);
    DLTensor tensors[] = {tensor_of(GSC_FLOAT32, &a, NULL), tensor_of(GSC_FLOAT64, &b, NULL),
                          tensor_of(GSC_BFLOAT16, &c, NULL)};
    DLTensor *list[] = {&tensors[0], &tensors[1], &tensors[2]};
    assert_ok(gsc_scaler_scale_list(scaler, list, list, 0));
    assert_exact((double)a, 1);
    assert_ok(gsc_scaler_scale_list(scaler, list, list, 3));
    assert_exact((double)a, 2);
    assert_exact(b, 4);
    assert_exact(from_bf16(c), 6);
    gsc_scaler_destroy(scaler);
}

/* "if this instance is not enabled, outputs are returned unmodified": NaN payloads and all */
/* page tensorplay 17 */
static void a_disabled_scale_returns_outputs_unmodified(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_disabled_scaler();
    uint32_t bits[3] = {0x3f800000, 0x7fa12345, 0x80000001}, copy[3] = {0, 0, 0};
    int64_t three = 3;
    DLTensor in = tensor_of(GSC_FLOAT32, bits, &three), out = tensor_of(GSC_FLOAT32, copy, &three);
    DLTensor *ins[] = {&in}, *outs[] = {&out};
    assert_ok(gsc_scaler_scale_list(scaler, ins, outs, 1));
    assert_memory_equal(bits, copy, sizeof bits);
    gsc_scaler_destroy(scaler);
}

/* ---- state dict ---- */

/* "state_dict contains five entries: scale, growth_factor, backoff_factor, growth_interval, _growth_tracker - the
 * number of recent consecutive unskipped steps" */
/* page tensorplay 18 */
static void the_state_dict_has_the_five_entries(void **state)
{
    (void)state;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.growth_factor = 1.25;
    options.backoff_factor = 0.1;
    options.growth_interval = 4;
    gsc_scaler *scaler = new_scaler(&options);
    single one;
    single_init(&one, 0, 0);
    const float gradients[] = {1, 1, INFINITY, 1, 1, 1, 1, 1};
    const int64_t trackers[] = {1, 2, 0, 1, 2, 3, 0, 1};
    const double back = (double)(float)(65536 * 0.1), grown = (double)(float)(back * 1.25);
    const double scales[] = {65536, 65536, back, back, back, back, grown, grown};
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++) {
        iterate(scaler, &one, gradients[i]);
        gsc_scaler_state dict;
        assert_ok(gsc_scaler_state_dict(scaler, &dict));
        assert_exact(dict.scale, scales[i]);
        assert_exact(dict.growth_factor, 1.25);
        assert_exact(dict.backoff_factor, 0.1);
        assert_int_equal(4, dict.growth_interval);
        assert_int_equal(trackers[i], dict.growth_tracker);
    }
    gsc_scaler_destroy(scaler);
}

/* "if this instance is not enabled, returns an empty dict": all zero in C */
/* page tensorplay 19 */
static void the_state_dict_of_a_disabled_scaler_is_empty(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_disabled_scaler();
    gsc_scaler_state dict;
    memset(&dict, 0xff, sizeof dict);
    assert_ok(gsc_scaler_state_dict(scaler, &dict));
    const gsc_scaler_state empty = {0};
    assert_exact(dict.scale, 0);
    assert_exact(dict.growth_factor, 0);
    assert_exact(dict.backoff_factor, 0);
    assert_int_equal(0, dict.growth_interval);
    assert_int_equal(0, dict.growth_tracker);
    assert_memory_equal(empty.reserved, dict.reserved, sizeof empty.reserved);
    gsc_scaler_destroy(scaler);
}

/* "load_state_dict: state should be an object returned from a call to state_dict()": all five entries come back; the
 * empty one of a disabled scaler is refused by an enabled one */
/* page tensorplay 14 */
static void load_state_dict_restores_every_entry(void **state)
{
    (void)state;
    const gsc_scaler_state dict = {
        .scale = 512, .growth_factor = 3, .backoff_factor = 0.25, .growth_interval = 10, .growth_tracker = 7};
    gsc_scaler *scaler = new_scaler(NULL);
    assert_ok(gsc_scaler_load_state_dict(scaler, &dict));
    assert_exact(gsc_scaler_get_scale(scaler), 512);
    assert_exact(gsc_scaler_get_growth_factor(scaler), 3);
    assert_exact(gsc_scaler_get_backoff_factor(scaler), 0.25);
    assert_int_equal(10, gsc_scaler_get_growth_interval(scaler));
    gsc_scaler_state again;
    assert_ok(gsc_scaler_state_dict(scaler, &again));
    assert_int_equal(7, again.growth_tracker);

    assert_fails(GSC_ERR_STATE, gsc_scaler_load_state_dict(scaler, &(gsc_scaler_state){0}));
    assert_exact(gsc_scaler_get_scale(scaler), 512);
    gsc_scaler_destroy(scaler);
}

/* "if this instance is disabled, load_state_dict() is a no-op" */
/* page tensorplay 15 */
static void load_state_dict_is_a_no_op_when_disabled(void **state)
{
    (void)state;
    const gsc_scaler_state dict = {
        .scale = 512, .growth_factor = 3, .backoff_factor = 0.25, .growth_interval = 10, .growth_tracker = 7};
    gsc_scaler *scaler = new_disabled_scaler();
    assert_ok(gsc_scaler_load_state_dict(scaler, &dict));
    assert_ok(gsc_scaler_load_state_dict(scaler, &(gsc_scaler_state){0}));
    assert_exact(gsc_scaler_get_scale(scaler), 1);
    assert_exact(gsc_scaler_get_growth_factor(scaler), 2);
    assert_exact(gsc_scaler_get_backoff_factor(scaler), 0.5);
    assert_int_equal(2000, gsc_scaler_get_growth_interval(scaler));
    gsc_scaler_destroy(scaler);
}

/* "to checkpoint the scaler's state after a particular iteration, state_dict() should be called after update()": the
 * iteration counts from then on */
/* page tensorplay 20 */
static void the_state_dict_counts_an_iteration_after_update(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    single one;
    const gsc_optimizer *optimizer = single_init(&one, 0, 1);
    gsc_scaler_state dict;
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, NULL));
    assert_ok(gsc_scaler_state_dict(scaler, &dict));
    assert_int_equal(0, dict.growth_tracker);
    assert_ok(gsc_scaler_update(scaler));
    assert_ok(gsc_scaler_state_dict(scaler, &dict));
    assert_int_equal(1, dict.growth_tracker);
    gsc_scaler_destroy(scaler);
}

/* ---- step and unscale_ ---- */

/* "step internally invokes unscale_ (unless unscale_() was explicitly called earlier in the iteration)": both ways give
 * the same parameters and gradients; "if no inf/NaN gradients are found, invokes optimizer.step() using the unscaled
 * gradients" */
/* page tensorplay 3, 21, 25 */
static void unscale_is_optional(void **state)
{
    (void)state;
    for (int explicitly = 0; explicitly < 2; explicitly++) {
        gsc_scaler *scaler = new_scaler_with(8, 2000);
        single one;
        const gsc_optimizer *optimizer = single_init(&one, 5, 16);
        if (explicitly)
            assert_ok(gsc_scaler_unscale(scaler, optimizer));
        assert_ok(gsc_scaler_step(scaler, optimizer, NULL, NULL));
        assert_exact((double)one.grad, 2);
        assert_exact((double)one.param, 3);
        gsc_scaler_destroy(scaler);
    }
}

/* "as part of the unscale_(), gradients are checked for infs/NaNs": there, not again in step */
/* page tensorplay 21 */
static void gradients_are_checked_as_part_of_unscale(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    single one;
    const gsc_optimizer *optimizer = single_init(&one, 5, NAN);
    assert_ok(gsc_scaler_unscale(scaler, optimizer));
    assert_true(gsc_scaler_found_inf(scaler, optimizer));
    one.grad = 1; /* repairing the gradient afterwards does not bring the step back */
    gsc_step_result result;
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, &result));
    assert_int_equal(GSC_SKIPPED_OVERFLOW, result.outcome);
    assert_int_equal(0, one.fake.steps);
    gsc_scaler_destroy(scaler);
}

/* "*args and **kwargs are forwarded to optimizer.step(). Returns the return value of optimizer.step()": enabled and
 * disabled */
/* page tensorplay 23 */
static void step_forwards_and_returns(void **state)
{
    (void)state;
    for (int enabled = 0; enabled < 2; enabled++) {
        gsc_scaler *scaler = enabled ? new_scaler(NULL) : new_disabled_scaler();
        single one;
        const gsc_optimizer *optimizer = single_init(&one, 5, 1);
        one.fake.has_value = true;
        one.fake.value = 42;
        int token;
        gsc_step_result result;
        assert_ok(gsc_scaler_step(scaler, optimizer, &(gsc_step_args){.extra = &token}, &result));
        assert_ptr_equal(&token, one.fake.last_args.extra);
        assert_true(result.has_value);
        assert_exact(result.value, 42);
        gsc_scaler_destroy(scaler);
    }
}

/* "unscale_ serves cases where you need to modify gradients between the backward pass and step()", the clipping
 * example: {3, 4} clipped to norm 1 */
/* page tensorplay 26 */
static void unscaled_gradients_can_be_clipped_before_step(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    float param[2] = {0, 0}, grad[2] = {3 * 65536, 4 * 65536};
    fake_optimizer fake;
    fake_init(&fake);
    DLTensor *grads[] = {&fake_add(&fake, GSC_FLOAT32, param, grad, 2, NULL)->grad};
    assert_ok(gsc_scaler_unscale(scaler, &fake.base));
    double norm = 0;
    assert_ok(gsc_clip_grad_norm(grads, 1, 1, 2, &norm));
    assert_exact(norm, 5);
    assert_ok(gsc_scaler_step(scaler, &fake.base, NULL, NULL));
    assert_ok(gsc_scaler_update(scaler));
    assert_true(fabs((double)param[0] + 0.6) < 1e-6);
    assert_true(fabs((double)param[1] + 0.8) < 1e-6);
    gsc_scaler_destroy(scaler);
}

/* "unscale_() should only be called once per optimizer per step() call; calling it twice triggers a RuntimeError" */
/* page tensorplay 27 */
static void unscale_twice_is_refused(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(8, 2000);
    single one, other;
    const gsc_optimizer *optimizer = single_init(&one, 5, 16);
    assert_ok(gsc_scaler_unscale(scaler, optimizer));
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(scaler, optimizer));
    assert_exact((double)one.grad, 2);
    assert_ok(gsc_scaler_unscale(scaler, single_init(&other, 5, 16))); /* for a given optimizer */
    gsc_scaler_destroy(scaler);
}

/* "... and only after all gradients for that optimizer's parameters have been accumulated": two backward passes, one
 * unscale_ */
/* page tensorplay 28 */
static void accumulated_gradients_are_unscaled_once(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(8, 2000);
    single one;
    const gsc_optimizer *optimizer = single_init(&one, 5, 0);
    for (int micro_batch = 1; micro_batch <= 2; micro_batch++)
        one.grad += (float)(micro_batch * gsc_scaler_get_scale(scaler));
    assert_ok(gsc_scaler_unscale(scaler, optimizer));
    assert_exact((double)one.grad, 3);
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, NULL));
    assert_exact((double)one.param, 2);
    gsc_scaler_destroy(scaler);
}

/* ---- update ---- */

/* "if any optimizer steps were skipped the scale is multiplied by backoff_factor": once, however many were */
/* page tensorplay 7, 29 */
static void any_skipped_step_backs_off_once(void **state)
{
    (void)state;
    for (int overflows = 0; overflows <= 3; overflows++) {
        gsc_scaler *scaler = new_scaler_with(64, 1);
        single one[3];
        for (int i = 0; i < 3; i++)
            assert_ok(gsc_scaler_step(scaler, single_init(&one[i], 0, i < overflows ? NAN : 1), NULL, NULL));
        assert_ok(gsc_scaler_update(scaler));
        assert_exact(gsc_scaler_get_scale(scaler), overflows == 0 ? 128 : 32);
        gsc_scaler_destroy(scaler);
    }
}

/* "passing new_scale sets the new scale value manually": a float, within the scaler's limits */
/* page tensorplay 30 */
static void a_new_scale_can_be_a_number(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    assert_ok(gsc_scaler_update_to(scaler, 1024));
    assert_exact(gsc_scaler_get_scale(scaler), 1024);
    const double bad[] = {0, -1, (double)NAN, (double)INFINITY, 1e39};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to(scaler, bad[i]));
    assert_exact(gsc_scaler_get_scale(scaler), 1024);
    gsc_scaler_destroy(scaler);
}

/* "if new_scale was a tensor, later in-place changes to that tensor will not further affect the scale" */
/* page tensorplay 30, 31 */
static void a_new_scale_can_be_a_tensor_that_is_copied(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    float value = 1024;
    DLTensor tensor = tensor_of(GSC_FLOAT32, &value, NULL);
    assert_ok(gsc_scaler_update_to_tensor(scaler, &tensor));
    value = 3;
    assert_exact(gsc_scaler_get_scale(scaler), 1024);
    single one;
    assert_ok(gsc_scaler_unscale(scaler, single_init(&one, 0, 1024)));
    assert_exact((double)one.grad, 1);

    float two_values[2] = {1, 2};
    int64_t two = 2;
    DLTensor pair = tensor_of(GSC_FLOAT32, two_values, &two);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to_tensor(scaler, &pair));
    gsc_scaler_destroy(scaler);
}

/* "update() should only be called at the end of the iteration, after step has been invoked for all optimizers": without
 * any it is refused, and an optimizer that comes too late belongs to the next iteration */
/* page tensorplay 32 */
static void update_belongs_at_the_end_of_the_iteration(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(64, 2000);
    single a, b;
    assert_fails(GSC_ERR_STATE, gsc_scaler_update(scaler));
    assert_ok(gsc_scaler_step(scaler, single_init(&a, 0, 1), NULL, NULL));
    assert_ok(gsc_scaler_update(scaler));
    assert_ok(gsc_scaler_step(scaler, single_init(&b, 0, INFINITY), NULL, NULL));
    assert_exact(gsc_scaler_get_scale(scaler), 64);
    assert_ok(gsc_scaler_update(scaler));
    assert_exact(gsc_scaler_get_scale(scaler), 32);
    assert_fails(GSC_ERR_STATE, gsc_scaler_update(scaler));
    gsc_scaler_destroy(scaler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_default_options_are_those_of_the_signature),
        cmocka_unit_test(a_device_that_is_not_served_is_refused),
        cmocka_unit_test(disabled_step_invokes_the_optimizer_and_the_rest_does_nothing),
        cmocka_unit_test(scale_multiplies_by_the_current_scale),
        cmocka_unit_test(the_scale_approaches_the_largest_that_does_not_overflow),
        cmocka_unit_test(a_skipped_step_leaves_the_parameters_uncorrupted),
        cmocka_unit_test(growth_needs_growth_interval_consecutive_unskipped_iterations),
        cmocka_unit_test(getters_return_what_was_given),
        cmocka_unit_test(a_disabled_scaler_has_scale_one),
        cmocka_unit_test(setters_set_what_the_schedule_uses),
        cmocka_unit_test(setters_refuse_what_the_constructor_refuses),
        cmocka_unit_test(scale_takes_arrays_of_tensors),
        cmocka_unit_test(a_disabled_scale_returns_outputs_unmodified),
        cmocka_unit_test(the_state_dict_has_the_five_entries),
        cmocka_unit_test(the_state_dict_of_a_disabled_scaler_is_empty),
        cmocka_unit_test(load_state_dict_restores_every_entry),
        cmocka_unit_test(load_state_dict_is_a_no_op_when_disabled),
        cmocka_unit_test(the_state_dict_counts_an_iteration_after_update),
        cmocka_unit_test(unscale_is_optional),
        cmocka_unit_test(gradients_are_checked_as_part_of_unscale),
        cmocka_unit_test(step_forwards_and_returns),
        cmocka_unit_test(unscaled_gradients_can_be_clipped_before_step),
        cmocka_unit_test(unscale_twice_is_refused),
        cmocka_unit_test(accumulated_gradients_are_unscaled_once),
        cmocka_unit_test(any_skipped_step_backs_off_once),
        cmocka_unit_test(a_new_scale_can_be_a_number),
        cmocka_unit_test(a_new_scale_can_be_a_tensor_that_is_copied),
        cmocka_unit_test(update_belongs_at_the_end_of_the_iteration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
