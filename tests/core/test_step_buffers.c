/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients that are handed over as arrays, call by call, without callbacks. */
#include "rig.h"

static gsc_buffer buffer_of(float *data, size_t count, const char *name)
{
    return (gsc_buffer){.data = data, .count = count, .dtype = GSC_FLOAT32, .name = name};
}

static const gsc_optimizer *as_optimizer(const void *key) { return key; }

static gsc_scaler *scaler_of(double init_scale)
{
    gsc_scaler_options options = options_of(init_scale, 2);
    return new_scaler(&options);
}

/* trial T21, rule 3.1 */
static void test_arrays_that_lie_elsewhere_each_time(void **state)
{
    (void)state;
    gsc_scaler *scaler = scaler_of(8);
    float weights[2] = {1, 1}, places[3][2] = {{8, -16}, {16, INFINITY}, {8, 0}};
    const double scale_after[] = {8, 4, 4};
    char key; /* one byte: it must never be read */
    for (int i = 0; i < 3; i++) {
        char name[] = "weight";
        const gsc_buffer grads[] = {buffer_of(places[i], 2, name), {.dtype = GSC_FLOAT32, .count = 5}};
        gsc_step_result result;
        memset(&result, 0xff, sizeof result);
        assert_ok(gsc_scaler_step_buffers(scaler, &key, grads, 2, NULL, &result));
        assert_int_equal(gsc_scaler_get_stage(scaler, as_optimizer(&key)), GSC_STAGE_STEPPED);
        assert_int_equal(result.outcome, i == 1 ? GSC_SKIPPED_OVERFLOW : GSC_STEPPED);
        assert_exact(result.scale, i == 2 ? 4 : 8);
        assert_false(result.has_value);
        assert_exact(result.value, 0);
        assert_reserved_zero(result);
        memset(name, 'x', sizeof name - 1); /* names were copied */
        for (int j = 0; j < 2 && result.outcome != GSC_SKIPPED_OVERFLOW; j++)
            weights[j] -= places[i][j];
        assert_int_equal(gsc_scaler_found_inf(scaler, as_optimizer(&key)), i == 1);
        assert_ok(gsc_scaler_update(scaler));
        assert_exact(gsc_scaler_get_scale(scaler), scale_after[i]);
    }
    assert_exact((double)weights[0], -2);
    assert_exact((double)weights[1], 3);
    gsc_overflow overflow;
    assert_int_equal(gsc_scaler_overflows(scaler, as_optimizer(&key), &overflow, 1), 1);
    assert_string_equal(overflow.name, "weight");
    assert_int_equal(overflow.first_index, 1);
    assert_int_equal(stats_of(scaler).steps, 2);
    assert_int_equal(stats_of(scaler).skipped_steps, 1);
    gsc_scaler_destroy(scaler);
}

