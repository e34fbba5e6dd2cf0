/* SPDX-License-Identifier: Apache-2.0 */
/* Norms: close to a long double reference for ordinary numbers, and right where squares over- or underflow. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "asserts.h"
#include "elements.h"
#include "gradients/norm.h"
#include "layouts.h"

static const gsc__list_rules reads = {.writes = false, .allow_fp16 = true, .api = "test"};

static double norm_of(DLTensor *tensors, size_t n, double r, double p)
{
    gsc__list list = {.count = 0};
    assert_ok(gsc__list_begin(&list, n));
    for (size_t i = 0; i < n; i++)
        assert_ok(gsc__list_add(&list, &tensors[i], i, &reads));
    assert_ok(gsc__list_finish(&list, NULL, &reads, true));
    gsc__norm_sums sums = {.exponent = gsc__norm_exponent(&list, r, p)};
    gsc__norm_sum(&list, r, p, &sums, NULL);
    gsc__list_free(&list);
    return gsc__norm_from_sums(&sums);
}

static double norm_of_doubles(double *data, size_t n, double p)
{
    const int64_t count = (int64_t)n;
    DLTensor tensor = tensor_over(data, GSC_FLOAT64, 1, &count, NULL);
    return norm_of(&tensor, 1, 1.0, p);
}

static double norm_of_one(DLDataType dtype, double value, double p)
{
    const int64_t one = 1;
    double storage = 0;
    DLTensor tensor = tensor_over(&storage, dtype, 1, &one, NULL);
    element_set(&tensor, 0, value);
    return norm_of(&tensor, 1, 1.0, p);
}

static void assert_close(double found, double expected, double relative)
{
    if (!(fabs(found - expected) <= relative * fabs(expected)))
        fail_msg("%.17g instead of %.17g", found, expected);
}

static void test_one_element(void **state)
{
    (void)state;
    const double powers[] = {1, 2, (double)INFINITY, 3, 0.5, 10};
    for (size_t k = 0; k < sizeof powers / sizeof powers[0]; k++) {
        double p = powers[k], off = k < 3 ? 0 : 1e-14;
        assert_close(norm_of_one(GSC_FLOAT32, -3, p), 3, off);
        assert_close(norm_of_one(GSC_FLOAT32, 1e20, p), (double)1e20f, off);
        assert_close(norm_of_one(GSC_FLOAT32, 1e-25, p), (double)1e-25f, off);
        assert_close(norm_of_one(GSC_FLOAT32, 1e-45, p), 0x1p-149, off);
        assert_close(norm_of_one(GSC_FLOAT64, 1e300, p), 1e300, k == 1 ? 4e-16 : off);
        assert_close(norm_of_one(GSC_FLOAT64, 1e-300, p), 1e-300, k == 1 ? 4e-16 : off);
        assert_close(norm_of_one(GSC_FLOAT64, 0x1p-1074, p), 0x1p-1074, off);
        double greatest = k < 3 ? 0x1.fffffffffffffp1023 : 0x1p1023; /* pow may err upwards */
        assert_close(norm_of_one(GSC_FLOAT64, greatest, p), greatest, off);
        assert_close(norm_of_one(GSC_FLOAT16, 300, p), 300, off);
        assert_close(norm_of_one(GSC_FLOAT16, 65504, p), 65504, off);
        assert_close(norm_of_one(GSC_BFLOAT16, -0x1p127, p), 0x1p127, off);
        assert_true(norm_of_one(GSC_FLOAT32, 0, p) == 0);
    }
}

/* rule 14.1 */
static void test_accuracy(void **state)
{
    (void)state;
    enum { N = 50000 };
    double *data = malloc(N * sizeof *data);
    uint64_t seed = 1;
    long double absolute = 0, squares = 0, cubes = 0;
    for (size_t i = 0; i < N; i++) {
        data[i] = ldexp((double)(int64_t)next_random(&seed), (int)(i % 100) - 100);
        long double x = fabsl((long double)data[i]);
        absolute += x;
        squares += x * x;
        cubes += x * x * x;
    }
    assert_close(norm_of_doubles(data, N, 1), (double)absolute, 1e-14);
    assert_close(norm_of_doubles(data, N, 2), (double)sqrtl(squares), 1e-14);
    assert_close(norm_of_doubles(data, N, 3), (double)cbrtl(cubes), 1e-13);
    free(data);
}

/* Ordinary, tiny and huge blocks in one list: none may drown or spoil the others. */
/* rule 14.1 */
static void test_mixed_magnitudes(void **state)
{
    (void)state;
    enum { N = 3 * 4096 };
    double *data = malloc(N * sizeof *data);
    for (size_t i = 0; i < N; i++)
        data[i] = i < 4096 ? 3e-200 : i < 8192 ? 4e-200 : 0;
    assert_close(norm_of_doubles(data, N, 2), 64 * 5e-200, 1e-14);
    assert_close(norm_of_doubles(data, N, 1), 4096 * 7e-200, 1e-14);
    data[N - 1] = 1e-100; /* still tiny */
    assert_close(norm_of_doubles(data, N, 2), 1e-100, 1e-14);
    data[N - 1] = 2;
    assert_close(norm_of_doubles(data, N, 2), 2, 1e-14);
    data[0] = 3e250;
    data[5000] = -4e250;
    assert_close(norm_of_doubles(data, N, 2), 5e250, 1e-14);
    assert_close(norm_of_doubles(data, N, 1), 7e250, 1e-14);
    data[N - 2] = 1e308;
    assert_close(norm_of_doubles(data, N, 2), 1e308, 1e-14);
    assert_close(norm_of_doubles(data, N, 3), 1e308, 1e-14);
    /* At the border between the bins. */
    for (size_t i = 0; i < N; i++)
        data[i] = i % 2 ? 0x1p480 : 0x1.fffffffffffffp479;
    assert_close(norm_of_doubles(data, N, 2), 0x1p480 * sqrt(N), 1e-14);
    for (size_t i = 0; i < N; i++)
        data[i] = i < 4096 ? 0x1p-480 : 0x1.fffffffffffffp-481;
    assert_close(norm_of_doubles(data, N, 2), 0x1p-480 * sqrt(N), 1e-14);
    free(data);
}

