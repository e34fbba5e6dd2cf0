/* SPDX-License-Identifier: Apache-2.0 */
/* gsc_unscale_grads_to: gradients unscaled into other tensors. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "elements.h"
#include "gradscaler/gradients.h"
#include "gradscaler/runtime.h"
#include "layouts.h"
#include "sanitizer_options.h"

static const int64_t one = 1, three = 3, four = 4;

static DLTensor vector(void *data, DLDataType dtype, const int64_t *count)
{
    return tensor_over(data, dtype, 1, count, NULL);
}

static gsc_status unscale_one(DLTensor *grad, DLTensor *out, double scale, bool *found_inf)
{
    DLTensor *const grads[] = {grad}, *const outs[] = {out};
    return gsc_unscale_grads_to(grads, outs, 1, scale, found_inf);
}

/* trial T23 */
static void test_float16_into_float32(void **state)
{
    (void)state;
    uint16_t half[3] = {to_fp16(0x1p-10), to_fp16(-3), to_fp16(0)};
    float master[3] = {7, 7, 7};
    DLTensor grad = vector(half, GSC_FLOAT16, &three), out = vector(master, GSC_FLOAT32, &three);
    bool found_inf = true;
    assert_ok(unscale_one(&grad, &out, 0x1p20, &found_inf));
    assert_false(found_inf);
    assert_true(master[0] == 0x1p-30f && master[1] == -3 * 0x1p-20f && master[2] == 0);
    assert_int_equal(half[0], to_fp16(0x1p-10)); /* only read */
}

/* trial T23 */
static void test_each_pair_of_dtypes(void **state)
{
    (void)state;
    const float r = (float)(1.0 / 3.0);
    volatile float product = 5 * r;
    const double wide = 5 * (1.0 / 3.0);
    const struct {
        DLDataType in, out;
        double expected;
    } cases[] = {
        {GSC_FLOAT16, GSC_FLOAT32, (double)product},
        {GSC_BFLOAT16, GSC_FLOAT32, (double)product},
        {GSC_FLOAT32, GSC_FLOAT32, (double)product},
        {GSC_FLOAT16, GSC_FLOAT64, wide},
        {GSC_BFLOAT16, GSC_FLOAT64, wide},
        {GSC_FLOAT32, GSC_FLOAT64, wide},
        {GSC_FLOAT64, GSC_FLOAT64, wide},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double in_data = 0, out_data = 0;
        DLTensor in = vector(&in_data, cases[i].in, &one), out = vector(&out_data, cases[i].out, &one);
        element_set(&in, 0, 5);
        assert_ok(unscale_one(&in, &out, 3, NULL));
        assert_true(element_get(&out, 0) == cases[i].expected);
    }
    uint16_t half = to_fp16(5), narrow = 0;
    DLTensor in = vector(&half, GSC_FLOAT16, &one), out = vector(&narrow, GSC_FLOAT16, &one);
    assert_ok(unscale_one(&in, &out, 3, NULL));
    assert_int_equal(narrow, to_fp16((double)product));
}

/* trial T23 */
static void test_the_results_are_checked(void **state)
{
    (void)state;
    const float values[4] = {1, 3e38f, -INFINITY, NAN};
    float data[3] = {1, 1, 1}, into[3];
    double wide[3];
    DLTensor grad = vector(data, GSC_FLOAT32, &three), out = vector(into, GSC_FLOAT32, &three),
             wide_out = vector(wide, GSC_FLOAT64, &three);
    for (int i = 0; i < 4; i++) {
        bool found_inf, found_in_wide, found_in_copy;
        data[1] = values[i];
        assert_ok(unscale_one(&grad, &out, 0.25, &found_inf));
        assert_int_equal(found_inf, i > 0); /* 3e38 * 4 is no float32 … */
        assert_ok(unscale_one(&grad, &wide_out, 0.25, &found_in_wide));
        assert_int_equal(found_in_wide, i > 1); /* … but a float64 */
        assert_ok(unscale_one(&grad, &out, 1, &found_in_copy));
        assert_int_equal(found_in_copy, i > 1);
        assert_memory_equal(into, data, sizeof data);
        assert_true(wide[0] == 4 && wide[2] == 4); /* all are processed */
    }
}

