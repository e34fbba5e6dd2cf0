/* SPDX-License-Identifier: Apache-2.0 */
/* Rules 1 and 11: the state dict, saved and loaded. */

#include "rig.h"

/* rule 1.5, case 91, 92 */
static void test_every_field_is_saved(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(512, 100);
    options.growth_factor = 3;
    options.backoff_factor = 0.25;
    options.min_scale = 0.5;
    options.max_scale = 4096;
    options.hysteresis = 2;
    rig r;
    rig_start_with(&r, &options);
    for (int i = 0; i < 7; i++)
        rig_iterate(&r, 1);
    gsc_scaler_state saved = state_of(r.scaler);
    assert_exact(saved.scale, 512);
    assert_exact(saved.growth_factor, 3);
    assert_exact(saved.backoff_factor, 0.25);
    assert_int_equal(saved.growth_interval, 100);
    assert_int_equal(saved.growth_tracker, 7);
    assert_exact(saved.min_scale, 0.5);
    assert_exact(saved.max_scale, 4096);
    assert_int_equal(saved.hysteresis, 2);
    assert_int_equal(saved.hysteresis_tracker, 2);
    assert_int_equal(saved.consecutive_skips, 0);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(saved.reserved[i], 0);
    rig_iterate(&r, NAN);
    saved = state_of(r.scaler);
    assert_int_equal(saved.growth_tracker, 0);
    assert_int_equal(saved.hysteresis_tracker, 1);
    assert_int_equal(saved.consecutive_skips, 1);
    rig_stop(&r);
}

static bool overflows_at(int i) { return i % 7 == 3 || i % 11 == 5 || i % 11 == 6; }

/* case 91, 92 */
static void test_resume_continues_bit_for_bit(void **state)
{
    (void)state;
    for (int cut = 0; cut < 30; cut++) {
        gsc_scaler_options options = options_of(300, 3);
        options.growth_factor = 1.7;
        options.backoff_factor = 0.3;
        options.min_scale = 2;
        options.hysteresis = 2;
        rig whole, second;
        rig_start_with(&whole, &options);
        for (int i = 0; i < cut; i++)
            rig_iterate(&whole, overflows_at(i) ? NAN : 1);
        gsc_scaler_state saved = state_of(whole.scaler);
        rig_start_with(&second, NULL); /* everything comes from the state */
        assert_ok(gsc_scaler_load_state_dict(second.scaler, &saved));
        for (int i = cut; i < cut + 20; i++) {
            rig_iterate(&whole, overflows_at(i) ? NAN : 1);
            rig_iterate(&second, overflows_at(i) ? NAN : 1);
            gsc_scaler_state a = state_of(whole.scaler), b = state_of(second.scaler);
            assert_memory_equal(&a, &b, sizeof a);
        }
        rig_stop(&whole);
        rig_stop(&second);
    }
}

/* case 96 */
static void test_load_replaces_everything(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(6, 1);
    options.growth_factor = 7;
    options.backoff_factor = 0.8;
    gsc_scaler *scaler = new_scaler(&options);
    const gsc_scaler_state in = {
        .scale = 3, .growth_factor = 4, .backoff_factor = 0.5, .growth_interval = 2, .growth_tracker = 1};
    assert_ok(gsc_scaler_load_state_dict(scaler, &in));
    assert_exact(gsc_scaler_get_scale(scaler), 3);
    assert_exact(gsc_scaler_get_growth_factor(scaler), 4);
    assert_exact(gsc_scaler_get_backoff_factor(scaler), 0.5);
    assert_int_equal(gsc_scaler_get_growth_interval(scaler), 2);
    assert_int_equal(state_of(scaler).growth_tracker, 1);
    gsc_scaler_destroy(scaler);
}

