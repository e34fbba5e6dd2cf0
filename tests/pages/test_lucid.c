/* SPDX-License-Identifier: Apache-2.0 */
/* Each sentence of the lucid.amp.GradScaler page that states a behaviour, as a test. The numbers are those of
 * tests/coverage.tsv; test_lucid_dtypes.c has the sentences about dtypes. */
#include "page_helpers.h"

/* ---- the signature and the parameters ---- */

/* "GradScaler(init_scale = 2.0 ** 16, growth_factor = 2.0, backoff_factor = 0.5, growth_interval = 2000,
 * enabled = True)" */
/* page lucid 1 */
static void defaults_are_those_of_the_signature(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    assert_exact(gsc_scaler_get_scale(scaler), 0x1p16);
    assert_exact(gsc_scaler_get_growth_factor(scaler), 2);
    assert_exact(gsc_scaler_get_backoff_factor(scaler), 0.5);
    assert_int_equal(2000, gsc_scaler_get_growth_interval(scaler));
    assert_true(gsc_scaler_is_enabled(scaler));
    gsc_scaler_destroy(scaler);
}

/* "growth_factor: must be > 1.0", "backoff_factor: must be in (0, 1)"; init_scale and growth_interval are checked too
 */
/* page lucid 8 */
static void parameters_out_of_range_are_refused(void **state)
{
    (void)state;
    const struct {
        double init_scale, growth_factor, backoff_factor;
        int64_t growth_interval;
        const char *field;
    } cases[] = {
        {65536, 1, 0.5, 2000, "growth_factor"},
        {65536, 0.5, 0.5, 2000, "growth_factor"},
        {65536, (double)NAN, 0.5, 2000, "growth_factor"},
        {65536, 2, 0, 2000, "backoff_factor"},
        {65536, 2, 1, 2000, "backoff_factor"},
        {65536, 2, -0.5, 2000, "backoff_factor"},
        {65536, 2, 0.5, 0, "growth_interval"},
        {0, 2, 0.5, 2000, "init_scale"},
        {-1, 2, 0.5, 2000, "init_scale"},
        {(double)INFINITY, 2, 0.5, 2000, "init_scale"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gsc_scaler_options options = gsc_scaler_options_default();
        options.init_scale = cases[i].init_scale;
        options.growth_factor = cases[i].growth_factor;
        options.backoff_factor = cases[i].backoff_factor;
        options.growth_interval = cases[i].growth_interval;
        gsc_scaler *scaler = NULL;
        assert_fails(GSC_ERR_VALUE, gsc_scaler_create(&options, &scaler));
        assert_null(scaler);
        assert_message(cases[i].field);
    }
}

/* "init_scale: initial loss scaling factor applied by scale" */
/* page lucid 7 */
static void init_scale_is_what_scale_applies(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(3, 2000);
    float loss = 7, scaled = 0;
    DLTensor in = tensor_of(GSC_FLOAT32, &loss, NULL), out = tensor_of(GSC_FLOAT32, &scaled, NULL);
    assert_ok(gsc_scaler_scale(scaler, &in, &out));
    assert_exact((double)scaled, 21);
    assert_exact((double)loss, 7);
    gsc_scaler_destroy(scaler);
}

/* "enabled = False: a transparent pass-through: scale returns its input unchanged, step calls the optimizer directly,
 * and update is a no-op" */
/* page lucid 9 */
static void disabled_passes_through(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_disabled_scaler();
    float loss = 7;
    DLTensor tensor = tensor_of(GSC_FLOAT32, &loss, NULL);
    assert_ok(gsc_scaler_scale(scaler, &tensor, &tensor));
    assert_exact((double)loss, 7);

    single one;
    const gsc_optimizer *optimizer = single_init(&one, 5, 2);
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, NULL)); /* not divided */
    assert_exact((double)one.param, 3);
    one.grad = INFINITY;
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, NULL)); /* neither checked nor counted as a second step */
    assert_exact((double)one.param, -(double)INFINITY);
    assert_int_equal(2, one.fake.steps);

    assert_ok(gsc_scaler_update(scaler));
    assert_ok(gsc_scaler_update(scaler));
    assert_exact(gsc_scaler_get_scale(scaler), 1);
    assert_false(gsc_scaler_is_enabled(scaler));
    gsc_scaler_destroy(scaler);
}

/* ---- why and how ---- */

/* "fp16's narrow range causes small gradients to underflow to zero; GradScaler works around this by multiplying the
 * loss by a large constant s before backpropagation": a gradient that float16 loses is kept when it is scaled */