/* trial T23 */
static void test_lists(void **state)
{
    (void)state;
    uint16_t half[3] = {to_fp16(2), to_fp16(4), to_fp16(INFINITY)};
    float single[2] = {8, 8}, masters[4] = {7, 7, 7, 7};
    DLTensor a = vector(&half[0], GSC_FLOAT16, &one), b = vector(&half[1], GSC_FLOAT16, &one),
             infinite = vector(&half[2], GSC_FLOAT16, &one), in_place = vector(&single[0], GSC_FLOAT32, &one),
             to_a = vector(&masters[0], GSC_FLOAT32, &one), to_b = vector(&masters[1], GSC_FLOAT32, &one),
             unused = vector(&masters[2], GSC_FLOAT32, &one), to_infinite = vector(&masters[3], GSC_FLOAT32, &one);
    /* In place, twice; one gradient into two tensors; NULL in either list. */
    DLTensor *const grads[] = {&in_place, &a, NULL, &infinite, &in_place, &b, &a};
    DLTensor *const out[] = {&in_place, &to_a, &unused, NULL, &in_place, &to_b, &to_infinite};
    bool found_inf = true;
    assert_ok(gsc_unscale_grads_to(grads, out, 7, 2, &found_inf));
    assert_false(found_inf);
    assert_true(single[0] == 4 && single[1] == 8);
    assert_true(masters[0] == 1 && masters[1] == 2 && masters[2] == 7 && masters[3] == 1);
    DLTensor *const infinite_first[] = {&infinite, &a}, *const to[] = {&to_infinite, &to_a};
    assert_ok(gsc_unscale_grads_to(infinite_first, to, 2, 2, &found_inf));
    assert_true(found_inf); /* a later pair does not take it back */
    assert_ok(gsc_unscale_grads_to(NULL, NULL, 0, 2, &found_inf));
    assert_false(found_inf);
}

/* trial T23 */
static void test_refusals_write_nothing(void **state)
{
    (void)state;
    float data[8] = {1, 2, 3, 4, 5, 6, 7, 8}, other[4] = {1, 2, 3, 4}, before[8];
    memcpy(before, data, sizeof data);
    DLTensor a = vector(&other[0], GSC_FLOAT32, &one), to_a = vector(&data[7], GSC_FLOAT32, &one),
             low = vector(&data[0], GSC_FLOAT32, &four), high = vector(&data[2], GSC_FLOAT32, &four),
             short_out = vector(&data[0], GSC_FLOAT32, &three), all = vector(&other[0], GSC_FLOAT32, &four);
    DLTensor half_out = vector(&data[0], GSC_FLOAT16, &four), integers = low;
    integers.dtype.code = kDLInt;
    const struct {
        DLTensor *grad, *out;
        const char *problem;
    } cases[] = {
        {&low, &high, "gradient and out overlap"},
        {&all, &short_out, "gradient has shape[0] = 4, out has 3"},
        {&all, &half_out, "gradient is float32, out is float16"},
        {&integers, &all, "gradient 1 "},
        {&all, &integers, "out 1 "},
        {&to_a, &a, "overlap in memory"}, /* crosswise; which of the two is named depends on addresses */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        DLTensor *const grads[] = {&a, cases[i].grad}, *const out[] = {&to_a, cases[i].out};
        bool found_inf = false;
        assert_fails(GSC_ERR_VALUE, gsc_unscale_grads_to(grads, out, 2, 2, &found_inf),
                     "gsc_unscale_grads_to: ", cases[i].problem);
        assert_memory_equal(data, before, sizeof data);
    }
    DLTensor *const grads[] = {&a, &all}, *const out[] = {&to_a, &to_a}, *const same_grads[] = {&all, &all},
                    *const overlapping[] = {&low, &high};
    assert_fails(GSC_ERR_VALUE, gsc_unscale_grads_to(grads, out, 2, 2, NULL), "pair 1: gradient has shape[0] = 4");
    assert_fails(GSC_ERR_VALUE, gsc_unscale_grads_to(same_grads, overlapping, 2, 2, NULL), "out 0 and out 1 overlap");
    assert_fails(GSC_ERR_VALUE, gsc_unscale_grads_to(grads, NULL, 2, 2, NULL), "out is NULL but n is 2");
    assert_fails(GSC_ERR_VALUE, gsc_unscale_grads_to(NULL, out, 2, 2, NULL), "grads is NULL but n is 2");
    assert_fails(GSC_ERR_VALUE, gsc_unscale_grads_to(grads, out, 1, 0, NULL), "scale is 0");
    assert_memory_equal(data, before, sizeof data);
}

