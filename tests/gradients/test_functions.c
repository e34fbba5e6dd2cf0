/* SPDX-License-Identifier: Apache-2.0 */
/* gradients.h: the scaler's loops without a scaler. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "elements.h"
#include "gradscaler/gradients.h"
#include "layouts.h"
#include "sanitizer_options.h"

static const int64_t one = 1, two = 2, three = 3, four = 4;

static DLTensor vector(void *data, DLDataType dtype, const int64_t *count)
{
    return tensor_over(data, dtype, 1, count, NULL);
}

static void test_unscale(void **state)
{
    (void)state;
    float single[4] = {65536, -1, 0, 0x1p-130f};
    double twice[2] = {65536, 3};
    DLTensor a = vector(single, GSC_FLOAT32, &four), b = vector(twice, GSC_FLOAT64, &two);
    DLTensor *const grads[] = {&a, NULL, &b, &a};
    bool found_inf = true;
    assert_ok(gsc_unscale_grads(grads, 4, 65536, &found_inf));
    assert_false(found_inf);
    assert_true(single[0] == 1 && single[1] == -0x1p-16f && single[2] == 0 && single[3] == 0x1p-146f);
    assert_true(twice[0] == 1 && twice[1] == 3 * 0x1p-16);
    assert_ok(gsc_unscale_grads(grads, 4, 2, NULL));
    assert_true(single[0] == 0.5f);
    assert_ok(gsc_unscale_grads(NULL, 0, 2, &found_inf));
    assert_false(found_inf);
}

static void test_unscale_precision(void **state)
{
    (void)state;
    float single = 5;
    double twice = 5;
    uint16_t bfloat = to_bf16(5), half = to_fp16(5);
    DLTensor tensors[] = {vector(&single, GSC_FLOAT32, &one), vector(&twice, GSC_FLOAT64, &one),
                          vector(&bfloat, GSC_BFLOAT16, &one), vector(&half, GSC_FLOAT16, &one)};
    DLTensor *const grads[] = {&tensors[0], &tensors[1], &tensors[2], &tensors[3]};
    assert_ok(gsc_unscale_grads(grads, 4, 3, NULL));
    volatile float product = 5 * (float)(1.0 / 3.0);
    assert_true(single == product);
    assert_true(twice == 5 * (1.0 / 3.0));
    assert_int_equal(bfloat, to_bf16((double)product));
    assert_int_equal(half, to_fp16((double)product));
}

static void test_unscale_finds_overflow(void **state)
{
    (void)state;
    float data[3] = {1, INFINITY, 4};
    DLTensor tensor = vector(data, GSC_FLOAT32, &three), *const grads[] = {&tensor};
    bool found_inf = false;
    assert_ok(gsc_unscale_grads(grads, 1, 2, &found_inf));
    assert_true(found_inf);
    assert_true(data[0] == 0.5f && isinf(data[1]) && data[2] == 2); /* all are processed */
    data[1] = 3e38f;
    assert_ok(gsc_unscale_grads(grads, 1, 0.25, &found_inf)); /* the division overflows */
    assert_true(found_inf);
    data[1] = 1;
    assert_ok(gsc_unscale_grads(grads, 1, 2, &found_inf)); /* set, not or-ed */
    assert_false(found_inf);
}

