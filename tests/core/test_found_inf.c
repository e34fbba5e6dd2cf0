/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 4: what unscale finds: one element that is not finite, wherever it lies and whatever its dtype; and nothing
 * else. */
#include <float.h>

#include "rig.h"

/* rule 4.5, 4.6 */
static void test_one_bad_element_anywhere_is_found(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 130, 4099};
    const DLDataType dtypes[] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16, GSC_FLOAT16};
    const double bad[] = {(double)INFINITY, -(double)INFINITY, (double)NAN};
    static double data[4099];
    gsc_scaler_options options = options_of(2, 1);
    options.allow_fp16_grads = true;
    gsc_scaler *scaler = new_scaler(&options);
    for (size_t d = 0; d < 4; d++) {
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            fake_optimizer optimizer;
            fake_init(&optimizer);
            DLTensor *grad = &fake_add(&optimizer, dtypes[d], NULL, data, lengths[l], "g")->grad;
            size_t n = (size_t)lengths[l], step = n < 200 ? 1 : 577;
            for (size_t i = 0; i < n; i++)
                element_set(grad, i, 2);
            assert_ok(gsc_scaler_unscale(scaler, &optimizer.base));
            assert_false(gsc_scaler_found_inf(scaler, &optimizer.base));
            assert_exact(element_get(grad, n - 1), 1);
            for (size_t i = n - 1; i < n; i -= step) {
                element_set(grad, i, bad[i % 3]);
                assert_ok(gsc_scaler_rearm(scaler, &optimizer.base));
                assert_ok(gsc_scaler_update_to(scaler, 1));
                assert_ok(gsc_scaler_unscale(scaler, &optimizer.base));
                assert_true(gsc_scaler_found_inf(scaler, &optimizer.base));
                element_set(grad, i, 1);
                assert_ok(gsc_scaler_update_to(scaler, 2));
            }
            assert_ok(gsc_scaler_forget(scaler, &optimizer.base));
        }
    }
    gsc_scaler_destroy(scaler);
}

