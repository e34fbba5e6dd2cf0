/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule on the device: growth, backoff, limits, hysteresis, the caller's scales, the state dict, and
 * GSC_ERR_DIVERGED, which comes late. */
#include "scaler_rig.h"

static void iterate(rig *r, double grad)
{
    fill_grad(&r->optimizer, 0, grad);
    assert_ok(gsc_scaler_step(r->scaler, &r->optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(r->scaler));
}

static void start(rig *r, const gsc_scaler_options *options)
{
    rig_start(r, options);
    r->optimizer.base.step_scaled = optimizer_step_scaled; /* so that nothing waits */
    add_grad(&r->optimizer, 0, GSC_FLOAT32, 1, "weight");
}

#define assert_schedule(r, expected_scale, tracker)                                                                    \
    do {                                                                                                               \
        const gsc_scaler_state state_ = state_of((r)->scaler);                                                         \
        assert_exact(state_.scale, (expected_scale));                                                                  \
        assert_int_equal(state_.growth_tracker, (tracker));                                                            \
    } while (0)

static void the_scale_grows_and_backs_off(void **state)
{
    (void)state;
    rig r;
    start(&r, NULL);
    iterate(&r, 8);
    assert_schedule(&r, 8, 1);
    iterate(&r, 8);
    assert_schedule(&r, 16, 0);
    iterate(&r, 8);
    iterate(&r, (double)INFINITY);
    assert_schedule(&r, 8, 0);
    const gsc_scaler_stats stats = stats_of(r.scaler);
    assert_true(stats.updates == 4 && stats.growths == 1 && stats.backoffs == 1 && stats.consecutive_skips == 1);
    assert_exact(gsc_scaler_get_scale(r.scaler), 8);
    assert_fails(GSC_ERR_STATE, gsc_scaler_update(r.scaler), "nothing was checked");
    rig_stop(&r);
}

static void limits_hold(void **state)
{
    (void)state;
    rig r;
    gsc_scaler_options options = device_options();
    options.min_scale = 5;
    options.max_scale = 15;
    options.growth_interval = 1;
    start(&r, &options);
    iterate(&r, 8);
    assert_schedule(&r, 8, 0);
    iterate(&r, (double)NAN);
    assert_schedule(&r, 5, 0);
    iterate(&r, (double)NAN);
    assert_schedule(&r, 5, 0);
    assert_int_equal(stats_of(r.scaler).backoffs, 1);
    rig_stop(&r);
}

static void hysteresis_takes_credits(void **state)
{
    (void)state;
    rig r;
    gsc_scaler_options options = device_options();
    options.hysteresis = 2;
    start(&r, &options);
    iterate(&r, (double)INFINITY);
    assert_schedule(&r, 8, 0);
    assert_int_equal(state_of(r.scaler).hysteresis_tracker, 1);
    iterate(&r, (double)INFINITY);
    assert_schedule(&r, 4, 0);
    iterate(&r, 1);
    assert_int_equal(state_of(r.scaler).hysteresis_tracker, 2);
    rig_stop(&r);
}

static void a_callers_scale_ends_the_iteration(void **state)
{
    (void)state;
    rig r;
    float host = 12;
    start(&r, NULL);
    iterate(&r, 1);
    fill_grad(&r.optimizer, 0, (double)INFINITY);
    assert_waits(0, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_waits(0, gsc_scaler_update_to(r.scaler, 32));
    assert_schedule(&r, 32, 1);
    assert_int_equal(stats_of(r.scaler).updates, 2);
    float *on_device = standin_alloc(0, sizeof *on_device);
    standin_upload(on_device, &host, sizeof host);
    DLTensor tensor = {.data = on_device, .device = DEVICE, .dtype = GSC_FLOAT32};
    assert_ok(gsc_scaler_update_to_tensor(r.scaler, &tensor));
    assert_schedule(&r, 12, 1);
    tensor = (DLTensor){.data = &host, .device = {kDLCPU, 0}, .dtype = GSC_FLOAT32};
    host = 24;
    assert_ok(gsc_scaler_update_to_tensor(r.scaler, &tensor));
    assert_schedule(&r, 24, 1);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to(r.scaler, 0), "new_scale");
    assert_schedule(&r, 24, 1);
    standin_free(on_device);
    rig_stop(&r);
}

static void rules_can_be_set_while_work_is_enqueued(void **state)
{
    (void)state;
    rig r;
    start(&r, NULL);
    fill_grad(&r.optimizer, 0, (double)INFINITY);
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_waits(0, gsc_scaler_set_backoff_factor(r.scaler, 0.25));
    assert_waits(0, gsc_scaler_set_growth_factor(r.scaler, 3));
    assert_waits(0, gsc_scaler_set_growth_interval(r.scaler, 1));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_schedule(&r, 2, 0);
    iterate(&r, 1);
    assert_schedule(&r, 6, 0);
    assert_exact(gsc_scaler_get_growth_factor(r.scaler), 3);
    rig_stop(&r);
}

static void a_state_goes_to_another_scaler_and_back(void **state)
{
    (void)state;
    rig r;
    start(&r, NULL);
    iterate(&r, 1);
    iterate(&r, (double)INFINITY);
    iterate(&r, 1);
    gsc_scaler_state saved = state_of(r.scaler);
    assert_true(saved.scale == 4 && saved.growth_tracker == 1 && saved.consecutive_skips == 0);

    gsc_scaler *on_cpu, *other;
    assert_ok(gsc_scaler_create(NULL, &on_cpu));
    assert_ok(gsc_scaler_load_state_dict(on_cpu, &saved));
    const gsc_scaler_options options = device_options();
    other = new_scaler(&options);
    const gsc_scaler_state from_cpu = state_of(on_cpu);
    assert_ok(gsc_scaler_load_state_dict(other, &from_cpu));
    const gsc_scaler_state at_last = state_of(other);
    assert_memory_equal(&saved, &at_last, sizeof saved);
    assert_exact(gsc_scaler_get_scale(other), 4);
    gsc_scaler_destroy(on_cpu);
    gsc_scaler_destroy(other);

    fill_grad(&r.optimizer, 0, 1);
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_fails(GSC_ERR_STATE, gsc_scaler_load_state_dict(r.scaler, &saved), "an iteration is under way");
    assert_ok(gsc_scaler_update(r.scaler));
    saved.hysteresis = saved.hysteresis_tracker = 0; /* the scaler's own */
    assert_ok(gsc_scaler_load_state_dict(r.scaler, &saved));
    assert_int_equal(state_of(r.scaler).hysteresis_tracker, 1);
    iterate(&r, 1);
    assert_schedule(&r, 8, 0);
    rig_stop(&r);
}

/* rule 10.1, 17.4 */
static void divergence_is_told_when_it_has_arrived(void **state)
{
    (void)state;
    needs_late_work();
    rig r;
    gsc_step_result result;
    gsc_scaler_options options = device_options();
    options.max_consecutive_skips = 2;
    start(&r, &options);
    iterate(&r, (double)INFINITY);
    iterate(&r, (double)NAN); /* OK: the device has not come to it */
    fill_grad(&r.optimizer, 0, 1);
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_exact((double)device_float(r.optimizer.last_scaling.found_inf_dev), 1);
    assert_fails(GSC_ERR_DIVERGED, gsc_scaler_result(r.scaler, &r.optimizer.base, &result), "gsc_scaler_update",
                 "2 iterations in a row", "max_consecutive_skips is 2");
    assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result)); /* once */
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    assert_ok(gsc_scaler_update(r.scaler));
    iterate(&r, 4);
    assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    rig_stop(&r);
}

