/* SPDX-License-Identifier: Apache-2.0 */
/* The dimensions of a tensor: what is one run, and the order and copies of rows. */
#include <stddef.h>
#include <string.h>

#include "asserts.h"
#include "gradients/layout.h"
#include "gradients/rows.h"
#include "gradients/view.h"
#include "random_layouts.h"
static _Alignas(16) float memory[4096];

typedef struct case_ {
    int ndim;
    int64_t shape[4], strides[4];
    bool dense;
    int64_t start; /* of the lowest element, from the first */
} case_;

static void test_collapsing(void **state)
{
    (void)state;
    const case_ cases[] = {
        {2, {3, 4}, {4, 1}, true, 0},       /* compact */
        {2, {4, 3}, {1, 4}, true, 0},       /* transposed */
        {3, {2, 3, 4}, {1, 8, 2}, true, 0}, /* any permutation */
        {2, {3, 4}, {-4, 1}, true, -8},     /* rows upside down */
        {2, {3, 4}, {-4, -1}, true, -11},   /* turned around */
        {2, {3, 1}, {1, 999}, true, 0},     /* the stride of a dimension of 1 is ignored */
        {1, {1}, {-77}, true, 0},           /* nor here */
        {2, {3, 4}, {5, 1}, false, 0},      /* gaps */
        {1, {5}, {2}, false, 0},            /* every second */
        {2, {3, 4}, {0, 1}, false, 0},      /* broadcast */
        {4, {2, 1, 3, 4}, {12, 7, 4, 1}, true, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const case_ *c = &cases[i];
        DLTensor tensor = tensor_over(memory + 100, GSC_FLOAT32, c->ndim, c->shape, c->strides);
        gsc__view view;
        const gsc__view_rules reads = {.writes = false, .allow_fp16 = true};
        const gsc__message_subject subject = {.api = "api", .what = "tensor"};
        assert_ok(gsc__view_check(&tensor, &reads, &subject, &view));
        assert_true(view.dense == c->dense);
        assert_ptr_equal(view.start, memory + 100 + c->start);
    }
}

static void test_rows_visit_the_elements_in_order(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (size_t i = 0; i < 4096; i++)
        memory[i] = (float)i;
    for (int repeat = 0; repeat < 3000; repeat++) {
        random_tensor t;
        make_random(&t, memory + 2048, &seed, GSC_FLOAT32, 40);
        size_t count = (size_t)count_of(&t.tensor), first = next_random(&seed) % count;
        size_t part = next_random(&seed) % (count - first) + 1;
        gsc__layout layout;
        gsc__layout_logical(&t.tensor, GSC_F32, &layout);
        float packed[625];
        gsc__rows_pack(&layout, first, part, packed);
        for (size_t i = 0; i < part; i++)
            assert_true(packed[i] == (float)(2048 + offset_of(&t.tensor, (int64_t)(first + i))));
        /* collapsed: the same elements in some order */
        gsc__layout_collapse(&t.tensor, GSC_F32, &layout);
        gsc__rows_pack(&layout, 0, count, packed);
        double sum = 0, expected = 0;
        for (size_t i = 0; i < count; i++) {
            sum += (double)packed[i] * (double)packed[i];
            double element = (double)(2048 + offset_of(&t.tensor, (int64_t)i));
            expected += element * element;
        }
        assert_true(sum == expected);
    }
}

static void test_unpack_is_the_inverse_of_pack(void **state)
{
    (void)state;
    const int64_t shape[] = {3, 5, 7}, strides[] = {1, -200, 9};
    const DLDataType dtypes[] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16};
    const gsc__kind kinds[] = {GSC_F32, GSC_F64, GSC_BF16};
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < 4096; i++)
            memory[i] = (float)i;
        float before[4096];
        memcpy(before, memory, sizeof before);
        DLTensor tensor = tensor_over(memory + 2048, dtypes[k], 3, shape, strides);
        gsc__layout layout;
        gsc__layout_collapse(&tensor, kinds[k], &layout);
        _Alignas(8) char packed[105 * 8];
        gsc__rows_pack(&layout, 10, 90, packed);
        for (size_t i = 0; i < 90 * gsc__kind_size(kinds[k]); i++)
            packed[i] = (char)~packed[i];
        gsc__rows_unpack(&layout, 10, 90, packed);
        assert_memory_not_equal(before, memory, sizeof before);
        for (size_t i = 0; i < 90 * gsc__kind_size(kinds[k]); i++)
            packed[i] = (char)~packed[i];
        gsc__rows_unpack(&layout, 10, 90, packed);
        assert_memory_equal(before, memory, sizeof before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collapsing),
        cmocka_unit_test(test_rows_visit_the_elements_in_order),
        cmocka_unit_test(test_unpack_is_the_inverse_of_pack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
