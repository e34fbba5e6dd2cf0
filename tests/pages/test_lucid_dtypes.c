/* SPDX-License-Identifier: Apache-2.0 */
/* The sentences of the lucid.amp.GradScaler page about the dtypes and the elements of gradients, as tests; see
 * test_lucid.c. */
#include "page_helpers.h"

/* "the gradients arrive in float32; bfloat16 and float64 gradients are unscaled as well, and unscaling never changes a
 * gradient's dtype", all in one optimizer; a non-finite element is found in each */
/* page lucid 16, 32 */
static void float32_float64_and_bfloat16_are_unscaled(void **state)
{
    (void)state;
    const DLDataType dtypes[3] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16};
    for (size_t bad = 0; bad <= 3; bad++) {
        gsc_scaler *scaler = new_scaler(NULL);
        float g32[2];
        double g64[2];
        uint16_t g16[2];
        void *data[3] = {g32, g64, g16};
        fake_optimizer fake;
        fake_init(&fake);
        for (size_t i = 0; i < 3; i++) {
            fake_param *added = fake_add(&fake, dtypes[i], NULL, data[i], 2, NULL);
            element_set(&added->grad, 0, 65536);
            element_set(&added->grad, 1, i == bad ? (double)INFINITY : -0x1p-100);
        }
        assert_ok(gsc_scaler_unscale(scaler, &fake.base));
        for (size_t i = 0; i < 3; i++) {
            assert_exact(element_get(&fake.params[i].grad, 0), 1);
            assert_exact(element_get(&fake.params[i].grad, 1), i == bad ? (double)INFINITY : -0x1p-116);
            assert_true(dtype_is(dtypes[i], fake.params[i].grad.dtype));
        }
        assert_int_equal(bad < 3, gsc_scaler_found_inf(scaler, &fake.base));
        gsc_scaler_destroy(scaler);
    }
}

/* "float32 and float64 gradients are unscaled in their own dtype": float64 keeps values that float32 cannot hold */
/* page lucid 32, 37 */
static void float64_is_unscaled_in_float64(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    double grad[3] = {1e300 * 65536, 1e-300 * 65536, (1 + 0x1p-52) * 65536};
    fake_optimizer fake;
    fake_init(&fake);
    fake_add(&fake, GSC_FLOAT64, NULL, grad, 3, NULL);
    assert_ok(gsc_scaler_unscale(scaler, &fake.base));
    assert_false(gsc_scaler_found_inf(scaler, &fake.base));
    assert_exact(grad[0], 1e300);
    assert_exact(grad[1], 1e-300);
    assert_exact(grad[2], 1 + 0x1p-52);
    gsc_scaler_destroy(scaler);
}

/* "a bfloat16 gradient is cast to float32, divided there, then rounded back to bfloat16 once": every pattern, with a
 * scale whose reciprocal is not exact */
/* page lucid 32, 36 */
static void bfloat16_is_divided_in_float32_and_rounded_once(void **state)
{
    (void)state;
    static uint16_t grad[65536];
    for (int i = 0; i < 65536; i++)
        grad[i] = (uint16_t)i;
    gsc_scaler *scaler = new_scaler_with(3, 2000);
    fake_optimizer fake;
    fake_init(&fake);
    fake_add(&fake, GSC_BFLOAT16, NULL, grad, 65536, NULL);
    assert_ok(gsc_scaler_unscale(scaler, &fake.base));
    const float reciprocal = (float)(1.0 / 3.0);
    for (int i = 0; i < 65536; i++) {
        double before = from_bf16((uint16_t)i);
        volatile float product = (float)before * reciprocal;
        if (isnan(before))
            assert_true(isnan(from_bf16(grad[i])));
        else
            assert_int_equal(to_bf16((double)product), grad[i]);
    }
    assert_true(gsc_scaler_found_inf(scaler, &fake.base)); /* "and finiteness-checked" */
    gsc_scaler_destroy(scaler);
}

/* An optimizer of a float32 and a second gradient that is refused. */
typedef struct refused {
    fake_optimizer fake;
    float good;
    uint64_t bad;
} refused;

static void refused_init(refused *two, DLDataType dtype)
{
    two->good = 8;
    two->bad = 0x3c003c003c003c00; /* float16 1.0 */
    fake_init(&two->fake);
    fake_add(&two->fake, GSC_FLOAT32, NULL, &two->good, 1, "decoder.bias");
    fake_add(&two->fake, dtype, NULL, &two->bad, 1, "encoder.weight");
}