/* The greatest finite values are no overflow; what the division or the narrowing makes infinite is. */
/* rule 4.5, 7.5, case 74, conformance C */
static void test_results_decide_not_inputs(void **state)
{
    (void)state;
    const double bf16_max = 0x1.fep127, above_one = (double)(1 / 1.003f);
    const struct {
        DLDataType dtype;
        double scale, grad;
        bool found_inf;
    } cases[] = {
        {GSC_FLOAT32, 1, (double)FLT_MAX, false},
        {GSC_FLOAT32, 2, (double)FLT_MAX, false},
        {GSC_FLOAT32, 0x1p-10, 3e38, true},
        {GSC_FLOAT32, 0x1p-10, 0x1.fffffep117, false},
        {GSC_FLOAT32, 0x1p-10, 0x1p118, true},
        {GSC_FLOAT32, 0.99, (double)FLT_MAX, true},
        {GSC_FLOAT64, 1, 1e300, false},
        {GSC_FLOAT64, 0x1p-10, 1e300, false},
        {GSC_FLOAT64, 0x1p-10, 1e306, true},
        {GSC_FLOAT64, 0.5, 0x1.fffffffffffffp1023, true},
        {GSC_FLOAT64, 65536, 3.5e38, false},
        {GSC_BFLOAT16, 1, bf16_max, false},
        {GSC_BFLOAT16, above_one, bf16_max, true}, /* finite in float32, infinite once rounded to bfloat16 */
        {GSC_BFLOAT16, 0.5, bf16_max, true},
        {GSC_FLOAT16, 1, 65504, false},
        {GSC_FLOAT16, 0x1p-10, 60000, true}, /* 61,440,000 is no float16 */
        {GSC_FLOAT16, 0x1p-10, 63, false},
        {GSC_FLOAT16, 0x1p-10, 64, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gsc_scaler_options options = options_of(cases[i].scale, 1);
        options.allow_fp16_grads = true;
        gsc_scaler *scaler = new_scaler(&options);
        double data = 0;
        fake_optimizer optimizer;
        fake_init(&optimizer);
        DLTensor *grad = &fake_add(&optimizer, cases[i].dtype, NULL, &data, 1, "g")->grad;
        for (int scaled = 0; scaled < 2; scaled++) { /* the fused path tests what the plain one would store */
            optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
            element_set(grad, 0, cases[i].grad);
            gsc_step_result result;
            assert_ok(gsc_scaler_step(scaler, &optimizer.base, NULL, &result));
            assert_int_equal(result.outcome, cases[i].found_inf ? GSC_SKIPPED_OVERFLOW : GSC_STEPPED);
            assert_int_equal(gsc_scaler_found_inf(scaler, &optimizer.base), cases[i].found_inf);
            assert_ok(gsc_scaler_update_to(scaler, cases[i].scale));
        }
        gsc_scaler_destroy(scaler);
    }
}

/* Loops cut long runs into pieces of 2 MiB: an element that is not finite is found in each of them. */
static void check_long_float64(double *data, size_t n, size_t bad, double value)
{
    rig r;
    double before[3] = {3, 6, 9}, after[3] = {3, 6, 9};
    rig_start(&r, 3);
    for (size_t i = 0; i < n; i++)
        data[i] = 3;
    data[bad] = value;
    fake_add(&r.optimizer, GSC_FLOAT64, NULL, before, 3, "short before");
    fake_add(&r.optimizer, GSC_FLOAT64, NULL, data, (int64_t)n, "long");
    fake_add(&r.optimizer, GSC_FLOAT64, NULL, after, 3, "short after");
    gsc_step_result result;
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
    assert_int_equal(result.outcome, isfinite(value) ? GSC_STEPPED : GSC_SKIPPED_OVERFLOW);
    assert_exact(result.max_abs, isfinite(value) && fabs(value) / 3 < 3 ? 3 : fabs(value * (1.0 / 3)));
    for (size_t i = 0; i < n; i++)
        if (i == bad ? isfinite(value) && data[i] != value * (1.0 / 3) : data[i] != 3 * (1.0 / 3))
            fail_msg("%zu elements: element %zu is %.17g", n, i, data[i]);
    assert_exact(before[2], 9 * (1.0 / 3));
    assert_exact(after[2], 9 * (1.0 / 3));
    rig_stop(&r);
}

static void test_long_float64_in_every_part(void **state)
{
    (void)state;
    enum { PIECE = 262144, MOST = 2 * PIECE + 1 };
    static double data[MOST];
    static const size_t lengths[] = {PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, MOST};
    static const double values[] = {1e300, (double)INFINITY, -(double)INFINITY, (double)NAN};
    gsc_set_num_threads(1);
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            const size_t bad[] = {0, PIECE - 2, lengths[l] / 2, lengths[l] - 1};
            for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
                check_long_float64(data, lengths[l], bad[b], values[v]);
        }
    gsc_set_num_threads(0);
}

/* case 24 */
static void test_padding_and_empty_buffers(void **state)
{
    (void)state;
    for (int64_t used = 0; used < 8; used++) {
        float flat[8];
        for (int i = 0; i < 8; i++)
            flat[i] = i < used ? 8 : i % 2 == 0 ? NAN : INFINITY;
        rig r;
        rig_start(&r, 8);
        r.grad = 8;
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, flat, used, "flat");
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, NULL, 0, "empty shard");
        assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
        for (int i = 0; i < 8; i++) {
            if (i < used)
                assert_exact((double)flat[i], 1);
            else
                assert_true(isnan(flat[i]) || isinf(flat[i]) != 0);
        }
        rig_stop(&r);
    }
}

