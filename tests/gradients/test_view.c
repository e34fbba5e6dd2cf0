/* SPDX-License-Identifier: Apache-2.0 */
/* What gsc__view_check refuses, and in which words. */
#include <stddef.h>

#include "asserts.h"
#include "gradients/layout.h"
#include "gradients/overlap.h"
#include "gradients/view.h"
#include "layouts.h"
static _Alignas(16) float memory[4096];

static const gsc__message_subject subject = {
    .api = "caller", .what = "gradient", .listed = true, .index = 3, .name = "fc.weight"};
static const gsc__view_rules reads = {.writes = false, .allow_fp16 = true},
                             writes = {.writes = true, .allow_fp16 = true};

static gsc_status check(const DLTensor *tensor, const gsc__view_rules *rules)
{
    gsc__view view;
    return gsc__view_check(tensor, rules, &subject, &view);
}

static void test_places_in_words(void **state)
{
    (void)state;
    char text[64], little[12];
    gsc__message_subject single = {.api = "f", .what = "grad"},
                         unnamed = {.api = "f", .what = "gradient", .listed = true};
    assert_string_equal(gsc__message_subject_text(&subject, text, sizeof text), "caller: gradient 3 (\"fc.weight\")");
    assert_string_equal(gsc__message_subject_text(&single, text, sizeof text), "f: grad");
    assert_string_equal(gsc__message_subject_text(&unnamed, text, sizeof text), "f: gradient 0");
    assert_string_equal(gsc__message_subject_text(&subject, little, sizeof little), "caller: gra");
}

static void test_dtypes(void **state)
{
    (void)state;
    const int64_t two = 2;
    const DLDataType good[] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16, GSC_FLOAT16};
    for (size_t i = 0; i < 4; i++) {
        DLTensor tensor = tensor_over(memory, good[i], 1, &two, NULL);
        assert_ok(check(&tensor, &writes));
    }
    const DLDataType bad[] = {{kDLFloat, 32, 2}, {kDLFloat, 8, 1},   {kDLInt, 32, 1},
                              {kDLUInt, 8, 1},   {kDLBfloat, 32, 1}, {kDLFloat, 32, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        DLTensor tensor = tensor_over(memory, bad[i], 1, &two, NULL);
        assert_fails(GSC_ERR_VALUE, check(&tensor, &reads), "caller: gradient 3 (\"fc.weight\")", "dtype", "float32");
    }
    DLTensor tensor = tensor_over(memory, (DLDataType){kDLComplex, 64, 1}, 1, &two, NULL);
    assert_fails(GSC_ERR_UNSUPPORTED, check(&tensor, &reads), "fc.weight", "complex");
    tensor.dtype = GSC_FLOAT16;
    const gsc__view_rules no_fp16 = {.writes = true, .allow_fp16 = false};
    assert_fails(GSC_ERR_VALUE, check(&tensor, &no_fp16), "fc.weight", "float16", "keep the parameters", "float32",
                 "allow_fp16_grads");
}

static void test_shapes(void **state)
{
    (void)state;
    const int64_t negative[] = {2, -1}, huge[] = {INT64_MAX, 2}, wide[] = {INT64_MAX / 16},
                  empty[] = {INT64_MAX, INT64_MAX, 0}, ones[64] = {[0] = 1};
    DLTensor tensor = tensor_over(memory, GSC_FLOAT32, 2, negative, NULL);
    assert_fails(GSC_ERR_VALUE, check(&tensor, &reads), "shape[1]", "-1");
    tensor = tensor_over(memory, GSC_FLOAT32, 2, huge, NULL);
    assert_fails(GSC_ERR_VALUE, check(&tensor, &reads), "more elements than memory");
    tensor = tensor_over(memory, GSC_FLOAT32, 1, wide, NULL);
    assert_fails(GSC_ERR_VALUE, check(&tensor, &reads), "more elements than memory");
    tensor = tensor_over(NULL, GSC_FLOAT32, 3, empty, NULL);
    assert_ok(check(&tensor, &writes));
    tensor = tensor_over(memory, GSC_FLOAT32, 65, ones, NULL);
    assert_fails(GSC_ERR_VALUE, check(&tensor, &reads), "ndim 65", "0 to 64");
    tensor.ndim = -1;
    assert_fails(GSC_ERR_VALUE, check(&tensor, &reads), "ndim -1");
    tensor = tensor_over(memory, GSC_FLOAT32, 2, NULL, NULL);
    assert_fails(GSC_ERR_VALUE, check(&tensor, &reads), "shape is NULL");
    tensor.ndim = 0;
    assert_ok(check(&tensor, &writes));
}

