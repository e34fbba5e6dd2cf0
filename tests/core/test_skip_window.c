/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 10: skip_window and max_skip_share, the stop by share of overflowed updates. */
#include "rig.h"

static void start(rig *r, int32_t window, double share)
{
    gsc_scaler_options options = options_of(65536, 2);
    options.skip_window = window;
    options.max_skip_share = share;
    rig_start_with(r, &options);
}

static gsc_status iterate(rig *r, bool overflow)
{
    rig_step(r, overflow ? INFINITY : 1);
    return gsc_scaler_update(r->scaler);
}

/* Every second update overflows for ever: never two in a row, so that max_consecutive_skips never ends it. */
/* rule 10.4, trial T25 */
static void test_every_second_update_overflows(void **state)
{
    (void)state;
    rig r;
    start(&r, 10, 0.4);
    r.optimizer.params[0].name = "decoder.bias";
    for (int i = 0; i < 9; i++)
        assert_ok(iterate(&r, i % 2 == 0));
    for (int i = 9; i < 30; i++) { /* so does each further one, clean or not */
        assert_fails(GSC_ERR_DIVERGED, iterate(&r, i % 2 == 0), "5 of the last 10 iterations overflowed",
                     "skip_window is 10", "max_skip_share is 0.4", "\"decoder.bias\" (inf)");
        /* The update was carried out whole. */
        assert_int_equal(gsc_scaler_get_stage(r.scaler, &r.optimizer.base), GSC_STAGE_READY);
        assert_int_equal(stats_of(r.scaler).updates, i + 1);
        assert_exact(gsc_scaler_get_scale(r.scaler), ldexp(65536, -(i / 2) - 1));
    }
    rig_stop(&r);
}

/* Whether the share of a reference that remembers everything says the same at each update. */
/* rule 10.4, trial T25 */
static void test_the_share_of_the_last_updates(void **state)
{
    (void)state;
    enum { UPDATES = 5 * 4096 };
    static const int32_t windows[] = {2, 3, 10, 63, 64, 65, 129, 4096};
    static const double shares[] = {0.1, 0.3, 0.5, 2.0 / 3, 1e-9, 1 - 1e-9};
    static const uint32_t chances[] = {0, 90, 256, 180, 30}; /* of 256, one for each stretch of a window's length */
    static int before[UPDATES + 1];                          /* overflows before each update */
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        for (size_t s = 0; s < sizeof shares / sizeof *shares; s++) {
            rig r;
            start(&r, windows[w], shares[s]);
            uint32_t random = 7;
            const int window = windows[w];
            int told = 0;
            for (int i = 0; i < 5 * window; i++) {
                random = random * 1664525u + 1013904223u;
                bool overflow = random >> 24 < chances[i / window];
                before[i + 1] = before[i] + overflow;
                assert_ok(gsc_scaler_record(r.scaler, &r.optimizer.base, overflow));
                gsc_status status = gsc_scaler_update(r.scaler);
                bool exceeds = i + 1 >= window && (double)(before[i + 1] - before[i + 1 - window]) / window > shares[s];
                assert_status(status, exceeds ? GSC_ERR_DIVERGED : GSC_OK);
                told += exceeds;
            }
            assert_in_range(told, 1, 5 * window - window);
            rig_stop(&r);
        }
    }
}

/* rule 10.4, trial T25 */
static void test_only_checked_updates_count(void **state)
{
    (void)state;
    rig r;
    start(&r, 2, 0.5);
    assert_ok(iterate(&r, true));
    for (int i = 0; i < 5; i++) {
        r.optimizer.params[0].absent = true;
        assert_ok(iterate(&r, false));
        r.optimizer.params[0].absent = false;
        assert_ok(gsc_scaler_skip(r.scaler, &r.optimizer.base));
        assert_ok(gsc_scaler_update(r.scaler));
    }
    assert_fails(GSC_ERR_DIVERGED, iterate(&r, true));
    assert_ok(iterate(&r, false)); /* half */
    rig_stop(&r);
}