/* rule 14.1 */
static void test_not_finite(void **state)
{
    (void)state;
    const double powers[] = {1, 2, 3, (double)INFINITY};
    for (size_t k = 0; k < 4; k++) {
        double data[3] = {1, (double)INFINITY, 1e-300};
        assert_true(isinf(norm_of_doubles(data, 3, powers[k])));
        data[0] = -(double)NAN;
        assert_true(isnan(norm_of_doubles(data, 3, powers[k])));
        assert_true(isinf(norm_of_one(GSC_FLOAT32, -(double)INFINITY, powers[k])));
        assert_true(isinf(norm_of_one(GSC_FLOAT16, (double)INFINITY, powers[k])));
        assert_true(isnan(norm_of_one(GSC_BFLOAT16, (double)NAN, powers[k])));
    }
}

/* Of the values as unscale would store them. */
static void test_products_are_rounded_as_stored(void **state)
{
    (void)state;
    const int64_t one = 1;
    uint16_t half = to_fp16(1.0 / 1024);
    DLTensor tensor = tensor_over(&half, GSC_FLOAT16, 1, &one, NULL);
    for (int p = 1; p <= 3; p++) {
        half = to_fp16(1.0 / 1024);
        assert_close(norm_of(&tensor, 1, 1.0 / 65536, p), 0, 0); /* below half of the least subnormal */
        half = to_fp16(3.0 / 1024);
        assert_close(norm_of(&tensor, 1, 1.0 / 65536, p), 0x1p-24, 1e-14);
        half = to_fp16(65504);
        assert_true(isinf(norm_of(&tensor, 1, 2.0, p)));
    }
    float single = 3;
    tensor = tensor_over(&single, GSC_FLOAT32, 1, &one, NULL);
    assert_true(norm_of(&tensor, 1, 0.1, 2) == (double)(3 * 0.1f));
    double twice = 3;
    tensor = tensor_over(&twice, GSC_FLOAT64, 1, &one, NULL);
    assert_true(norm_of(&tensor, 1, 0.1, 2) == 3 * 0.1);
}

static void test_sums_add_up_over_ranks(void **state)
{
    (void)state;
    double halves[2][3] = {{3e200, 1, 1e-200}, {4e200, 2, 1e-220}};
    gsc__norm_sums total = {.p = 2};
    for (int rank = 0; rank < 2; rank++) {
        const int64_t three = 3;
        DLTensor tensor = tensor_over(halves[rank], GSC_FLOAT64, 1, &three, NULL);
        gsc__list list = {.count = 0};
        assert_ok(gsc__list_begin(&list, 1));
        assert_ok(gsc__list_add(&list, &tensor, 0, &reads));
        assert_ok(gsc__list_finish(&list, NULL, &reads, true));
        gsc__norm_sums sums = {.exponent = 0};
        gsc__norm_sum(&list, 1.0, 2.0, &sums, NULL);
        for (int bin = 0; bin < 3; bin++)
            total.sums[bin] += sums.sums[bin];
        gsc__list_free(&list);
    }
    assert_close(gsc__norm_from_sums(&total), 5e200, 1e-14);
}

/* Such powers round to 1. The norm of one element is that element; the norm of several is infinite. */
static void test_tiny_powers(void **state)
{
    (void)state;
    const double powers[] = {1e-17, 1e-18, 1e-300}, values[] = {1, 1.5, 2, -3, 1e-310, 0x1p-1074, 1e308};
    for (size_t k = 0; k < sizeof powers / sizeof powers[0]; k++) {
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            double data[3] = {0, values[i], 0};
            assert_true(norm_of_doubles(data, 3, powers[k]) == fabs(values[i]));
        }
        double two[2] = {1, 1e-3};
        assert_true(isinf(norm_of_doubles(two, 2, powers[k])));
    }
}

/* rule 14.1 */
static void test_huge_powers(void **state)
{
    (void)state;
    double data[2] = {1.5, 1.25};
    assert_close(norm_of_doubles(data, 2, 5000), 1.5, 1e-3);
    assert_close(norm_of_doubles(data, 2, 1e308), 1.5, 1e-3);
}

static void test_clip_coefficient(void **state)
{
    (void)state;
    assert_true(gsc__clip_coefficient(1, 0.5) == 1);
    assert_true(gsc__clip_coefficient(1, 2) == 1 / (2 + 1e-6));
    assert_true(gsc__clip_coefficient(0, 2) == 0);
    assert_true(gsc__clip_coefficient(0, 0) == 0);
    assert_true(gsc__clip_coefficient((double)INFINITY, 2) == 1);
    assert_true(gsc__clip_coefficient(1, (double)INFINITY) == 1);
    assert_true(gsc__clip_coefficient(1, (double)NAN) == 1);
    assert_true(gsc__clip_coefficient(2e-6, 1e-6) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_element),
        cmocka_unit_test(test_accuracy),
        cmocka_unit_test(test_mixed_magnitudes),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_products_are_rounded_as_stored),
        cmocka_unit_test(test_sums_add_up_over_ranks),
        cmocka_unit_test(test_tiny_powers),
        cmocka_unit_test(test_huge_powers),
        cmocka_unit_test(test_clip_coefficient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
