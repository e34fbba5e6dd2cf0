/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.h: callbacks of an enabled scaler may call only those of its functions that take it const; others return
 * GSC_ERR_STATE and change nothing. */
#include "rig.h"

static rig *current;
static int refused, wrong, visits;

static void assert_state_error(gsc_status status)
{
    if (status == GSC_ERR_STATE)
        refused++;
    else
        wrong++;
}

static void try_everything(void)
{
    gsc_scaler *scaler = current->scaler;
    const gsc_optimizer *optimizer = &current->optimizer.base;
    float data = 1;
    DLTensor tensor = tensor_of(GSC_FLOAT32, &data, NULL), view;
    DLTensor *list[] = {&tensor};
    gsc_step_result result;
    gsc_scaler_state saved = {.scale = 1, .growth_factor = 3, .backoff_factor = 0.1, .growth_interval = 7};
    visits++;
    assert_state_error(gsc_scaler_scale_view(scaler, (DLDevice){kDLCPU, 0}, &view));
    assert_state_error(gsc_scaler_unscale(scaler, optimizer));
    assert_state_error(gsc_scaler_record(scaler, optimizer, true));
    assert_state_error(gsc_scaler_step(scaler, optimizer, NULL, NULL));
    assert_state_error(gsc_scaler_clip_grad_norm(scaler, optimizer, 1, 2, NULL));
    assert_state_error(gsc_scaler_skip(scaler, optimizer));
    assert_state_error(gsc_scaler_rearm(scaler, optimizer));
    assert_state_error(gsc_scaler_update(scaler));
    assert_state_error(gsc_scaler_update_to(scaler, 2));
    assert_state_error(gsc_scaler_update_to_tensor(scaler, &tensor));
    assert_state_error(gsc_scaler_set_stream(scaler, (DLDevice){kDLCPU, 0}, NULL));
    assert_state_error(gsc_scaler_set_growth_factor(scaler, 3));
    assert_state_error(gsc_scaler_set_backoff_factor(scaler, 0.1));
    assert_state_error(gsc_scaler_set_growth_interval(scaler, 7));
    assert_state_error(gsc_scaler_load_state_dict(scaler, &saved));
    assert_state_error(gsc_scaler_forget(scaler, optimizer));
    gsc_fail(GSC_OK, "an older message");
    gsc_scaler_destroy(scaler); /* no effect either */
    wrong += strstr(gsc_last_error(), "gsc_scaler_destroy: called from a callback") == NULL;
    wrong += data != 1;

    /* What takes it const works. */
    gsc_scaler_stats stats;
    double scale = gsc_scaler_get_scale(scaler);
    wrong += scale <= 0;
    wrong += gsc_scaler_scale(scaler, &tensor, &tensor) != GSC_OK || (double)data != scale;
    wrong += gsc_scaler_scale_list(scaler, list, list, 1) != GSC_OK || (double)data != scale * scale;
    gsc_scaler_get_stats(scaler, &stats);
    bool has_result = stats.steps + stats.skipped_steps > 0;
    wrong += gsc_scaler_result(scaler, optimizer, &result) != (has_result ? GSC_OK : GSC_ERR_STATE);
    wrong += gsc_scaler_get_growth_factor(scaler) != 2;
    wrong += gsc_scaler_get_backoff_factor(scaler) != 0.5;
    wrong += gsc_scaler_get_growth_interval(scaler) != 2;
    wrong += !gsc_scaler_is_enabled(scaler);
    wrong += gsc_scaler_state_dict(scaler, &saved) != GSC_OK || saved.growth_factor != 2;
    (void)gsc_scaler_get_stage(scaler, optimizer);
    (void)gsc_scaler_found_inf(scaler, optimizer);
    (void)gsc_scaler_overflows(scaler, optimizer, NULL, 0);
}

enum { REFUSALS = 16 }; /* of one try_everything */

static size_t trying_grad_count(void *self)
{
    try_everything();
    return fake_grad_count(self);
}

static DLTensor *trying_grad(void *self, size_t index)
{
    try_everything();
    return fake_grad(self, index);
}

static const char *trying_name(void *self, size_t index)
{
    try_everything();
    return fake_name(self, index);
}

static gsc_status trying_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    try_everything();
    return fake_step(self, args, value, has_value);
}