static void test_scales_that_are_refused(void **state)
{
    (void)state;
    float data = 7;
    DLTensor tensor = vector(&data, GSC_FLOAT32, &one), *const grads[] = {&tensor};
    const double bad[] = {0, -1, (double)NAN, (double)INFINITY, 1e39, 1e-39, -(double)INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(GSC_ERR_VALUE, gsc_unscale_grads(grads, 1, bad[i], NULL), "gsc_unscale_grads", "scale is",
                     "1.17549e-38", "3.40282e+38");
    assert_true(data == 7);
    assert_ok(gsc_unscale_grads(grads, 1, (double)FLT_MAX, NULL));
    data = 0;
    assert_ok(gsc_unscale_grads(grads, 1, (double)FLT_MIN, NULL));
}

static void test_lists_that_are_refused(void **state)
{
    (void)state;
    float data[2] = {2, 4};
    DLTensor good = vector(data, GSC_FLOAT32, &two), bad = good, *const grads[] = {&good, &bad};
    bool found_inf = false;
    double norm;
    assert_fails(GSC_ERR_VALUE, gsc_unscale_grads(NULL, 2, 2, NULL), "gsc_unscale_grads", "grads is NULL", "2");
    assert_fails(GSC_ERR_VALUE, gsc_check_grads(NULL, 1, &found_inf), "gsc_check_grads: grads is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_grad_norm(NULL, 1, 2, &norm), "gsc_grad_norm: grads is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_clip_grad_norm(NULL, 1, 1, 2, NULL), "gsc_clip_grad_norm: grads is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_clip_grad_value(NULL, 1, 1), "gsc_clip_grad_value: grads is NULL");
    bad.dtype = (DLDataType){kDLComplex, 64, 1};
    assert_fails(GSC_ERR_UNSUPPORTED, gsc_unscale_grads(grads, 2, 2, NULL), "gsc_unscale_grads: gradient 1", "complex");
    bad.dtype = (DLDataType){kDLInt, 32, 1};
    assert_fails(GSC_ERR_VALUE, gsc_check_grads(grads, 2, &found_inf), "gsc_check_grads: gradient 1", "dtype");
    bad = good;
    bad.device.device_type = kDLCUDA;
    assert_fails(GSC_ERR_DEVICE, gsc_clip_grad_value(grads, 2, 1), "gsc_clip_grad_value: gradient 1", "device");
    bad = good;
    int64_t zero = 0;
    bad.strides = &zero;
    assert_fails(GSC_ERR_VALUE, gsc_clip_grad_norm(grads, 2, 1, 2, NULL), "gradient 1", "more than once");
    assert_fails(GSC_ERR_VALUE, gsc_unscale_grads(grads, 2, 2, NULL), "gradient 1", "more than once");
    assert_ok(gsc_grad_norm(grads, 2, 1, &norm)); /* reading is fine */
    assert_true(norm == 2 + 4 + 2 + 2);
    assert_fails(GSC_ERR_MEMORY, gsc_check_grads(grads, SIZE_MAX / 64, &found_inf), "out of memory");
    assert_true(data[0] == 2 && data[1] == 4);
}

static void test_check(void **state)
{
    (void)state;
    uint16_t halves[2] = {0x7bff, 0xfbff};
    double twice[2] = {1, 2};
    DLTensor a = vector(halves, GSC_FLOAT16, &two), b = vector(twice, GSC_FLOAT64, &two), *const grads[] = {&a, &b};
    bool found_inf = true;
    assert_ok(gsc_check_grads(grads, 2, &found_inf));
    assert_false(found_inf);
    halves[1] = 0xfc00;
    assert_ok(gsc_check_grads(grads, 2, &found_inf));
    assert_true(found_inf);
    halves[1] = 0x7c01;
    assert_ok(gsc_check_grads(grads, 2, &found_inf));
    assert_true(found_inf);
    assert_ok(gsc_check_grads(grads, 2, NULL));
    assert_int_equal(halves[1], 0x7c01);
    assert_ok(gsc_check_grads(&grads[1], 1, &found_inf));
    assert_false(found_inf);
}

/* rule 14.1 */
static void test_norms(void **state)
{
    (void)state;
    float single[2] = {3, -4};
    double twice = 12, norm;
    DLTensor a = vector(single, GSC_FLOAT32, &two), b = vector(&twice, GSC_FLOAT64, &one);
    DLTensor *const grads[] = {&a, &b, NULL, &a};
    assert_ok(gsc_grad_norm(grads, 4, 2, &norm));
    assert_true(norm == 13);
    assert_ok(gsc_grad_norm(grads, 4, 1, &norm));
    assert_true(norm == 19);
    assert_ok(gsc_grad_norm(grads, 4, (double)INFINITY, &norm));
    assert_true(norm == 12);
    assert_ok(gsc_grad_norm(grads, 4, 3, &norm));
    assert_true(fabs(norm - cbrt(27 + 64 + 1728)) < 1e-13);
    assert_ok(gsc_grad_norm(NULL, 0, 2, &norm));
    assert_true(norm == 0);
    single[0] = 1e20f;
    assert_ok(gsc_grad_norm(grads, 1, 2, &norm));
    assert_true(norm == (double)1e20f);
    single[0] = -NAN;
    assert_ok(gsc_grad_norm(grads, 1, (double)INFINITY, &norm));
    assert_true(isnan(norm));
    const double bad[] = {0, -1, (double)NAN, -(double)INFINITY};
    for (size_t i = 0; i < 4; i++) {
        assert_fails(GSC_ERR_VALUE, gsc_grad_norm(grads, 1, bad[i], &norm), "gsc_grad_norm: norm_type", "above 0");
        assert_fails(GSC_ERR_VALUE, gsc_clip_grad_norm(grads, 1, 1, bad[i], &norm), "gsc_clip_grad_norm: norm_type");
    }
    assert_fails(GSC_ERR_VALUE, gsc_grad_norm(grads, 1, 2, NULL), "norm is NULL");
}

static void test_clip_norm(void **state)
{
    (void)state;
    float single[2] = {3, -4};
    double twice = 12, norm = 0;
    DLTensor a = vector(single, GSC_FLOAT32, &two), b = vector(&twice, GSC_FLOAT64, &one), *const grads[] = {&a, &b};
    assert_ok(gsc_clip_grad_norm(grads, 2, 13, 2, &norm));
    double coefficient = 13 / (13 + 1e-6); /* below 1 already */
    assert_true(norm == 13 && single[0] == 3 * (float)coefficient && twice == 12 * coefficient);
    single[0] = 3, single[1] = -4, twice = 12;
    assert_ok(gsc_clip_grad_norm(grads, 2, 14, 2, &norm));
    assert_true(single[0] == 3 && single[1] == -4 && twice == 12);
    assert_ok(gsc_clip_grad_norm(grads, 2, (double)INFINITY, 2, NULL));
    assert_true(single[0] == 3 && twice == 12);
    assert_ok(gsc_clip_grad_norm(grads, 2, 1, (double)INFINITY, &norm));
    assert_true(norm == 12 && fabs(twice - 1) < 1e-6 && fabs((double)single[0] - 0.25) < 1e-6);
    assert_ok(gsc_clip_grad_norm(grads, 2, 0, 2, &norm));
    assert_true(single[0] == 0 && twice == 0);
    single[0] = INFINITY, twice = 5;
    assert_ok(gsc_clip_grad_norm(grads, 2, 1, 2, &norm));
    assert_true(isinf(norm) && isinf(single[0]) && twice == 5); /* left alone */
    const double bad[] = {-1, (double)NAN, -(double)INFINITY};
    for (size_t i = 0; i < 3; i++)
        assert_fails(GSC_ERR_VALUE, gsc_clip_grad_norm(grads, 2, bad[i], 2, &norm), "gsc_clip_grad_norm: max_norm is");
}

/* rule 14.1 */
static void test_clip_norm_of_extremes(void **state)
{
    (void)state;
    uint16_t half = to_fp16(300);
    float single = 1e20f;
    double twice = 1e300;
    DLTensor tensors[] = {vector(&half, GSC_FLOAT16, &one), vector(&single, GSC_FLOAT32, &one),
                          vector(&twice, GSC_FLOAT64, &one)};
    for (size_t i = 0; i < 3; i++) {
        DLTensor *const grads[] = {&tensors[i]};
        assert_ok(gsc_clip_grad_norm(grads, 1, 1, 2, NULL));
        assert_true(fabs(element_get(&tensors[i], 0) - 1) < 1e-5);
    }
    double tiny = 1e-200;
    DLTensor tensor = vector(&tiny, GSC_FLOAT64, &one), *const grads[] = {&tensor};
    double norm;
    assert_ok(gsc_clip_grad_norm(grads, 1, 1, 2, &norm));
    assert_true(norm == 1e-200 && tiny == 1e-200);
}

static void test_clip_value(void **state)
{
    (void)state;
    const double values[4] = {2, -3, 0.5, -0.0};
    const DLDataType dtypes[] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16, GSC_FLOAT16};
    const double limits[] = {1.001, 0.7, 1e-42, 0, 1e39, 1e5};
    for (size_t d = 0; d < 4; d++)
        for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++) {
            double storage[4] = {0};
            DLTensor tensor = vector(storage, dtypes[d], &four), *const grads[] = {&tensor};
            for (size_t i = 0; i < 4; i++)
                element_set(&tensor, i, values[i]);
            assert_ok(gsc_clip_grad_value(grads, 1, limits[k]));
            for (size_t i = 0; i < 4; i++) {
                double found = element_get(&tensor, i);
                if (fabs(values[i]) <= limits[k])
                    assert_true(found == values[i]);
                assert_true(fabs(found) <= limits[k] && signbit(found) == signbit(values[i]));
                if (limits[k] > 0.1 && fabs(values[i]) > limits[k]) /* the greatest one allowed, not just any */
                    assert_true(fabs(found) > limits[k] * 0.99);
            }
        }
    float special[3] = {INFINITY, -INFINITY, NAN};
    DLTensor tensor = vector(special, GSC_FLOAT32, &three), *const grads[] = {&tensor};
    assert_ok(gsc_clip_grad_value(grads, 1, (double)INFINITY));
    assert_true(isinf(special[0]));
    assert_ok(gsc_clip_grad_value(grads, 1, 1e300));
    assert_true(special[0] == FLT_MAX && special[1] == -FLT_MAX && isnan(special[2]));
    uint16_t half = 0x7c00;
    tensor = vector(&half, GSC_FLOAT16, &one);
    assert_ok(gsc_clip_grad_value(grads, 1, 65519.999)); /* nearest would be infinity's neighbour: stays 65504 */
    assert_int_equal(half, 0x7bff);
    const double bad[] = {-1, (double)NAN, -(double)INFINITY};
    for (size_t i = 0; i < 3; i++)
        assert_fails(GSC_ERR_VALUE, gsc_clip_grad_value(grads, 1, bad[i]), "gsc_clip_grad_value: clip_value is");
}

