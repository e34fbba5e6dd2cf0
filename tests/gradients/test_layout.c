/* SPDX-License-Identifier: Apache-2.0 */
/* From DLTensor to loops: what is refused and in which words, what is seen as one run, and which strides overlap. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "gradients/layout.h"
#include "gradients/overlap.h"
#include "gradients/rows.h"
#include "gradients/scale.h"
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
    assert_fails(GSC_ERR_DEVICE, check(&tensor, &reads), "fc.weight", "device type 2", "CPU");
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
        {2, {3, 1}, {1, 999}, true, 0},     /* the stride of a dimension of 1 says nothing */
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
        assert_ok(gsc__view_check(&tensor, &reads, &subject, &view));
        assert_true(view.dense == c->dense);
        assert_ptr_equal(view.start, memory + 100 + c->start);
    }
}

/* Element k of a tensor in row-major order, from its definition. */
static int64_t offset_of(const DLTensor *tensor, int64_t k)
{
    int64_t offset = 0;
    for (int d = tensor->ndim - 1; d >= 0; d--) {
        offset += k % tensor->shape[d] * tensor->strides[d];
        k /= tensor->shape[d];
    }
    return offset;
}

static int64_t count_of(const DLTensor *tensor)
{
    int64_t count = 1;
    for (int d = 0; d < tensor->ndim; d++)
        count *= tensor->shape[d];
    return count;
}

typedef struct random_tensor {
    int64_t shape[4], strides[4];
    DLTensor tensor;
} random_tensor;

static void make_random(random_tensor *out, uint64_t *seed, DLDataType dtype, int64_t most_stride)
{
    int ndim = (int)(next_random(seed) % 5);
    for (int d = 0; d < ndim; d++) {
        out->shape[d] = (int64_t)(next_random(seed) % 5) + 1;
        out->strides[d] = (int64_t)(next_random(seed) % (uint64_t)(2 * most_stride + 1)) - most_stride;
    }
    out->tensor = tensor_over(memory + 2048, dtype, ndim, out->shape, out->strides);
}