/* trial T21 */
static void test_unscale_look_step(void **state)
{
    (void)state;
    gsc_scaler *scaler = scaler_of(4);
    float grads[2] = {12, -16};
    const gsc_buffer buffer = buffer_of(grads, 2, NULL);
    const int key = 0;
    bool found_inf = true;
    assert_ok(gsc_scaler_unscale_buffers(scaler, &key, &buffer, 1, &found_inf));
    assert_false(found_inf);
    assert_exact((double)grads[0], 3);
    assert_exact((double)grads[1], -4);
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale_buffers(scaler, &key, &buffer, 1, &found_inf),
                 "gsc_scaler_unscale_buffers", "already unscaled");
    const gsc_step_args args = {.clip_norm = 2.5};
    gsc_step_result result;
    assert_ok(gsc_scaler_step_buffers(scaler, &key, &buffer, 1, &args, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_exact(result.grad_norm, 5);
    assert_exact((double)grads[0], (double)(3 * (float)(2.5 / (5 + 1e-6)))); /* once unscaled, and clipped */
    assert_fails(GSC_ERR_STATE, gsc_scaler_step_buffers(scaler, &key, &buffer, 1, NULL, &result), "already stepped");
    memset(&result, 0, sizeof result);
    assert_ok(gsc_scaler_result(scaler, as_optimizer(&key), &result));
    assert_exact(result.grad_norm, 5);
    assert_ok(gsc_scaler_update(scaler));

    grads[0] = NAN;
    assert_ok(gsc_scaler_unscale_buffers(scaler, &key, &buffer, 1, &found_inf));
    assert_true(found_inf);
    assert_ok(gsc_scaler_rearm(scaler, as_optimizer(&key)));
    grads[0] = 8;
    assert_ok(gsc_scaler_unscale_buffers(scaler, &key, &buffer, 1, &found_inf));
    assert_false(found_inf); /* of this call; the overflow before it still counts at update */
    assert_true(gsc_scaler_found_inf(scaler, as_optimizer(&key)));
    assert_ok(gsc_scaler_skip(scaler, as_optimizer(&key)));
    assert_ok(gsc_scaler_unscale_buffers(scaler, "another key", NULL, 0, NULL));
    assert_ok(gsc_scaler_update(scaler));
    assert_exact(gsc_scaler_get_scale(scaler), 2);
    gsc_scaler_destroy(scaler);
}

/* trial T21 */
static void test_no_gradients(void **state)
{
    (void)state;
    gsc_scaler *scaler = scaler_of(4);
    const gsc_buffer absent = {.count = 3, .dtype = GSC_FLOAT64, .name = "frozen"};
    gsc_step_result result;
    assert_ok(gsc_scaler_step_buffers(scaler, "a", &absent, 1, NULL, &result));
    assert_int_equal(result.outcome, GSC_NO_GRADS);
    assert_ok(gsc_scaler_step_buffers(scaler, "b", NULL, 0, NULL, &result));
    assert_int_equal(result.outcome, GSC_NO_GRADS);
    assert_ok(gsc_scaler_update(scaler));
    assert_int_equal(state_of(scaler).growth_tracker, 0);
    gsc_scaler_destroy(scaler);
}

/* trial T21 */
static void test_keys_and_optimizers_stay_apart(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    float grad = 8;
    const gsc_buffer buffer = buffer_of(&grad, 1, "w");
    char key;
    gsc_step_result result;
    assert_ok(gsc_scaler_skip(r.scaler, as_optimizer(&key))); /* not known yet, and not read */
    assert_ok(gsc_scaler_update(r.scaler));
    assert_ok(gsc_scaler_rearm(r.scaler, as_optimizer(&key)));
    assert_ok(gsc_scaler_step_buffers(r.scaler, &key, &buffer, 1, NULL, &result));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale(r.scaler, as_optimizer(&key)), "gsc_scaler_unscale", "key");
    assert_fails(GSC_ERR_STATE, gsc_scaler_step(r.scaler, as_optimizer(&key), NULL, NULL), "gsc_scaler_step_buffers");
    assert_fails(GSC_ERR_STATE, gsc_scaler_clip_grad_norm(r.scaler, as_optimizer(&key), 1, 2, NULL), "key");
    assert_ok(gsc_scaler_record(r.scaler, as_optimizer(&key), false)); /* by kernels of the caller's own */
    grad = 3;
    assert_ok(gsc_scaler_step_buffers(r.scaler, &key, &buffer, 1, NULL, &result));
    assert_exact((double)grad, 3);
    rig_iterate(&r, 8);
    assert_fails(GSC_ERR_STATE, gsc_scaler_step_buffers(r.scaler, &r.optimizer.base, &buffer, 1, NULL, &result),
                 "gsc_scaler_step_buffers", "optimizer");
    assert_fails(GSC_ERR_STATE, gsc_scaler_unscale_buffers(r.scaler, &r.optimizer.base, &buffer, 1, NULL), "optimizer");
    assert_ok(gsc_scaler_forget(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_unscale_buffers(r.scaler, &r.optimizer.base, &buffer, 1, NULL));
    assert_ok(gsc_scaler_forget(r.scaler, as_optimizer(&key)));
    assert_int_equal(gsc_scaler_get_stage(r.scaler, as_optimizer(&key)), GSC_STAGE_READY);
    rig_stop(&r);
}

static double loss(void *ctx) { return ctx == NULL ? 0 : 1; }

/* trial T21 */
static void test_refusals(void **state)
{
    (void)state;
    gsc_scaler *scaler = scaler_of(8);
    float data[2] = {8, 8};
    gsc_buffer grads[] = {buffer_of(data, 1, "a"), buffer_of(data + 1, 1, "b")};
    gsc_step_result result;
    int key;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_step_buffers(NULL, &key, grads, 2, NULL, &result), "scaler is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_scaler_step_buffers(scaler, NULL, grads, 2, NULL, &result), "key is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_scaler_step_buffers(scaler, &key, NULL, 2, NULL, &result), "grads is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_scaler_step_buffers(scaler, &key, grads, 2, NULL, NULL), "result is NULL");
    const gsc_step_args with_closure = {.closure = loss}, with_extra = {.extra = &key}, negative = {.clip_norm = -1};
    assert_fails(GSC_ERR_VALUE, gsc_scaler_step_buffers(scaler, &key, grads, 2, &with_closure, &result),
                 "args.closure");
    assert_fails(GSC_ERR_VALUE, gsc_scaler_step_buffers(scaler, &key, grads, 2, &with_extra, &result), "args.extra");
    assert_fails(GSC_ERR_VALUE, gsc_scaler_step_buffers(scaler, &key, grads, 2, &negative, &result), "clip_norm");
    grads[1].dtype = GSC_FLOAT16;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_step_buffers(scaler, &key, grads, 2, NULL, &result),
                 "gsc_scaler_step_buffers", "gradient 1 (\"b\")", "float16");
    grads[1].dtype = (DLDataType){kDLComplex, 64, 1};
    assert_fails(GSC_ERR_UNSUPPORTED, gsc_scaler_unscale_buffers(scaler, &key, grads, 2, NULL), "gradient 1 (\"b\")");
    grads[1].dtype = GSC_FLOAT32;
    grads[1].count = SIZE_MAX;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale_buffers(scaler, &key, grads, 2, NULL), "buffer 1 (b)", "elements");
    assert_int_equal(gsc_scaler_get_stage(scaler, as_optimizer(&key)), GSC_STAGE_READY);
    assert_exact((double)data[0], 8);
    assert_fails(GSC_ERR_STATE, gsc_scaler_update(scaler), "nothing was checked");
    gsc_scaler_destroy(scaler);
}

/* trial T21, rule 11.1 */
static void test_disabled(void **state)
{
    (void)state;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.enabled = false;
    gsc_scaler *scaler = new_scaler(&options);
    float grads[2] = {3, -4};
    const gsc_buffer buffer = buffer_of(grads, 2, NULL);
    const gsc_step_args args = {.clip_norm = 2.5};
    gsc_step_result result;
    bool found_inf = true;
    assert_ok(gsc_scaler_unscale_buffers(scaler, "key", &buffer, 1, &found_inf));
    assert_false(found_inf);
    assert_exact((double)grads[0], 3);
    assert_ok(gsc_scaler_step_buffers(scaler, "key", &buffer, 1, &args, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    assert_exact(result.grad_norm, 5);
    assert_exact(result.scale, 1);
    assert_exact((double)grads[1], (double)(-4 * (float)(2.5 / (5 + 1e-6))));
    gsc_scaler_destroy(scaler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays_that_lie_elsewhere_each_time),
        cmocka_unit_test(test_unscale_look_step),
        cmocka_unit_test(test_no_gradients),
        cmocka_unit_test(test_keys_and_optimizers_stay_apart),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_disabled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