/* page lucid 2 */
static void scaling_saves_a_gradient_that_fp16_loses(void **state)
{
    (void)state;
    const double gradient = 1e-8;
    assert_exact(from_fp16(to_fp16(gradient)), 0);

    gsc_scaler *scaler = new_scaler(NULL);
    single one;
    single_init(&one, 0, (float)from_fp16(to_fp16(gradient * gsc_scaler_get_scale(scaler))));
    assert_ok(gsc_scaler_unscale(scaler, &one.fake.base));
    assert_true(fabs((double)one.grad / gradient - 1) < 0x1p-11);
    gsc_scaler_destroy(scaler);
}

/* "before the optimizer step the gradients are unscaled by 1/s in fp32, so the update is mathematically equivalent to
 * ordinary training": with a power of two, bit for bit */
/* page lucid 3, 10, 37 */
static void the_update_equals_ordinary_training(void **state)
{
    (void)state;
    const float gradients[] = {1, -0.1f, 3.14159f, 1e-20f, 0x1p-126f, -0.0f, 1e30f};
    gsc_scaler *scaler = new_scaler(NULL);
    single scaled, ordinary;
    single_init(&scaled, 1, 0);
    single_init(&ordinary, 1, 0);
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++) {
        ordinary.grad = gradients[i];
        double value = 0;
        bool has_value = false;
        assert_ok(ordinary.fake.base.step(&ordinary.fake, &(gsc_step_args){0}, &value, &has_value));
        assert_true(iterate(scaler, &scaled, gradients[i] * 65536));
        assert_exact((double)scaled.grad, (double)gradients[i]);
        assert_exact((double)scaled.param, (double)ordinary.param);
    }
    gsc_scaler_destroy(scaler);
}

/* "overflow detected: the step is skipped and s is multiplied by backoff_factor", for inf, -inf and NaN */
/* page lucid 4, 23 */
static void overflow_skips_the_step_and_backs_off(void **state)
{
    (void)state;
    const float bad[] = {INFINITY, -INFINITY, NAN};
    gsc_scaler *scaler = new_scaler(NULL);
    single one;
    single_init(&one, 5, 0);
    for (int i = 0; i < 3; i++) {
        assert_false(iterate(scaler, &one, bad[i]));
        assert_exact((double)one.param, 5);
        assert_exact(gsc_scaler_get_scale(scaler), 0x1p15 / (1 << i));
    }
    gsc_scaler_destroy(scaler);
}

/* "no overflow for growth_interval consecutive steps: s is multiplied by growth_factor": by default the 2000th clean
 * step doubles it */
/* page lucid 5, 30 */
static void the_2000th_clean_step_doubles_the_scale(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    single one;
    single_init(&one, 0, 0);
    for (int step = 1; step <= 4000; step++) {
        assert_true(iterate(scaler, &one, 1));
        assert_exact(gsc_scaler_get_scale(scaler), step < 2000 ? 0x1p16 : step < 4000 ? 0x1p17 : 0x1p18);
    }
    gsc_scaler_destroy(scaler);
}

/* "consecutive": an overflow starts the count afresh; the factors are the options' */
/* page lucid 5 */
static void an_overflow_restarts_the_count(void **state)
{
    (void)state;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = 64;
    options.growth_factor = 3;
    options.backoff_factor = 0.25;
    options.growth_interval = 3;
    gsc_scaler *scaler = new_scaler(&options);
    single one;
    single_init(&one, 0, 0);
    const float gradients[] = {1, 1, INFINITY, 1, 1, 1, 1, 1, 1};
    const double scales[] = {64, 64, 16, 16, 16, 48, 48, 48, 144};
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++) {
        iterate(scaler, &one, gradients[i]);
        assert_exact(gsc_scaler_get_scale(scaler), scales[i]);
    }
    gsc_scaler_destroy(scaler);
}

/* "this produces a sawtooth schedule that tracks the largest scale the current gradients can tolerate": float16
 * gradients of 1 tolerate 2^15 */
/* page lucid 6 */
static void the_schedule_is_a_sawtooth_below_the_largest_scale(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(8, 5);
    single one;
    single_init(&one, 0, 0);
    int overflows = 0;
    for (int i = 0; i < 200; i++) {
        double scale = gsc_scaler_get_scale(scaler);
        bool stepped = iterate(scaler, &one, (float)from_fp16(to_fp16(scale)));
        assert_int_equal(scale <= 0x1p15, stepped);
        assert_true(i < 65 || scale == 0x1p15 || scale == 0x1p16);
        overflows += !stepped;
    }
    assert_true(overflows > 10); /* each tooth: one overflow, then growth_interval clean steps */
    gsc_scaler_destroy(scaler);
}