static void divergence_names_the_gradients_at_a_plain_step(void **state)
{
    (void)state;
    needs_late_work();
    rig r;
    gsc_scaler_options options = device_options();
    options.skip_window = 2;
    options.max_skip_share = 0.5;
    start(&r, &options);
    r.optimizer.base.step_scaled = NULL;
    iterate(&r, (double)NAN);
    iterate(&r, (double)NAN);
    fill_grad(&r.optimizer, 0, (double)NAN);
    assert_fails(GSC_ERR_DIVERGED, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL), "2 of the last 2",
                 "\"weight\" (NaN)");
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_UNSCALED);
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    rig_stop(&r);
}

static void an_update_tells_what_has_arrived_without_waiting(void **state)
{
    (void)state;
    needs_late_work();
    rig r;
    gsc_scaler_options options = device_options();
    options.max_consecutive_skips = 1;
    start(&r, &options);
    iterate(&r, (double)INFINITY);
    standin_run_all();
    fill_grad(&r.optimizer, 0, 1);
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_fails(GSC_ERR_DIVERGED, gsc_scaler_update(r.scaler), "1 iteration in a row", "\"weight\" (inf)");
    /* The device has not been told to go on yet, but the caller was told. */
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_int_equal(stats_of(r.scaler).steps, 1);
    rig_stop(&r);
}

