/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 1: NULL where it is not allowed, and reserved fields. */
#include "rig.h"

/* rule 1.4 */
static void test_null_scaler(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    const gsc_optimizer *optimizer = &r.optimizer.base;
    float data = 1;
    DLTensor tensor = tensor_of(GSC_FLOAT32, &data, NULL), view;
    DLTensor *list[] = {&tensor};
    gsc_step_result result;
    gsc_scaler_state saved = state_of(r.scaler);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_create(NULL, NULL));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(NULL, &tensor, &tensor));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale_list(NULL, list, list, 1));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale_view(NULL, (DLDevice){kDLCPU, 0}, &view));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(NULL, optimizer));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_record(NULL, optimizer, false));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_step(NULL, optimizer, NULL, NULL));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_result(NULL, optimizer, &result));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_clip_grad_norm(NULL, optimizer, 1, 2, NULL));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_skip(NULL, optimizer));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_rearm(NULL, optimizer));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_update(NULL));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to(NULL, 2));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to_tensor(NULL, &tensor));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_set_stream(NULL, (DLDevice){kDLCPU, 0}, NULL));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_set_growth_factor(NULL, 2));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_set_backoff_factor(NULL, 0.5));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_set_growth_interval(NULL, 1));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_state_dict(NULL, &saved));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_load_state_dict(NULL, &saved));
    assert_message("gsc_scaler_load_state_dict");
    assert_message("scaler");
    assert_fails(GSC_ERR_VALUE, gsc_scaler_forget(NULL, optimizer));
    assert_message("gsc_scaler_forget: scaler is NULL");
    gsc_scaler_destroy(NULL);
    rig_stop(&r);
}

/* The last message names this function and says that its scaler is NULL. Clears the message for the next call. */
static void assert_null_scaler(const char *function)
{
    assert_message(function);
    assert_message(": scaler is NULL");
    gsc_fail(GSC_OK, "an older message");
}

/* rule 1.4 */
static void test_getters_of_a_null_scaler(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    const gsc_optimizer *optimizer = &r.optimizer.base;
    gsc_overflow overflow = {.index = 7};
    gsc_scaler_stats stats = {.updates = 7};
    assert_int_equal(gsc_scaler_overflows(NULL, optimizer, &overflow, 1), 0);
    assert_int_equal(overflow.index, 7);
    assert_null_scaler("gsc_scaler_overflows");
    assert_false(gsc_scaler_is_enabled(NULL));
    assert_null_scaler("gsc_scaler_is_enabled");
    assert_false(gsc_scaler_found_inf(NULL, optimizer));
    assert_null_scaler("gsc_scaler_found_inf");
    assert_int_equal(gsc_scaler_get_stage(NULL, optimizer), GSC_STAGE_READY);
    assert_null_scaler("gsc_scaler_get_stage");
    assert_exact(gsc_scaler_get_scale(NULL), NAN);
    assert_null_scaler("gsc_scaler_get_scale");
    assert_exact(gsc_scaler_get_growth_factor(NULL), NAN);
    assert_null_scaler("gsc_scaler_get_growth_factor");
    assert_exact(gsc_scaler_get_backoff_factor(NULL), NAN);
    assert_null_scaler("gsc_scaler_get_backoff_factor");
    assert_int_equal(gsc_scaler_get_growth_interval(NULL), 0);
    assert_null_scaler("gsc_scaler_get_growth_interval");
    gsc_scaler_get_stats(NULL, &stats);
    assert_int_equal(stats.updates, 0);
    assert_null_scaler("gsc_scaler_get_stats");
    gsc_scaler_get_stats(r.scaler, NULL);
    assert_message("gsc_scaler_get_stats: out is NULL");
    rig_stop(&r);
}

/* An optimizer that the scaler does not know, or NULL: READY, no overflow, no message. */
static void test_getters_of_an_unknown_optimizer(void **state)
{
    (void)state;
    rig r, unknown;
    rig_start(&r, 8);
    rig_start(&unknown, 8);
    assert_int_equal(rig_step(&r, INFINITY), GSC_SKIPPED_OVERFLOW);
    gsc_fail(GSC_OK, "an older message");
    const gsc_optimizer *optimizers[] = {NULL, &unknown.optimizer.base};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gsc_scaler_get_stage(r.scaler, optimizers[i]), GSC_STAGE_READY);
        assert_false(gsc_scaler_found_inf(r.scaler, optimizers[i]));
        assert_int_equal(gsc_scaler_overflows(r.scaler, optimizers[i], NULL, 0), 0);
        assert_string_equal(gsc_last_error(), "an older message");
    }
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, NULL, 4), 1); /* out may be NULL */
    rig_stop(&unknown);
    rig_stop(&r);
}

