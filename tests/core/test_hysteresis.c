/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 9: hysteresis H holds the scale through the first H - 1 overflows; a clean update restores the credit. */
#include "rig.h"

typedef struct iteration {
    char kind; /* O overflow, c clean, n no gradient, s skipped by the user, t update_to(the present scale) */
    double scale;
    int32_t credit;
    int64_t tracker;
} iteration;

static void walk(int32_t hysteresis, bool until_growth, const iteration *steps, size_t n)
{
    gsc_scaler_options options = options_of(65536, 3);
    options.hysteresis = hysteresis;
    options.hysteresis_until_growth = until_growth;
    options.max_scale = 131072;
    rig r;
    rig_start_with(&r, &options);
    assert_int_equal(state_of(r.scaler).hysteresis, hysteresis);
    assert_int_equal(state_of(r.scaler).hysteresis_tracker, hysteresis);
    for (size_t i = 0; i < n; i++) {
        r.optimizer.params[0].absent = steps[i].kind == 'n';
        if (steps[i].kind == 's') {
            assert_ok(gsc_scaler_skip(r.scaler, &r.optimizer.base));
            assert_ok(gsc_scaler_update(r.scaler));
        } else if (steps[i].kind == 't') {
            assert_ok(gsc_scaler_update_to(r.scaler, gsc_scaler_get_scale(r.scaler)));
        } else {
            gsc_outcome outcome = rig_iterate(&r, steps[i].kind == 'O' ? INFINITY : 1);
            assert_int_equal(outcome == GSC_SKIPPED_OVERFLOW,
                             steps[i].kind == 'O'); /* an overflow skips, also while the scale is held */
        }
        gsc_scaler_state now = state_of(r.scaler);
        if (now.scale != steps[i].scale || now.hysteresis_tracker != steps[i].credit ||
            now.growth_tracker != steps[i].tracker)
            fail_msg("H = %d, iteration %zu: scale %g, credit %d, tracker %d", (int)hysteresis, i, now.scale,
                     (int)now.hysteresis_tracker, (int)now.growth_tracker);
    }
    rig_stop(&r);
}

#define WALK(hysteresis, ...) WALK_UNTIL(hysteresis, false, __VA_ARGS__)
#define WALK_UNTIL(hysteresis, until_growth, ...)                                                                      \
    do {                                                                                                               \
        static const iteration steps[] = __VA_ARGS__;                                                                  \
        walk(hysteresis, until_growth, steps, sizeof steps / sizeof *steps);                                           \
    } while (0)

/* rule 9.1 */
static void test_one(void **state)
{
    (void)state;
    WALK(1, {{'O', 32768, 0, 0}, {'O', 16384, 0, 0}, {'c', 16384, 1, 1}, {'O', 8192, 0, 0}});
}

/* rule 9.1, 9.2, case 9 */
static void test_two(void **state)
{
    (void)state;
    WALK(2, {{'O', 65536, 1, 0},
             {'O', 32768, 0, 0},
             {'O', 16384, 0, 0}, /* from the second on every overflow */
             {'c', 16384, 2, 1}, /* the credit is restored */
             {'O', 16384, 1, 0},
             {'c', 16384, 2, 1},
             {'O', 16384, 1, 0}, /* the tracker was zeroed although the scale was held */
             {'c', 16384, 2, 1},
             {'c', 16384, 2, 2},
             {'c', 32768, 2, 0},
             {'O', 32768, 1, 0},
             {'O', 16384, 0, 0}});
}

/* rule 9.1, 9.3 */
static void test_three(void **state)
{
    (void)state;
    WALK(3, {{'c', 65536, 3, 1},
             {'O', 65536, 2, 0},
             {'O', 65536, 1, 0},
             {'O', 32768, 0, 0},
             {'O', 16384, 0, 0},
             {'O', 8192, 0, 0},
             {'c', 8192, 3, 1},
             {'O', 8192, 2, 0},
             {'c', 8192, 3, 1},
             {'O', 8192, 2, 0},
             {'O', 8192, 1, 0},
             {'O', 4096, 0, 0}});
}

