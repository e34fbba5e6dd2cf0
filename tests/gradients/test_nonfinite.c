/* SPDX-License-Identifier: Apache-2.0 */
/* What a report counts after an overflow, against one element at a time. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "elements.h"
#include "gradients/nonfinite.h"
#include "kernels/kernels.h"
#include "layouts.h"

static bool count_in(const DLTensor *tensor, double r, gsc__nonfinite *out)
{
    gsc__view view;
    gsc__nonfinite_view(tensor, &view);
    return gsc__count_nonfinite(&view, 1, r, false, out);
}

static void test_count(void **state)
{
    (void)state;
    enum { ROWS = 300, COLUMNS = 400 };
    float *data = calloc(ROWS * COLUMNS, sizeof *data);
    const int64_t shape[] = {COLUMNS, ROWS}, strides[] = {1, COLUMNS},
                  one = 1; /* transposed: index = column * ROWS + row */
    DLTensor tensor = tensor_over(data, GSC_FLOAT32, 2, shape, strides);
    gsc__nonfinite nonfinite;
    for (int32_t threads = 1; threads <= 3; threads++) {
        gsc_set_num_threads(threads);
        assert_false(count_in(&tensor, 0.5, &nonfinite));
        assert_true(nonfinite.inf_count == 0 && nonfinite.nan_count == 0 && nonfinite.first_index == 0);
        data[7 * COLUMNS + 5] = INFINITY;
        data[2 * COLUMNS + 399] = -INFINITY;
        data[100 * COLUMNS + 200] = NAN;
        data[3] = 3e38f;
        assert_true(count_in(&tensor, 0.5, &nonfinite));
        assert_int_equal(nonfinite.inf_count, 2);
        assert_int_equal(nonfinite.nan_count, 1);
        assert_int_equal(nonfinite.first_index, 5 * ROWS + 7);
        assert_true(count_in(&tensor, 2.0, &nonfinite)); /* now a product overflows */
        assert_int_equal(nonfinite.inf_count, 3);
        assert_int_equal(nonfinite.first_index, 3 * ROWS);
        memset(data, 0, ROWS * COLUMNS * sizeof *data);
    }
    data[(ROWS - 1) * COLUMNS + COLUMNS - 1] = INFINITY; /* the last one */
    assert_true(count_in(&tensor, 1.0, &nonfinite));
    assert_int_equal(nonfinite.first_index, ROWS * COLUMNS - 1);
    gsc_set_num_threads(0);
    free(data);
    uint16_t half = 0x7bff; /* 65504 */
    tensor = tensor_over(&half, GSC_FLOAT16, 1, &one, NULL);
    assert_false(count_in(&tensor, 1.0, &nonfinite));
    assert_true(count_in(&tensor, 1.0003, &nonfinite)); /* rounds to 65536 */
    half = 0x7f7f;                                      /* the greatest bfloat16 */
    tensor.dtype = GSC_BFLOAT16;
    assert_false(count_in(&tensor, 1.0, &nonfinite));
    assert_true(count_in(&tensor, 1.003, &nonfinite)); /* finite in float32, not in bfloat16 */
    assert_false(count_in(NULL, 1.0, &nonfinite));
}

/* Element i of a tensor of 2 dimensions, in row-major order. */
static DLTensor element_of(const DLTensor *tensor, size_t i)
{
    int64_t row = (int64_t)i / tensor->shape[1], column = (int64_t)i % tensor->shape[1];
    DLTensor element = *tensor;
    int64_t offset = tensor->strides ? row * tensor->strides[0] + column * tensor->strides[1] : (int64_t)i;
    element.data = (char *)tensor->data + offset * (tensor->dtype.bits / 8);
    return element;
}

static gsc__nonfinite census_by_element(const DLTensor *tensor)
{
    gsc__nonfinite nonfinite = {.first_index = UINT64_MAX};
    for (size_t i = 0; i < (size_t)(tensor->shape[0] * tensor->shape[1]); i++) {
        DLTensor element = element_of(tensor, i);
        double value = element_get(&element, 0);
        nonfinite.inf_count += isinf(value) ? 1 : 0;
        nonfinite.nan_count += isnan(value) ? 1 : 0;
        if (!isfinite(value) && nonfinite.first_index == UINT64_MAX)
            nonfinite.first_index = i;
    }
    if (nonfinite.first_index == UINT64_MAX)
        nonfinite.first_index = 0;
    return nonfinite;
}

/* Fills a tensor, with up to 3 elements that are not finite. */
static void plant(const DLTensor *tensor, uint64_t *seed, size_t bad)
{
    size_t count = (size_t)(tensor->shape[0] * tensor->shape[1]);
    for (size_t i = 0; i < count; i++) {
        DLTensor element = element_of(tensor, i);
        element_set(&element, 0, (double)(i % 5));
    }
    for (; bad > 0; bad--) {
        DLTensor element = element_of(tensor, next_random(seed) % count);
        element_set(&element, 0, bad == 2 ? (double)NAN : -(double)INFINITY);
    }
}

/* Small and large, dense, transposed and strided tensors of all dtypes, absent ones, neighbours, and one listed twice.
 * Whatever is expected, the result is the same. */
static void test_count_in_many(void **state)
{
    (void)state;
    enum { N = GSC_NONFINITE_BATCH, LARGE = 40, ABSENT = 9, SPACE = 128, LARGE_ROWS = 7000 };
    const DLDataType dtypes[] = {GSC_FLOAT32, GSC_BFLOAT16, GSC_FLOAT64, GSC_FLOAT16};
    static const int64_t small[] = {7, 9}, columns[] = {1, 7}, every_other[] = {18, 2}, large[] = {LARGE_ROWS, 10};
    double *memory = calloc(N * SPACE + LARGE_ROWS * 10, sizeof *memory), *next = memory;
    DLTensor tensors[N];
    gsc__view views[N];
    for (size_t i = 0; i < N; i++) {
        const int64_t *strides = i % 9 == 4 ? columns : i % 9 == 7 ? every_other : NULL;
        tensors[i] = i == LARGE ? tensor_over(next, GSC_FLOAT32, 2, large, NULL)
                                : tensor_over(next, dtypes[i / 6 % 4], 2, small, strides);
        next += i == LARGE ? LARGE_ROWS * 10 : i % 5 == 0 ? SPACE : strides == every_other ? 126 : 63;
        gsc__nonfinite_view(i % 11 == ABSENT ? NULL : i == 30 ? &tensors[29] : &tensors[i], &views[i]);
    }
    tensors[30] = tensors[29];
    uint64_t seed = 5;
    for (int round = 0; round < 20; round++) {
        gsc__nonfinite expected[N] = {{0}}, found[N];
        bool any = false;
        for (size_t i = 0; i < N; i++)
            plant(&tensors[i], &seed, round % 4 == 0 || next_random(&seed) % 2 == 0 ? 0 : next_random(&seed) % 4);
        for (size_t i = 0; i < N; i++)
            if (i % 11 != ABSENT) {
                expected[i] = census_by_element(&tensors[i]);
                any |= expected[i].inf_count + expected[i].nan_count > 0;
            }
        assert_int_equal(any, round % 4 != 0);
        for (int e = 0; e < 2; e++) {
            assert_int_equal(gsc__count_nonfinite(views, N, 1.0, e == 1, found), any);
            assert_memory_equal(found, expected, sizeof found);
        }
    }
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_count_in_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