/* Rows of a matrix into columns of another. Columns of different pairs interleave and share nothing.
 * trial T23 */
static void test_strides(void **state)
{
    (void)state;
    enum { ROWS = 300, COLUMNS = 5 };
    uint16_t half[COLUMNS][ROWS];
    float masters[ROWS][COLUMNS];
    DLTensor from[COLUMNS], to[COLUMNS], *grads[COLUMNS], *out[COLUMNS];
    const int64_t rows = ROWS, stride = COLUMNS;
    for (int c = 0; c < COLUMNS; c++) {
        for (int r = 0; r < ROWS; r++)
            half[c][r] = to_fp16(2.0 * (c * ROWS + r));
        from[c] = vector(half[c], GSC_FLOAT16, &rows);
        to[c] = tensor_over(&masters[0][c], GSC_FLOAT32, 1, &rows, &stride);
        grads[c] = &from[c];
        out[c] = &to[c];
    }
    assert_ok(gsc_unscale_grads_to(grads, out, COLUMNS, 2, NULL));
    for (int c = 0; c < COLUMNS; c++)
        for (int r = 0; r < ROWS; r++)
            assert_true((double)masters[r][c] == (double)(c * ROWS + r));
}

/* On several threads, and at each instruction set's vectors and rests, the same as in place after widening. */
static void test_many_elements(void **state)
{
    (void)state;
    enum { N = 200003 };
    const int64_t n = N;
    uint16_t *half = malloc(N * sizeof *half);
    float *into = malloc(N * sizeof *into), *expected = malloc(N * sizeof *expected);
    for (int i = 0; i < N; i++) {
        half[i] = (uint16_t)(i * 7919);
        expected[i] = (float)from_fp16(half[i]);
    }
    DLTensor grad = vector(half, GSC_FLOAT16, &n), out = vector(into, GSC_FLOAT32, &n),
             in_place = vector(expected, GSC_FLOAT32, &n), *const list[] = {&in_place};
    assert_ok(gsc_unscale_grads(list, 1, 3, NULL));
    for (int32_t threads = 1; threads <= 4; threads++) {
        bool found_inf = false;
        gsc_set_num_threads(threads);
        assert_ok(unscale_one(&grad, &out, 3, &found_inf));
        assert_true(found_inf);
        for (int i = 0; i < N; i++)
            assert_true(into[i] == expected[i] || (isnan(into[i]) && isnan(expected[i])));
    }
    gsc_set_num_threads(0);
    free(half);
    free(into);
    free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float16_into_float32),    cmocka_unit_test(test_each_pair_of_dtypes),
        cmocka_unit_test(test_the_results_are_checked), cmocka_unit_test(test_lists),
        cmocka_unit_test(test_refusals_write_nothing),  cmocka_unit_test(test_strides),
        cmocka_unit_test(test_many_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