static void test_strided(void **state)
{
    (void)state;
    float data[12];
    for (int i = 0; i < 12; i++)
        data[i] = 4;
    int64_t shape[] = {3, 2}, strides[] = {-4, 1};
    DLTensor tensor = tensor_over(data + 8, GSC_FLOAT32, 2, shape, strides), *const grads[] = {&tensor};
    assert_ok(gsc_unscale_grads(grads, 1, 2, NULL));
    assert_ok(gsc_clip_grad_value(grads, 1, 1));
    for (int i = 0; i < 12; i++)
        assert_true(data[i] == (i % 4 < 2 ? 1.0f : 4.0f));
    double norm;
    assert_ok(gsc_grad_norm(grads, 1, 1, &norm));
    assert_true(norm == 6);
}

/* section 5.4 */
static void test_isa_is_one_that_is_known(void **state)
{
    (void)state;
    const char *isa = gsc_isa();
    assert_true(strcmp(isa, "avx512") == 0 || strcmp(isa, "avx2") == 0 || strcmp(isa, "neon") == 0 ||
                strcmp(isa, "baseline") == 0);
    assert_ptr_equal(isa, gsc_isa());
#if defined(__x86_64__)
    const char *asked = getenv("GSC_ISA");
    if (asked && strcmp(asked, "baseline") == 0)
        assert_string_equal(isa, "baseline");
#endif
}