/* ---- stages ---- */

/* "call unscale_ first: the scaler remembers that the gradients are already unscaled, so the following step does not
 * divide them a second time"; what the caller does to them in between (clipping) is what the optimizer gets */
/* page lucid 11, 22, 32 */
static void step_does_not_divide_a_second_time(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(4, 2000);
    single one;
    const gsc_optimizer *optimizer = single_init(&one, 5, 8);
    assert_ok(gsc_scaler_unscale(scaler, optimizer));
    assert_exact((double)one.grad, 2);
    one.grad = 0.5f;
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, NULL));
    assert_exact((double)one.grad, 0.5);
    assert_exact((double)one.param, 4.5);
    gsc_scaler_destroy(scaler);
}

/* "step: unscales the gradients if needed" */
/* page lucid 22 */
static void step_unscales_when_unscale_was_not_called(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(4, 2000);
    single one;
    const gsc_optimizer *optimizer = single_init(&one, 5, 8);
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, NULL));
    assert_exact((double)one.grad, 2);
    assert_exact((double)one.param, 3);
    gsc_scaler_destroy(scaler);
}

/* "each optimizer moves through ready -> unscaled -> stepped once per iteration and update returns every optimizer to
 * ready" */
/* page lucid 12, 31 */
static void update_returns_every_optimizer_to_ready(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    single a, b;
    const gsc_optimizer *first = single_init(&a, 0, 1), *second = single_init(&b, 0, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(GSC_STAGE_READY, gsc_scaler_get_stage(scaler, first));
        assert_int_equal(GSC_STAGE_READY, gsc_scaler_get_stage(scaler, second));
        assert_ok(gsc_scaler_unscale(scaler, first));
        assert_int_equal(GSC_STAGE_UNSCALED, gsc_scaler_get_stage(scaler, first));
        assert_int_equal(GSC_STAGE_READY, gsc_scaler_get_stage(scaler, second));
        assert_ok(gsc_scaler_step(scaler, first, NULL, NULL));
        assert_int_equal(GSC_STAGE_STEPPED, gsc_scaler_get_stage(scaler, first));
        assert_ok(gsc_scaler_unscale(scaler, second));
        assert_ok(i == 1 ? gsc_scaler_update_to(scaler, 128) : gsc_scaler_update(scaler));
    }
    assert_int_equal(GSC_STAGE_READY, gsc_scaler_get_stage(scaler, first));
    assert_int_equal(GSC_STAGE_READY, gsc_scaler_get_stage(scaler, second));
    gsc_scaler_destroy(scaler);
}

/* "calling unscale_ twice, unscale_ after step, or step twice before update raises RuntimeError"; nothing happens */
/* page lucid 13, 27 */
static void calls_out_of_order_are_refused(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(4, 2000);
    single one;
    const gsc_optimizer *optimizer = single_init(&one, 5, 8);
    assert_ok(gsc_scaler_unscale(scaler, optimizer));
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(scaler, optimizer));
    assert_exact((double)one.grad, 2);
    assert_int_equal(GSC_STAGE_UNSCALED, gsc_scaler_get_stage(scaler, optimizer));

    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, NULL));
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(scaler, optimizer));
    assert_fails(GSC_ERR_STATE, gsc_scaler_step(scaler, optimizer, NULL, NULL));
    assert_exact((double)one.grad, 2);
    assert_exact((double)one.param, 3);
    assert_int_equal(1, one.fake.steps);
    assert_int_equal(GSC_STAGE_STEPPED, gsc_scaler_get_stage(scaler, optimizer));

    assert_ok(gsc_scaler_update(scaler));
    assert_ok(gsc_scaler_unscale(scaler, optimizer));
    gsc_scaler_destroy(scaler);
}

/* "with several optimizers, an overflow in one optimizer's gradients skips only that optimizer's step; update backs the
 * scale off if any optimizer overflowed", whichever it was and however it was unscaled */
/* page lucid 14 */
static void overflow_skips_only_its_own_optimizer(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        for (int explicitly = 0; explicitly < 2; explicitly++) {
            gsc_scaler *scaler = new_scaler_with(4, 1);
            single one[2];
            for (int i = 0; i < 2; i++)
                single_init(&one[i], 5, i == which ? INFINITY : 8);
            for (int i = 0; explicitly && i < 2; i++)
                assert_ok(gsc_scaler_unscale(scaler, &one[i].fake.base));
            for (int i = 0; i < 2; i++)
                assert_ok(gsc_scaler_step(scaler, &one[i].fake.base, NULL, NULL));
            assert_int_equal(0, one[which].fake.steps);
            assert_exact((double)one[which].param, 5);
            assert_int_equal(1, one[!which].fake.steps);
            assert_exact((double)one[!which].param, 3);
            assert_ok(gsc_scaler_update(scaler));
            assert_exact(gsc_scaler_get_scale(scaler), 2);
            gsc_scaler_destroy(scaler);
        }
    }
}