static void test_data(void **state)
{
    (void)state;
    const int64_t two = 2;
    DLTensor tensor = tensor_over(NULL, GSC_FLOAT64, 1, &two, NULL);
    assert_fails(GSC_ERR_VALUE, check(&tensor, &reads), "data is NULL");
    tensor.data = memory;
    tensor.byte_offset = 4;
    assert_fails(GSC_ERR_VALUE, check(&tensor, &reads), "not aligned", "8 bytes");
    tensor.data = memory + 1;
    assert_ok(check(&tensor, &reads)); /* data alone is not aligned, data + byte_offset is */
    tensor.byte_offset = UINT64_MAX - 7;
    assert_fails(GSC_ERR_VALUE, check(&tensor, &reads), "past the end of memory");
    tensor.byte_offset = 4;
    tensor.device.device_type = kDLCUDA;
    assert_fails(GSC_ERR_DEVICE, check(&tensor, &reads), "fc.weight", "is on CUDA device 0;", "CPU");
}

static void test_strides_beyond_memory(void **state)
{
    (void)state;
    const int64_t shape[] = {2, 3}, far_up[] = {INT64_MAX, 1}, far_down[] = {INT64_MIN, 1},
                  below_zero[] = {-(1LL << 58), 1};
    const int64_t *const bad[] = {far_up, far_down, below_zero};
    for (size_t i = 0; i < 3; i++) {
        DLTensor tensor = tensor_over(memory, GSC_FLOAT32, 2, shape, bad[i]);
        assert_fails(GSC_ERR_VALUE, check(&tensor, &reads), "strides that reach beyond memory");
    }
}

static void test_self_overlap(void **state)
{
    (void)state;
    const struct {
        int64_t shape[2], strides[2];
        bool overlaps;
    } cases[] = {
        {{3, 2}, {2, 3}, false}, /* interleaved: 0 3 2 5 4 7 */
        {{4, 3}, {2, 3}, true},  /* 6 is reached twice */
        {{3, 2}, {1, 1}, true},          {{3, 2}, {0, 1}, true},  {{2, 3}, {3, 1}, false},
        {{2, 3}, {2, 1}, true},          {{1, 3}, {0, 1}, false}, {{100000, 2}, {2, 99999}, false},
        {{100001, 3}, {2, 99999}, true},
    };
    static float large[1 << 19];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        DLTensor tensor = tensor_over(large, GSC_FLOAT32, 2, cases[i].shape, cases[i].strides);
        assert_ok(check(&tensor, &reads));
        if (cases[i].overlaps)
            assert_fails(GSC_ERR_VALUE, check(&tensor, &writes), "fc.weight", "more than once", "compact copy");
        else
            assert_ok(check(&tensor, &writes));
    }
}

static void test_undecided_is_refused(void **state)
{
    (void)state;
    /* Large coprime strides whose sums come close to each other. */
    const int64_t shape[] = {3001, 3001, 3001, 3001}, strides[] = {1000003, 999983, 999979, 999961};
    DLTensor tensor = tensor_over(memory, GSC_FLOAT32, 4, shape, strides);
    gsc__layout layout;
    gsc__layout_collapse(&tensor, GSC_F32, &layout);
    assert_int_equal(gsc__self_overlap(&layout), GSC_UNDECIDED);
    assert_fails(GSC_ERR_VALUE, check(&tensor, &writes), "too irregular to tell", "compact copy");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_in_words),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_strides_beyond_memory),
        cmocka_unit_test(test_self_overlap),
        cmocka_unit_test(test_undecided_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