/* Lists of every length in falling order of their addresses: what takes the table of duplicates. */
/* rule 5.8 */
static void test_any_number_in_any_order(void **state)
{
    (void)state;
    enum { MOST = 130 };
    float values[MOST];
    DLTensor tensors[MOST], *grads[MOST];
    for (size_t n = 1; n <= MOST; n++) {
        for (size_t i = 0; i < n; i++) {
            values[n - 1 - i] = 1;
            tensors[i] = (DLTensor){.data = &values[n - 1 - i], .device = {kDLCPU, 0}, .dtype = GSC_FLOAT32};
            grads[i] = &tensors[i];
        }
        double norm = 0;
        assert_ok(gsc_grad_norm(grads, n, 1, &norm));
        assert_true(norm == (double)n);
    }
}

/* Two views that begin at one element, with as many elements and the same strides, but other ones. */
/* rule 5.8 */
static void test_views_that_only_begin_alike(void **state)
{
    (void)state;
    float values[60];
    for (size_t i = 0; i < 60; i++)
        values[i] = 1;
    int64_t strides[] = {20, 1}, wide[] = {2, 6}, high[] = {3, 4};
    DLTensor a = {.data = values, .device = {kDLCPU, 0}, .ndim = 2, .dtype = GSC_FLOAT32, .shape = wide};
    a.strides = strides;
    DLTensor b = a, *grads[] = {&a, &b, &a};
    b.shape = high;
    double norm = 0;
    assert_ok(gsc_grad_norm(grads, 3, 1, &norm));
    assert_true(norm == 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unscale),
        cmocka_unit_test(test_unscale_precision),
        cmocka_unit_test(test_unscale_finds_overflow),
        cmocka_unit_test(test_scales_that_are_refused),
        cmocka_unit_test(test_lists_that_are_refused),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_clip_norm),
        cmocka_unit_test(test_clip_norm_of_extremes),
        cmocka_unit_test(test_clip_value),
        cmocka_unit_test(test_strided),
        cmocka_unit_test(test_isa_is_one_that_is_known),
        cmocka_unit_test(test_any_number_in_any_order),
        cmocka_unit_test(test_views_that_only_begin_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