/* ---- methods ---- */

/* "scale: a Tensor or list of Tensors; returns scaled tensor(s), the same structure as the input" */
/* page lucid 21 */
static void scale_takes_one_tensor_or_a_list(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(4, 2000);
    float a[2] = {1, -2};
    double b[1] = {0.5}, c[1] = {0};
    int64_t two = 2, one = 1, none = 0;
    DLTensor tensors[] = {tensor_of(GSC_FLOAT32, a, &two), tensor_of(GSC_FLOAT64, b, &one),
                          tensor_of(GSC_FLOAT64, c, &one), tensor_of(GSC_FLOAT32, NULL, &none)};
    assert_ok(gsc_scaler_scale(scaler, &tensors[0], &tensors[0]));
    assert_exact((double)a[0], 4);
    assert_exact((double)a[1], -8);

    DLTensor *in[] = {&tensors[0], &tensors[1], &tensors[3]}, *out[] = {&tensors[0], &tensors[2], &tensors[3]};
    assert_ok(gsc_scaler_scale_list(scaler, in, out, 3));
    assert_exact((double)a[0], 16);
    assert_exact((double)a[1], -32);
    assert_exact(b[0], 0.5);
    assert_exact(c[0], 2);
    gsc_scaler_destroy(scaler);
}

/* "get_scale: return the current scale factor", also where it is not a power of two */
/* page lucid 19 */
static void get_scale_returns_the_current_scale(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(10, 2000);
    single one;
    single_init(&one, 0, 0);
    assert_exact(gsc_scaler_get_scale(scaler), 10);
    iterate(scaler, &one, NAN);
    assert_exact(gsc_scaler_get_scale(scaler), 5);
    gsc_scaler_destroy(scaler);
}

/* "state_dict: return serializable state", "load_state_dict: load state": the copy goes on exactly as the original */
/* page lucid 20 */
static void a_loaded_scaler_goes_on_as_the_saved_one(void **state)
{
    (void)state;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = 48;
    options.growth_factor = 3;
    options.backoff_factor = 0.25;
    options.growth_interval = 3;
    gsc_scaler *saved = new_scaler(&options), *loaded = new_scaler(NULL);
    single a, b;
    single_init(&a, 0, 0);
    single_init(&b, 0, 0);
    iterate(saved, &a, INFINITY);
    iterate(saved, &a, 1);

    gsc_scaler_state dict;
    assert_ok(gsc_scaler_state_dict(saved, &dict));
    assert_ok(gsc_scaler_load_state_dict(loaded, &dict));
    const float gradients[] = {1, 1, 1, NAN, 1, 1, 1, 1};
    for (size_t i = 0; i < sizeof gradients / sizeof gradients[0]; i++) {
        assert_int_equal(iterate(saved, &a, gradients[i]), iterate(loaded, &b, gradients[i]));
        assert_exact(gsc_scaler_get_scale(loaded), gsc_scaler_get_scale(saved));
    }
    gsc_scaler_destroy(saved);
    gsc_scaler_destroy(loaded);
}

static double closure(void *calls) { return ++*(int *)calls; }

/* "*args, **kwargs: forwarded to optimizer.step()" */
/* page lucid 24 */
static void step_forwards_its_arguments(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    single one;
    const gsc_optimizer *optimizer = single_init(&one, 0, 1);
    int token;
    assert_ok(gsc_scaler_step(scaler, optimizer, &(gsc_step_args){.extra = &token}, NULL));
    assert_ptr_equal(&token, one.fake.last_args.extra);
    gsc_scaler_destroy(scaler);
}