/* A divergence that nobody was told of ends with the state that it belongs to, however far it has come. */
static void a_new_state_or_scale_begins_without_the_divergence(void **state)
{
    (void)state;
    needs_late_work();
    for (int arrived = 0; arrived < 3; arrived++)
        for (int loads = 0; loads < 2; loads++) {
            rig r;
            gsc_step_result result;
            gsc_scaler_options options = device_options();
            options.max_consecutive_skips = 2;
            start(&r, &options);
            const gsc_scaler_state fresh = state_of(r.scaler);
            iterate(&r, (double)INFINITY);
            fill_grad(&r.optimizer, 0, (double)INFINITY);
            assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
            assert_ok(gsc_scaler_update(r.scaler));
            if (arrived > 0)
                standin_run_all();
            if (arrived > 1)
                assert_exact(gsc_scaler_get_scale(r.scaler), 2);
            assert_ok(loads ? gsc_scaler_load_state_dict(r.scaler, &fresh) : gsc_scaler_update_to(r.scaler, 8));
            assert_ok(gsc_scaler_skip(r.scaler, &r.optimizer.base));
            assert_ok(gsc_scaler_update(r.scaler)); /* looks while the new state has not arrived */
            fill_grad(&r.optimizer, 0, 8);
            assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
            assert_exact((double)device_float(r.optimizer.last_scaling.found_inf_dev), 0);
            assert_ok(gsc_scaler_update(r.scaler));
            assert_ok(gsc_scaler_result(r.scaler, &r.optimizer.base, &result));
            assert_int_equal(result.outcome, GSC_STEPPED);
            /* The next one is told. */
            for (int i = 0; i < 2; i++) {
                fill_grad(&r.optimizer, 0, (double)NAN);
                assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
                assert_ok(gsc_scaler_update(r.scaler));
            }
            assert_fails(GSC_ERR_DIVERGED, gsc_scaler_result(r.scaler, &r.optimizer.base, &result), "2 iterations");
            rig_stop(&r);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_scale_grows_and_backs_off),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(hysteresis_takes_credits),
        cmocka_unit_test(a_callers_scale_ends_the_iteration),
        cmocka_unit_test(rules_can_be_set_while_work_is_enqueued),
        cmocka_unit_test(a_state_goes_to_another_scaler_and_back),
        cmocka_unit_test(divergence_is_told_when_it_has_arrived),
        cmocka_unit_test(divergence_names_the_gradients_at_a_plain_step),
        cmocka_unit_test(an_update_tells_what_has_arrived_without_waiting),
        cmocka_unit_test(a_new_state_or_scale_begins_without_the_divergence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