/* rule 11.6, case 96 */
static void test_zero_limits_and_hysteresis_keep_the_own(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(64, 2);
    options.min_scale = 4;
    options.max_scale = 256;
    options.hysteresis = 3;
    rig r;
    rig_start_with(&r, &options);
    rig_iterate(&r, NAN);
    const gsc_scaler_state in = {.scale = 8, .growth_factor = 2, .backoff_factor = 0.5, .growth_interval = 2};
    assert_ok(gsc_scaler_load_state_dict(r.scaler, &in));
    gsc_scaler_state now = state_of(r.scaler);
    assert_exact(now.scale, 8);
    assert_exact(now.min_scale, 4);
    assert_exact(now.max_scale, 256);
    assert_int_equal(now.hysteresis, 3);
    assert_int_equal(now.hysteresis_tracker, 2); /* both are kept */
    gsc_scaler_state outside = in;
    outside.scale = 2; /* below the min_scale that is kept */
    assert_fails(GSC_ERR_VALUE, gsc_scaler_load_state_dict(r.scaler, &outside));
    outside.scale = 512;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_load_state_dict(r.scaler, &outside));
    outside.max_scale = 1024; /* with its own limit it fits */
    assert_ok(gsc_scaler_load_state_dict(r.scaler, &outside));
    assert_exact(gsc_scaler_get_scale(r.scaler), 512);
    rig_stop(&r);
}

/* rule 1.1, 1.5, 11.6, conformance F */
static void test_a_wrong_field_loads_nothing(void **state)
{
    (void)state;
    const gsc_scaler_state good = {.scale = 8,
                                   .growth_factor = 4,
                                   .backoff_factor = 0.25,
                                   .growth_interval = 9,
                                   .growth_tracker = 5,
                                   .min_scale = 1,
                                   .max_scale = 64,
                                   .hysteresis = 2,
                                   .hysteresis_tracker = 1,
                                   .consecutive_skips = 3};
    for (int enabled = 0; enabled < 2; enabled++) {
        for (int i = 0; i < 23; i++) {
            gsc_scaler_state in = good;
            const char *field = "";
            switch (i) {
            case 0: in.scale = 0, field = "scale"; break;
            case 1: in.scale = -8, field = "scale"; break;
            case 2: in.scale = (double)NAN, field = "scale"; break;
            case 3: in.scale = (double)INFINITY, field = "scale"; break;
            case 4: in.scale = 0.5, field = "scale"; break; /* below min_scale */
            case 5: in.scale = 65, field = "scale"; break;
            case 6: in.growth_factor = 1, field = "growth_factor"; break;
            case 7: in.growth_factor = (double)NAN, field = "growth_factor"; break;
            case 8: in.backoff_factor = 1, field = "backoff_factor"; break;
            case 9: in.backoff_factor = -0.5, field = "backoff_factor"; break;
            case 10: in.growth_interval = 0, field = "growth_interval"; break;
            case 11: in.growth_interval = -1, field = "growth_interval"; break;
            case 12: in.growth_tracker = -1, field = "growth_tracker"; break;
            case 13: in.min_scale = -1, field = "min_scale"; break;
            case 14: in.min_scale = (double)NAN, field = "min_scale"; break;
            case 15: in.min_scale = 128, field = "scale"; break; /* above max_scale */
            case 16: in.max_scale = (double)INFINITY, field = "max_scale"; break;
            case 17: in.max_scale = 1e39, field = "max_scale"; break;
            case 18: in.hysteresis = -1, field = "hysteresis"; break;
            case 19: in.hysteresis_tracker = 3, field = "hysteresis_tracker"; break; /* credit above H */
            case 20: in.hysteresis_tracker = -1, field = "hysteresis_tracker"; break;
            case 21: in.consecutive_skips = -1, field = "consecutive_skips"; break;
            default: in.reserved[7] = 1, field = "reserved"; break;
            }
            gsc_scaler_options options = options_of(16, 2);
            options.enabled = enabled != 0;
            gsc_scaler *scaler = new_scaler(&options);
            gsc_scaler_state before = state_of(scaler);
            if (gsc_scaler_load_state_dict(scaler, &in) != GSC_ERR_VALUE)
                fail_msg("case %d (%s) was not refused", i, field);
            assert_message(field);
            gsc_scaler_state after = state_of(scaler);
            assert_memory_equal(&before, &after, sizeof before);
            assert_exact(gsc_scaler_get_growth_factor(scaler), 2);
            assert_ok(gsc_scaler_load_state_dict(scaler, &good));
            gsc_scaler_destroy(scaler);
        }
    }
}

/* rule 11.5, case 94 */
static void test_an_empty_state_into_an_enabled_scaler(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    const gsc_scaler_state empty = {0};
    assert_fails(GSC_ERR_STATE, gsc_scaler_load_state_dict(r.scaler, &empty));
    assert_message("disabled"); /* where it may come from */
    assert_exact(gsc_scaler_get_scale(r.scaler), 8);
    rig_stop(&r);
}