/* "closure is rejected while the scaler is enabled" (RuntimeError); disabled, it is passed through */
/* page lucid 25, 27, page tensorplay 24 */
static void a_closure_is_rejected_while_enabled(void **state)
{
    (void)state;
    single one;
    const gsc_optimizer *optimizer = single_init(&one, 5, 65536);
    int calls = 0;
    gsc_step_args args = {.closure = closure, .closure_ctx = &calls};
    gsc_scaler *scaler = new_scaler(NULL);
    assert_fails(GSC_ERR_STATE, gsc_scaler_step(scaler, optimizer, &args, NULL));
    assert_message("closure");
    assert_int_equal(0, calls + one.fake.steps);
    assert_exact((double)one.grad, 65536);
    assert_int_equal(GSC_STAGE_READY, gsc_scaler_get_stage(scaler, optimizer));
    gsc_scaler_destroy(scaler);

    scaler = new_disabled_scaler();
    gsc_step_result result;
    assert_ok(gsc_scaler_step(scaler, optimizer, &args, &result));
    assert_int_equal(1, calls);
    assert_true(result.has_value);
    assert_exact(result.value, 1);
    gsc_scaler_destroy(scaler);
}

/* "returns what optimizer.step() returned, or None when the step was skipped" */
/* page lucid 26 */
static void step_returns_what_the_optimizer_returned(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    single one;
    const gsc_optimizer *optimizer = single_init(&one, 5, 1);
    gsc_step_result result;
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, &result));
    assert_int_equal(GSC_STEPPED, result.outcome);
    assert_false(result.has_value);
    assert_ok(gsc_scaler_update(scaler));

    one.fake.has_value = true;
    one.fake.value = 0.25;
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, &result));
    assert_true(result.has_value);
    assert_exact(result.value, 0.25);
    assert_ok(gsc_scaler_update(scaler));

    one.grad = NAN;
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, &result));
    assert_int_equal(GSC_SKIPPED_OVERFLOW, result.outcome);
    assert_false(result.has_value);
    gsc_scaler_destroy(scaler);
}

/* "update: if a scale is provided, it is set directly", also after an overflow, which then no longer counts */
/* page lucid 29 */
static void update_sets_a_provided_scale_directly(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    single one;
    const gsc_optimizer *optimizer = single_init(&one, 5, INFINITY);
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, NULL));
    assert_ok(gsc_scaler_update_to(scaler, 12.5));
    assert_exact(gsc_scaler_get_scale(scaler), 12.5);
    assert_true(iterate(scaler, &one, 25));
    assert_exact((double)one.param, 3);
    assert_exact(gsc_scaler_get_scale(scaler), 12.5);
    gsc_scaler_destroy(scaler);
}

/* "the scale is reduced if any optimizer's gradients overflowed *since the last update*": also those that were only
 * unscaled, and no longer in the next iteration */
/* page lucid 30 */
static void update_looks_at_overflows_since_the_last_update(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    single one;
    const gsc_optimizer *optimizer = single_init(&one, 5, INFINITY);
    assert_ok(gsc_scaler_unscale(scaler, optimizer));
    assert_ok(gsc_scaler_update(scaler));
    assert_exact(gsc_scaler_get_scale(scaler), 0x1p15);
    assert_true(iterate(scaler, &one, 1));
    assert_exact(gsc_scaler_get_scale(scaler), 0x1p15);
    gsc_scaler_destroy(scaler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_signature),
        cmocka_unit_test(parameters_out_of_range_are_refused),
        cmocka_unit_test(init_scale_is_what_scale_applies),
        cmocka_unit_test(disabled_passes_through),
        cmocka_unit_test(scaling_saves_a_gradient_that_fp16_loses),
        cmocka_unit_test(the_update_equals_ordinary_training),
        cmocka_unit_test(overflow_skips_the_step_and_backs_off),
        cmocka_unit_test(the_2000th_clean_step_doubles_the_scale),
        cmocka_unit_test(an_overflow_restarts_the_count),
        cmocka_unit_test(the_schedule_is_a_sawtooth_below_the_largest_scale),
        cmocka_unit_test(step_does_not_divide_a_second_time),
        cmocka_unit_test(step_unscales_when_unscale_was_not_called),
        cmocka_unit_test(update_returns_every_optimizer_to_ready),
        cmocka_unit_test(calls_out_of_order_are_refused),
        cmocka_unit_test(overflow_skips_only_its_own_optimizer),
        cmocka_unit_test(scale_takes_one_tensor_or_a_list),
        cmocka_unit_test(get_scale_returns_the_current_scale),
        cmocka_unit_test(a_loaded_scaler_goes_on_as_the_saved_one),
        cmocka_unit_test(step_forwards_its_arguments),
        cmocka_unit_test(a_closure_is_rejected_while_enabled),
        cmocka_unit_test(step_returns_what_the_optimizer_returned),
        cmocka_unit_test(update_sets_a_provided_scale_directly),
        cmocka_unit_test(update_looks_at_overflows_since_the_last_update),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