/* case 72 */
static void test_bfloat16(void **state)
{
    (void)state;
    const struct {
        uint16_t bits;
        bool found_inf;
    } cases[] = {{0x4000, false}, {0x7f80, true},  {0xff80, true},  {0x7fc0, true},
                 {0x7f81, true},  {0x7f7f, false}, {0xff7f, false}, {0x0001, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r;
        rig_start(&r, 2);
        uint16_t grad = cases[i].bits;
        fake_add(&r.optimizer, GSC_BFLOAT16, NULL, &grad, 1, "bf16");
        assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        assert_int_equal(gsc_scaler_found_inf(r.scaler, &r.optimizer.base), cases[i].found_inf);
        if (i == 0)
            assert_int_equal(grad, 0x3f80);
        rig_stop(&r);
    }
}

/* case 73 */
static void test_scale_one_still_checks(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(1, 1);
    options.min_scale = options.max_scale = 1;
    rig r;
    rig_start_with(&r, &options);
    uint16_t grad = 0x7fc0;
    fake_add(&r.optimizer, GSC_BFLOAT16, NULL, &grad, 1, "bf16");
    assert_int_equal(rig_iterate(&r, 1), GSC_SKIPPED_OVERFLOW);
    grad = to_bf16(1);
    assert_int_equal(rig_iterate(&r, 1), GSC_STEPPED);
    assert_exact(gsc_scaler_get_scale(r.scaler), 1);
    rig_stop(&r);
}

/* case 77 */
static void test_mixed_dtypes(void **state)
{
    (void)state;
    const DLDataType dtypes[] = {GSC_FLOAT16, GSC_BFLOAT16, GSC_FLOAT32, GSC_FLOAT64};
    for (int bad = -1; bad < 8; bad++) {
        gsc_scaler_options options = options_of(1024, 2);
        options.allow_fp16_grads = true;
        gsc_scaler *scaler = new_scaler(&options);
        fake_optimizer optimizer;
        fake_init(&optimizer);
        double data[8][2] = {{0}};
        for (int i = 0; i < 8; i++) {
            DLTensor *grad = &fake_add(&optimizer, dtypes[i % 4], NULL, data[i], 2, "g")->grad;
            element_set(grad, 0, 1024);
            element_set(grad, 1, i == bad ? (i % 2 == 0 ? (double)INFINITY : (double)NAN) : -1024);
        }
        assert_ok(gsc_scaler_unscale(scaler, &optimizer.base));
        assert_int_equal(gsc_scaler_found_inf(scaler, &optimizer.base), bad >= 0);
        for (size_t i = 0; i < 8; i++) {
            assert_exact(element_get(&optimizer.params[i].grad, 0), 1);
            if ((int)i != bad)
                assert_exact(element_get(&optimizer.params[i].grad, 1), -1);
        }
        gsc_overflow overflow;
        assert_int_equal(gsc_scaler_overflows(scaler, &optimizer.base, &overflow, 1), bad >= 0);
        if (bad >= 0)
            assert_int_equal(overflow.index, bad);
        gsc_scaler_destroy(scaler);
    }
}

/* conformance C, 33 */
static void test_finite_and_infinite_gradients_in_a_list(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 4);
    float first[3] = {2, -4, 0}, second[3] = {NAN, INFINITY, -8};
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, first, 3, "first");
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, second, 3, "second");
    r.grad = 1;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_exact((double)first[0], 0.5);
    assert_exact((double)first[1], -1);
    assert_exact((double)first[2], 0);
    assert_exact((double)second[0], (double)NAN);
    assert_exact((double)second[1], (double)INFINITY);
    assert_exact((double)second[2], -2);
    assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    rig_stop(&r);
}

/* conformance C, 32 */
static void test_found_by_the_second_list(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 5);
    float list[4] = {1, 2, 3, 4};
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, list, 4, "list");
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    assert_exact((double)list[3], (double)(4 * 0.2f));
    assert_ok(gsc_scaler_update(r.scaler));
    list[3] = NAN;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    rig_stop(&r);
}

/* More elements than float32 counts exactly, one NaN among them; and large finite values whose sum is infinite. */
/* conformance L, 118, 119 */
static void test_elements_are_neither_counted_nor_summed(void **state)
{
    (void)state;
    enum { N = (1 << 24) + 3 };
    static uint16_t data[N];
    static float large[1000];
    rig r;
    rig_start(&r, 2);
    for (size_t i = 0; i < 1000; i++)
        large[i] = 3e38f;
    fake_add(&r.optimizer, GSC_BFLOAT16, NULL, data, N, "zeros");
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, large, 1000, "large");
    assert_int_equal(rig_iterate(&r, 1), GSC_STEPPED);
    data[N - 2] = 0x7fc0;
    assert_int_equal(rig_iterate(&r, 1), GSC_SKIPPED_OVERFLOW);
    gsc_overflow overflow;
    assert_int_equal(gsc_scaler_overflows(r.scaler, &r.optimizer.base, &overflow, 1), 1);
    assert_int_equal(overflow.first_index, N - 2);
    assert_int_equal(overflow.nan_count, 1);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_bad_element_anywhere_is_found),
        cmocka_unit_test(test_results_decide_not_inputs),
        cmocka_unit_test(test_long_float64_in_every_part),
        cmocka_unit_test(test_padding_and_empty_buffers),
        cmocka_unit_test(test_bfloat16),
        cmocka_unit_test(test_scale_one_still_checks),
        cmocka_unit_test(test_mixed_dtypes),
        cmocka_unit_test(test_finite_and_infinite_gradients_in_a_list),
        cmocka_unit_test(test_found_by_the_second_list),
        cmocka_unit_test(test_elements_are_neither_counted_nor_summed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