static gsc_status trying_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling,
                                     double *value, bool *has_value)
{
    try_everything();
    return fake_step_scaled(self, args, scaling, value, has_value);
}

static void trying_observer(void *ctx, const gsc_event *event)
{
    (void)ctx, (void)event;
    try_everything();
}

static int trying_allreduce(void *self, DLTensor *values, void *stream)
{
    (void)self, (void)values, (void)stream; /* alone, the values are the result */
    try_everything();
    return 0;
}

static void start(rig *r, const gsc_scaler_options *options)
{
    rig_start_with(r, options);
    current = r;
    refused = wrong = visits = 0;
}

static void assert_refusals(int at_least)
{
    assert_true(visits >= at_least);
    assert_int_equal(wrong, 0);
    assert_int_equal(refused, visits * REFUSALS);
}

/* Each callback in turn makes every call; the iteration ends as if it had made none. */
/* rule 15.4 */
static void test_callbacks_cannot_change_the_scaler(void **state)
{
    (void)state;
    for (int which = 0; which < 7; which++) {
        gsc_comm comm = {.allreduce_max = trying_allreduce};
        gsc_scaler_options options = options_of(8, 2);
        options.observer = which == 5 ? trying_observer : NULL;
        options.comm = which == 6 ? &comm : NULL;
        rig r;
        start(&r, &options);
        gsc_optimizer *optimizer = &r.optimizer.base;
        switch (which) {
        case 0: optimizer->grad_count = trying_grad_count; break;
        case 1: optimizer->grad = trying_grad; break;
        case 2: optimizer->name = trying_name; break;
        case 3: optimizer->step = trying_step; break;
        case 4: optimizer->step_scaled = trying_step_scaled; break;
        default: break;
        }
        assert_int_equal(rig_iterate(&r, 8), GSC_STEPPED);
        assert_exact((double)r.param, -1);
        assert_int_equal(rig_iterate(&r, NAN), GSC_SKIPPED_OVERFLOW);
        assert_exact(gsc_scaler_get_scale(r.scaler), 4);
        assert_int_equal(stats_of(r.scaler).updates, 2);
        assert_refusals(1);
        rig_stop(&r);
    }
}

/* The observer is called when an update is complete. */
static double scale_seen;
static gsc_stage stage_seen;

static void looking_observer(void *ctx, const gsc_event *event)
{
    (void)ctx;
    if (event->kind == GSC_EVENT_BACKOFF) {
        scale_seen = gsc_scaler_get_scale(event->scaler);
        stage_seen = gsc_scaler_get_stage(event->scaler, &current->optimizer.base);
    }
}

/* rule 15.4 */
static void test_the_observer_sees_the_new_state(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(8, 2);
    options.observer = looking_observer;
    rig r;
    start(&r, &options);
    stage_seen = GSC_STAGE_STEPPED;
    rig_iterate(&r, NAN);
    assert_exact(scale_seen, 4);
    assert_int_equal(stage_seen, GSC_STAGE_READY);
    rig_stop(&r);
}

/* Callbacks may change another scaler, and a disabled one. */
static gsc_status step_with_another(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)args;
    gsc_scaler *other = ((fake_optimizer *)self)->params[1].grad.data;
    *has_value = true;
    *value = gsc_scaler_update_to(other, 64) == GSC_OK ? 1 : 0;
    return GSC_OK;
}

/* rule 15.4 */
static void test_another_scaler_may_be_called(void **state)
{
    (void)state;
    for (int disabled = 0; disabled < 2; disabled++) {
        gsc_scaler_options options = options_of(8, 2);
        options.enabled = disabled == 0;
        rig r;
        start(&r, &options);
        gsc_scaler *other = disabled != 0 ? r.scaler : new_scaler(NULL);
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, other, 1, "carries the other")->absent = true;
        r.optimizer.base.step = step_with_another;
        gsc_step_result result;
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
        assert_exact(result.value, 1);
        if (disabled == 0) {
            assert_exact(gsc_scaler_get_scale(other), 64);
            gsc_scaler_destroy(other);
        }
        rig_stop(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_callbacks_cannot_change_the_scaler),
        cmocka_unit_test(test_the_observer_sees_the_new_state),
        cmocka_unit_test(test_another_scaler_may_be_called),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