static void test_rows_visit_the_elements_in_order(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (size_t i = 0; i < 4096; i++)
        memory[i] = (float)i;
    for (int repeat = 0; repeat < 3000; repeat++) {
        random_tensor t;
        make_random(&t, &seed, GSC_FLOAT32, 40);
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

static void test_self_overlap_against_counting(void **state)
{
    (void)state;
    uint64_t seed = 11;
    int overlapping = 0;
    for (int repeat = 0; repeat < 20000; repeat++) {
        random_tensor t;
        make_random(&t, &seed, GSC_FLOAT32, 30);
        bool expected = false, seen[4096] = {false};
        for (int64_t i = 0; i < count_of(&t.tensor); i++) {
            bool *place_of = &seen[2048 + offset_of(&t.tensor, i)];
            expected |= *place_of;
            *place_of = true;
        }
        gsc__layout layout;
        gsc__layout_collapse(&t.tensor, GSC_F32, &layout);
        assert_int_equal(gsc__self_overlap(&layout), expected ? GSC_OVERLAPPING : GSC_DISJOINT);
        overlapping += expected;
    }
    assert_in_range(overlapping, 2000, 18000);
}

static void mark_bytes(const DLTensor *tensor, size_t size, char *bytes, char mark, bool *met)
{
    for (int64_t i = 0; i < count_of(tensor); i++) {
        const char *element = (const char *)tensor->data + offset_of(tensor, i) * (int64_t)size;
        for (size_t b = 0; b < size; b++) {
            char *byte = bytes + (element - (const char *)memory) + b;
            *met |= *byte != 0 && *byte != mark;
            *byte = mark;
        }
    }
}

static void test_pair_overlap_against_counting(void **state)
{
    (void)state;
    const DLDataType dtypes[] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16};
    const gsc__kind kinds[] = {GSC_F32, GSC_F64, GSC_BF16};
    uint64_t seed = 5;
    int met_often = 0;
    for (int repeat = 0; repeat < 20000; repeat++) {
        random_tensor a, b;
        size_t ka = next_random(&seed) % 3, kb = next_random(&seed) % 3;
        make_random(&a, &seed, dtypes[ka], 20);
        make_random(&b, &seed, dtypes[kb], 20);
        b.tensor.data = (char *)b.tensor.data + 8 * (next_random(&seed) % 40);
        static char bytes[sizeof memory];
        memset(bytes, 0, sizeof bytes);
        bool expected = false;
        mark_bytes(&a.tensor, gsc__kind_size(kinds[ka]), bytes, 1, &expected);
        mark_bytes(&b.tensor, gsc__kind_size(kinds[kb]), bytes, 2, &expected);
        gsc__layout one, other;
        gsc__layout_collapse(&a.tensor, kinds[ka], &one);
        gsc__layout_collapse(&b.tensor, kinds[kb], &other);
        assert_int_equal(gsc__pair_overlap(&one, &other), expected ? GSC_OVERLAPPING : GSC_DISJOINT);
        assert_int_equal(gsc__pair_overlap(&other, &one), expected ? GSC_OVERLAPPING : GSC_DISJOINT);
        met_often += expected;
    }
    assert_in_range(met_often, 2000, 18000);
}

static void test_undecided_is_refused(void **state)
{
    (void)state;
    /* Large coprime strides whose sums come close to each other: the search gives up. */
    const int64_t shape[] = {3001, 3001, 3001, 3001}, strides[] = {1000003, 999983, 999979, 999961};
    DLTensor tensor = tensor_over(memory, GSC_FLOAT32, 4, shape, strides);
    gsc__layout layout;
    gsc__layout_collapse(&tensor, GSC_F32, &layout);
    gsc__overlap answer = gsc__self_overlap(&layout);
    assert_true(answer == GSC_OVERLAPPING || answer == GSC_UNDECIDED);
    assert_status(check(&tensor, &writes), GSC_ERR_VALUE);
}

static gsc_status check_pair(DLDataType dtype, int64_t in_start, int64_t in_stride, int64_t out_start,
                             int64_t out_stride)
{
    const int64_t shape = 50;
    char *base = (char *)memory + 4096;
    DLTensor in = tensor_over(base + in_start * dtype.bits / 8, dtype, 1, &shape, &in_stride);
    DLTensor out = tensor_over(base + out_start * dtype.bits / 8, dtype, 1, &shape, &out_stride);
    return gsc__scale_check(&in, &out, 0, 0);
}

static void test_scale_in_and_out(void **state)
{
    (void)state;
    assert_ok(check_pair(GSC_FLOAT32, 0, 1, 0, 1));   /* in place */
    assert_ok(check_pair(GSC_FLOAT32, 0, -3, 0, -3)); /* in place, backwards */
    assert_ok(check_pair(GSC_FLOAT32, 0, 1, 50, 1));  /* side by side */
    assert_ok(check_pair(GSC_FLOAT32, 0, 2, 1, 2));   /* interleaved */
    assert_ok(check_pair(GSC_FLOAT32, 0, 0, 1, 1));   /* broadcast */
    assert_fails(GSC_ERR_VALUE, check_pair(GSC_FLOAT32, 0, 1, 1, 1), "gsc_scaler_scale: in and out overlap");
    assert_fails(GSC_ERR_VALUE, check_pair(GSC_FLOAT32, 0, 1, 49, -1), "overlap"); /* the same, reversed */
    assert_fails(GSC_ERR_VALUE, check_pair(GSC_FLOAT32, 0, 2, 1, 3), "overlap");
    assert_fails(GSC_ERR_VALUE, check_pair(GSC_FLOAT32, 3, 0, 0, 1), "overlap"); /* broadcast of one that is written */
    assert_fails(GSC_ERR_VALUE, check_pair(GSC_FLOAT32, 99, 1, 0, 0), "out has strides", "more than once");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_places_in_words),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_strides_beyond_memory),
        cmocka_unit_test(test_collapsing),
        cmocka_unit_test(test_rows_visit_the_elements_in_order),
        cmocka_unit_test(test_unpack_is_the_inverse_of_pack),
        cmocka_unit_test(test_self_overlap),
        cmocka_unit_test(test_self_overlap_against_counting),
        cmocka_unit_test(test_pair_overlap_against_counting),
        cmocka_unit_test(test_undecided_is_refused),
        cmocka_unit_test(test_scale_in_and_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
