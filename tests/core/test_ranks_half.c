/* SPDX-License-Identifier: Apache-2.0 */
/* What docs/ranks.md says about averages of float16 gradients: where to divide when they are summed over ranks. */
#include "rig.h"

enum { WORLD = 16 };

/* The average over WORLD ranks that hold the same scaled gradient, as float16 carries it. */
static double average(double gradient, double before, double after)
{
    double each = from_fp16(to_fp16(gradient / before)), sum = 0;
    for (int r = 0; r < WORLD; r++)
        sum = from_fp16(to_fp16(sum + each));
    return from_fp16(to_fp16(sum / after));
}

static gsc_outcome step_with(double gradient)
{
    gsc_scaler_options options = options_of(1024, 2);
    options.allow_fp16_grads = true;
    rig r;
    rig_start_with(&r, &options);
    uint16_t half = to_fp16(gradient);
    r.optimizer.params[0].grad.data = &half;
    r.optimizer.params[0].grad.dtype = GSC_FLOAT16;
    gsc_step_result result;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    rig_stop(&r);
    return result.outcome;
}

/* trial T27 */
static void test_where_to_divide(void **state)
{
    (void)state;
    const double large = 32768, small = 0x1p-24; /* float16's greatest power of two, and its least */
    const struct {
        double before, after, of_large, of_small;
    } ways[] = {
        {1, WORLD, (double)INFINITY, small},
        {WORLD, 1, large, 0},
        {4, WORLD / 4, (double)INFINITY, 0},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        assert_exact(average(large, ways[i].before, ways[i].after), ways[i].of_large);
        assert_exact(average(small, ways[i].before, ways[i].after), ways[i].of_small);
        assert_int_equal(step_with(average(large, ways[i].before, ways[i].after)),
                         isinf(ways[i].of_large) ? GSC_SKIPPED_OVERFLOW : GSC_STEPPED);
    }
    /* f = 4 loses two powers of two at either end, where the others lose four at one. */
    assert_exact(average(large / 4, 4, 4), large / 4);
    assert_exact(average(large / 4, 1, WORLD), (double)INFINITY);
    assert_exact(average(small * 4, 4, 4), small * 4);
    assert_exact(average(small * 4, WORLD, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_where_to_divide)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