static void assert_refused(DLDataType dtype, gsc_status expected)
{
    gsc_scaler *scaler = new_scaler_with(4, 2000);
    refused two;
    refused_init(&two, dtype);
    for (int by_step = 0; by_step < 2; by_step++) {
        assert_fails(expected, by_step ? gsc_scaler_step(scaler, &two.fake.base, NULL, NULL)
                                       : gsc_scaler_unscale(scaler, &two.fake.base));
        assert_message("encoder.weight");
        assert_exact((double)two.good, 8);
        assert_true(two.bad == 0x3c003c003c003c00);
        assert_int_equal(0, two.fake.steps);
        assert_int_equal(GSC_STAGE_READY, gsc_scaler_get_stage(scaler, &two.fake.base));
    }
    two.fake.params[1].absent = true; /* without the refused gradient, the iteration continues */
    assert_ok(gsc_scaler_step(scaler, &two.fake.base, NULL, NULL));
    assert_exact((double)two.good, 2);
    gsc_scaler_destroy(scaler);
}

/* "a float16 gradient makes unscale_ and step raise ValueError. Nothing is unscaled and the optimizer's stage does not
 * change"; "keep the parameters in float32" */
/* page lucid 17, 28, 32, 33, 38 */
static void float16_gradients_are_refused(void **state)
{
    (void)state;
    assert_refused(GSC_FLOAT16, GSC_ERR_VALUE);

    gsc_scaler *scaler = new_scaler(NULL);
    refused two;
    refused_init(&two, GSC_FLOAT16);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(scaler, &two.fake.base));
    assert_message("float16");
    assert_message("float32");
    gsc_scaler_destroy(scaler);
}

/* "NotImplementedError if any of the gradients is complex, again before anything is unscaled" */
/* page lucid 28, 32, 34 */
static void complex_gradients_are_refused(void **state)
{
    (void)state;
    assert_refused((DLDataType){kDLComplex, 64, 1}, GSC_ERR_UNSUPPORTED);
}

/* "step raises ValueError / NotImplementedError if the gradients *still need unscaling*": a caller that has unscaled
 * and checked them itself may keep such gradients */
/* page lucid 28, 32 */
static void step_takes_any_gradient_that_is_already_unscaled(void **state)
{
    (void)state;
    const DLDataType dtypes[] = {GSC_FLOAT16, {kDLComplex, 64, 1}};
    for (size_t i = 0; i < 2; i++) {
        gsc_scaler *scaler = new_scaler(NULL);
        refused two;
        refused_init(&two, dtypes[i]);
        assert_ok(gsc_scaler_record(scaler, &two.fake.base, false));
        assert_ok(gsc_scaler_step(scaler, &two.fake.base, NULL, NULL));
        assert_int_equal(1, two.fake.steps);
        gsc_scaler_destroy(scaler);
    }
}

/* "every gradient is divided, including those of a parameter whose gradient holds an inf / NaN (those entries stay
 * non-finite); the overflow is recorded for this optimizer and its step is skipped" */
/* page lucid 32, 35 */
static void every_gradient_is_divided_despite_an_overflow(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler_with(4, 2000);
    float first[3] = {INFINITY, 8, NAN}, second[2] = {16, -4};
    fake_optimizer fake;
    single other;
    fake_init(&fake);
    single_init(&other, 0, 1);
    fake_add(&fake, GSC_FLOAT32, NULL, first, 3, "first");
    fake_add(&fake, GSC_FLOAT32, NULL, second, 2, "second");
    assert_ok(gsc_scaler_unscale(scaler, &fake.base));
    assert_ok(gsc_scaler_unscale(scaler, &other.fake.base));
    assert_exact((double)first[0], (double)INFINITY);
    assert_exact((double)first[1], 2);
    assert_true(isnan(first[2]));
    assert_exact((double)second[0], 4);
    assert_exact((double)second[1], -1);
    assert_true(gsc_scaler_found_inf(scaler, &fake.base));
    assert_false(gsc_scaler_found_inf(scaler, &other.fake.base));

    gsc_step_result result;
    assert_ok(gsc_scaler_step(scaler, &fake.base, NULL, &result));
    assert_int_equal(GSC_SKIPPED_OVERFLOW, result.outcome);
    assert_int_equal(0, fake.steps);
    gsc_scaler_destroy(scaler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float32_float64_and_bfloat16_are_unscaled),
        cmocka_unit_test(float64_is_unscaled_in_float64),
        cmocka_unit_test(bfloat16_is_divided_in_float32_and_rounded_once),
        cmocka_unit_test(float16_gradients_are_refused),
        cmocka_unit_test(complex_gradients_are_refused),
        cmocka_unit_test(step_takes_any_gradient_that_is_already_unscaled),
        cmocka_unit_test(every_gradient_is_divided_despite_an_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