/* rule 1.4 */
static void test_null_arguments(void **state)
{
    (void)state;
    for (int enabled = 0; enabled < 2; enabled++) {
        gsc_scaler_options options = options_of(8, 2);
        options.enabled = enabled != 0;
        rig r;
        rig_start_with(&r, &options);
        gsc_scaler *scaler = r.scaler;
        float data = 1;
        DLTensor tensor = tensor_of(GSC_FLOAT32, &data, NULL);
        DLTensor *list[] = {&tensor}, *hole[] = {NULL};
        gsc_step_result result;
        assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, NULL, &tensor));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &tensor, NULL));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_scale_list(scaler, NULL, list, 1));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_scale_list(scaler, list, NULL, 1));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_scale_list(scaler, hole, list, 1));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_scale_view(scaler, (DLDevice){kDLCPU, 0}, NULL));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(scaler, NULL));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_record(scaler, NULL, false));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_step(scaler, NULL, NULL, NULL));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_result(scaler, NULL, &result));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_clip_grad_norm(scaler, NULL, 1, 2, NULL));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_skip(scaler, NULL));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_rearm(scaler, NULL));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to_tensor(scaler, NULL));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_state_dict(scaler, NULL));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_load_state_dict(scaler, NULL));
        assert_exact((double)data, 1);
        assert_fails(GSC_ERR_VALUE, gsc_scaler_forget(scaler, NULL));
        assert_int_equal(gsc_scaler_overflows(scaler, NULL, NULL, 0), 0);
        rig_stop(&r);
    }
}

/* rule 1.4 */
static void test_null_callbacks(void **state)
{
    (void)state;
    for (int which = 0; which < 3; which++) {
        rig r;
        rig_start(&r, 8);
        static const char *const names[] = {"grad_count", "grad", "step"};
        if (which == 0)
            r.optimizer.base.grad_count = NULL;
        else if (which == 1)
            r.optimizer.base.grad = NULL;
        else
            r.optimizer.base.step = NULL;
        r.grad = 8;
        if (which < 2)
            assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
        assert_message(names[which]);
        assert_exact((double)r.grad, 8);
        assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_READY);
        rig_stop(&r);
    }
}

/* rule 1.5 */
static void test_reserved_of_the_optimizer(void **state)
{
    (void)state;
    for (size_t i = 0; i < 8; i++) {
        rig r;
        rig_start(&r, 8);
        r.grad = 8;
        r.optimizer.base.reserved[i] = UINT64_C(1) << 63;
        char field[] = "optimizer.reserved[0]";
        field[sizeof "optimizer.reserved[" - 1] += (char)i;
        assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_message(field);
        r.optimizer.base.reserved[i] = 1;
        assert_fails(GSC_ERR_VALUE, gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
        assert_fails(GSC_ERR_VALUE, gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 1, 2, NULL));
        assert_exact((double)r.grad, 8);
        rig_stop(&r);
    }
}

/* rule 15.2 */
static void test_messages(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_set_growth_factor(r.scaler, 0.25));
    char before[512];
    snprintf(before, sizeof before, "%s", gsc_last_error());
    rig_iterate(&r, 1); /* successes leave it */
    assert_string_equal(gsc_last_error(), before);
    assert_fails(GSC_ERR_IO, gsc_fail(GSC_ERR_IO, "line %d of %s", 7, "x"));
    assert_string_equal(gsc_last_error(), "line 7 of x");
    assert_string_equal(gsc_status_name(GSC_ERR_DIVERGED), "GSC_ERR_DIVERGED");
    assert_string_equal(gsc_status_name((gsc_status)99), "unknown status");
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_scaler),
        cmocka_unit_test(test_getters_of_a_null_scaler),
        cmocka_unit_test(test_getters_of_an_unknown_optimizer),
        cmocka_unit_test(test_null_arguments),
        cmocka_unit_test(test_null_callbacks),
        cmocka_unit_test(test_reserved_of_the_optimizer),
        cmocka_unit_test(test_messages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