/* rule 8.6, 9.2 */
static void test_only_a_clean_update_restores(void **state)
{
    (void)state;
    WALK(2, {{'O', 65536, 1, 0},
             {'n', 65536, 1, 0},
             {'s', 65536, 1, 0},
             {'t', 65536, 1, 0}, /* update_to keeps it */
             {'O', 32768, 0, 0},
             {'n', 32768, 0, 0},
             {'O', 16384, 0, 0},
             {'c', 16384, 2, 1}});
}

/* Updates of apex's rule: H - 1 overflows change nothing, H + k overflows back off k + 1 times. */
/* rule 9.1 */
static void test_long_runs(void **state)
{
    (void)state;
    static const int32_t hysteresis[] = {1, 2, 10, 100};
    for (size_t h = 0; h < 4; h++) {
        gsc_scaler_options options = options_of(65536, 10);
        options.hysteresis = hysteresis[h];
        rig r;
        rig_start_with(&r, &options);
        for (int i = 1; i < hysteresis[h]; i++)
            rig_iterate(&r, NAN);
        assert_exact(gsc_scaler_get_scale(r.scaler), 65536);
        for (int k = 0; k < 5; k++) {
            rig_iterate(&r, NAN);
            assert_exact(gsc_scaler_get_scale(r.scaler), ldexp(65536, -k - 1));
        }
        assert_int_equal(stats_of(r.scaler).backoffs, 5);
        assert_int_equal(stats_of(r.scaler).skipped_steps, hysteresis[h] + 4);
        rig_stop(&r);
    }
}

/* rule 9.3 */
static void test_two_optimizers_use_one_credit(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(8, 2);
    options.hysteresis = 2;
    rig a, b;
    rig_start_with(&a, &options);
    rig_start(&b, 1);
    a.grad = b.grad = NAN;
    assert_ok(gsc_scaler_step(a.scaler, &a.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_step(a.scaler, &b.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(a.scaler));
    assert_exact(gsc_scaler_get_scale(a.scaler), 8);
    assert_int_equal(state_of(a.scaler).hysteresis_tracker, 1);
    rig_stop(&a);
    rig_stop(&b);
}

/* DeepSpeed's other mode: only an update that is due to grow the scale restores the credit. */
/* rule 9.4, trial T26 */
static void test_restored_by_growth_only(void **state)
{
    (void)state;
    WALK_UNTIL(2, true,
               {{'O', 65536, 1, 0},
                {'c', 65536, 1, 1}, /* a clean update restores nothing */
                {'O', 32768, 0, 0},
                {'c', 32768, 0, 1},
                {'c', 32768, 0, 2},
                {'O', 16384, 0, 0}, /* nor do two */
                {'c', 16384, 0, 1},
                {'n', 16384, 0, 1},
                {'c', 16384, 0, 2},
                {'t', 16384, 0, 2},
                {'c', 32768, 2, 0}, /* the interval is reached */
                {'O', 32768, 1, 0},
                {'O', 16384, 0, 0}});
}

/* rule 9.4, trial T26 */
static void test_restored_where_max_scale_holds_the_scale(void **state)
{
    (void)state;
    WALK_UNTIL(3, true,
               {{'c', 65536, 3, 1},
                {'c', 65536, 3, 2},
                {'c', 131072, 3, 0}, /* max_scale */
                {'O', 131072, 2, 0},
                {'c', 131072, 2, 1},
                {'O', 131072, 1, 0},
                {'c', 131072, 1, 1},
                {'c', 131072, 1, 2},
                {'c', 131072, 3, 0}}); /* the tracker reached the interval, the scale did not grow */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one),
        cmocka_unit_test(test_two),
        cmocka_unit_test(test_three),
        cmocka_unit_test(test_only_a_clean_update_restores),
        cmocka_unit_test(test_long_runs),
        cmocka_unit_test(test_two_optimizers_use_one_credit),
        cmocka_unit_test(test_restored_by_growth_only),
        cmocka_unit_test(test_restored_where_max_scale_holds_the_scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