/* rule 10.5, trial T25 */
static void test_a_load_and_update_to_empty_it(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        rig r;
        start(&r, 3, 0.5);
        for (int i = 0; i < 3; i++)
            assert_status(iterate(&r, true), i < 2 ? GSC_OK : GSC_ERR_DIVERGED);
        gsc_scaler_state saved = state_of(r.scaler);
        float scale = 8;
        DLTensor tensor = tensor_of(GSC_FLOAT32, &scale, NULL);
        switch (way) {
        case 0: assert_ok(gsc_scaler_load_state_dict(r.scaler, &saved)); break;
        case 1: assert_ok(gsc_scaler_update_to(r.scaler, 8)); break;
        default: assert_ok(gsc_scaler_update_to_tensor(r.scaler, &tensor));
        }
        assert_ok(iterate(&r, true));
        assert_ok(iterate(&r, false));
        assert_ok(iterate(&r, false)); /* 1 of 3, not 2 */
        assert_ok(iterate(&r, true));
        assert_fails(GSC_ERR_DIVERGED, iterate(&r, true));
        rig_stop(&r);
    }
}

/* A failed load or update_to leaves it as it is. */
/* rule 10.5, trial T25 */
static void test_a_refused_load_keeps_it(void **state)
{
    (void)state;
    rig r;
    start(&r, 2, 0.5);
    assert_ok(iterate(&r, true));
    gsc_scaler_state bad = state_of(r.scaler);
    bad.growth_factor = 0;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_load_state_dict(r.scaler, &bad), "growth_factor");
    assert_fails(GSC_ERR_VALUE, gsc_scaler_update_to(r.scaler, -1), "new_scale");
    assert_fails(GSC_ERR_DIVERGED, iterate(&r, true));
    rig_stop(&r);
}

/* rule 1.1, 10.4, trial T25 */
static void test_options(void **state)
{
    (void)state;
    static const int32_t windows[] = {1, -1, 4097, INT32_MIN, INT32_MAX};
    static const double shares[] = {0, -0.0, 1, -0.5, 2, (double)NAN, (double)INFINITY};
    for (int enabled = 0; enabled < 2; enabled++) {
        gsc_scaler *out = NULL;
        gsc_scaler_options options = options_of(8, 2);
        options.enabled = enabled != 0;
        options.max_skip_share = 0.5;
        for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
            options.skip_window = windows[i];
            assert_fails(GSC_ERR_VALUE, gsc_scaler_create(&options, &out), "skip_window", "4096");
        }
        for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
            options.skip_window = 2;
            options.max_skip_share = shares[i];
            assert_fails(GSC_ERR_VALUE, gsc_scaler_create(&options, &out), "max_skip_share", "between 0 and 1");
            options.skip_window = 0; /* then the share is not looked at */
            gsc_scaler_destroy(new_scaler(&options));
        }
        options.skip_window = 4096;
        options.max_skip_share = 1e-300;
        gsc_scaler_destroy(new_scaler(&options));
    }
}

/* Both limits reached: the one in a row is told. */
/* rule 10.4, trial T25 */
static void test_beside_a_limit_in_a_row(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(65536, 2);
    options.skip_window = 2;
    options.max_skip_share = 0.9;
    options.max_consecutive_skips = 3;
    rig r;
    rig_start_with(&r, &options);
    assert_ok(iterate(&r, true));
    assert_fails(GSC_ERR_DIVERGED, iterate(&r, true), "skip_window");
    assert_fails(GSC_ERR_DIVERGED, iterate(&r, true), "3 iterations in a row");
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_second_update_overflows), cmocka_unit_test(test_the_share_of_the_last_updates),
        cmocka_unit_test(test_only_checked_updates_count),    cmocka_unit_test(test_a_load_and_update_to_empty_it),
        cmocka_unit_test(test_a_refused_load_keeps_it),       cmocka_unit_test(test_options),
        cmocka_unit_test(test_beside_a_limit_in_a_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