/* rule 11.6, case 98 */
static void test_refused_while_an_iteration_is_open(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    gsc_scaler_state saved = state_of(r.scaler);
    saved.scale = 4;
    r.grad = 8;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_fails(GSC_ERR_STATE, gsc_scaler_load_state_dict(r.scaler, &saved));
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_fails(GSC_ERR_STATE, gsc_scaler_load_state_dict(r.scaler, &saved));
    assert_exact(gsc_scaler_get_scale(r.scaler), 8);
    assert_ok(gsc_scaler_update(r.scaler));
    assert_ok(gsc_scaler_load_state_dict(r.scaler, &saved));
    assert_exact(gsc_scaler_get_scale(r.scaler), 4);
    rig_stop(&r);
}

/* rule 1.2 */
static void test_loaded_numbers_are_rounded_to_float(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    gsc_scaler_state in = state_of(r.scaler);
    in.scale = 0.1;
    assert_ok(gsc_scaler_load_state_dict(r.scaler, &in));
    assert_exact(gsc_scaler_get_scale(r.scaler), (double)0.1f);
    rig_stop(&r);
}

/* case 98 */
static void test_saving_changes_nothing(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    r.grad = 16;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    (void)state_of(r.scaler); /* in the middle of an iteration, too */
    assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_UNSCALED);
    assert_ok(gsc_scaler_update(r.scaler));
    assert_int_equal(state_of(r.scaler).growth_tracker, 1);
    rig_stop(&r);
}

/* rule 15.1, case 98 */
static void test_two_scalers_are_independent(void **state)
{
    (void)state;
    rig a, b;
    rig_start(&a, 8);
    rig_start(&b, 8);
    gsc_scaler_state saved = state_of(a.scaler);
    assert_ok(gsc_scaler_load_state_dict(b.scaler, &saved));
    rig_iterate(&a, NAN);
    assert_exact(gsc_scaler_get_scale(a.scaler), 4);
    assert_exact(gsc_scaler_get_scale(b.scaler), 8);
    rig_stop(&a);
    rig_stop(&b);
}

/* case 19 */
static void test_a_new_scaler_takes_over_the_state(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 65536);
    for (int i = 0; i < 6; i++)
        rig_iterate(&r, NAN);
    assert_exact(gsc_scaler_get_scale(r.scaler), 1024);
    gsc_scaler_state settled = state_of(r.scaler);
    gsc_scaler *next = new_scaler(NULL);
    assert_ok(gsc_scaler_load_state_dict(next, &settled));
    assert_exact(gsc_scaler_get_scale(next), 1024);
    gsc_scaler_destroy(next);
    rig_stop(&r);
}

/* conformance B, F, 17, 87 */
static void test_load_and_save_back(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(6, 1);
    options.growth_factor = 7;
    options.backoff_factor = 0.8;
    gsc_scaler *scaler = new_scaler(&options);
    const gsc_scaler_state in = {.scale = 3, .growth_factor = 4, .backoff_factor = 0.5, .growth_interval = 2};
    assert_ok(gsc_scaler_load_state_dict(scaler, &in));
    gsc_scaler_state out = state_of(scaler);
    assert_exact(out.scale, 3);
    assert_exact(out.growth_factor, 4);
    assert_exact(out.backoff_factor, 0.5);
    assert_int_equal(out.growth_interval, 2);
    assert_int_equal(out.growth_tracker, 0);
    float loss = 4; /* item 17 */
    DLTensor tensor = tensor_of(GSC_FLOAT32, &loss, NULL);
    assert_ok(gsc_scaler_scale(scaler, &tensor, &tensor));
    assert_exact((double)loss, 12);
    gsc_scaler_destroy(scaler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field_is_saved),
        cmocka_unit_test(test_resume_continues_bit_for_bit),
        cmocka_unit_test(test_load_replaces_everything),
        cmocka_unit_test(test_zero_limits_and_hysteresis_keep_the_own),
        cmocka_unit_test(test_a_wrong_field_loads_nothing),
        cmocka_unit_test(test_an_empty_state_into_an_enabled_scaler),
        cmocka_unit_test(test_refused_while_an_iteration_is_open),
        cmocka_unit_test(test_loaded_numbers_are_rounded_to_float),
        cmocka_unit_test(test_saving_changes_nothing),
        cmocka_unit_test(test_two_scalers_are_independent),
        cmocka_unit_test(test_a_new_scaler_takes_over_the_state),
        cmocka_unit_test(test_load_and_save_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
