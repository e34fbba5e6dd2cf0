/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of tensors: the same bits as one element at a time, for every layout, number of threads and instruction set;
 * duplicates once; nothing lost when memory runs out. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "elements.h"
#include "gradients/norm.h"
#include "gradients/view.h"
#include "kernels/kernels.h"
#include "layouts.h"
#include "sanitizer_options.h"

static const gsc__list_rules writes = {.writes = true, .allow_fp16 = true, .api = "gsc_scaler_unscale"};
static const gsc__list_rules reads = {.writes = false, .allow_fp16 = true, .api = "gsc_scaler_unscale"};

static void fill_list(gsc__list *list, DLTensor *tensors, size_t n, const gsc__list_rules *rules)
{
    assert_ok(gsc__list_begin(list, n));
    for (size_t i = 0; i < n; i++)
        assert_ok(gsc__list_add(list, &tensors[i], i, rules));
    assert_ok(gsc__list_finish(list, NULL, rules, true));
}

enum { TENSORS = 9, MEMORY = 1 << 21 };

/* Tensors of all dtypes and layouts, some longer than a task, over one piece of memory. */
typedef struct zoo {
    DLTensor tensors[TENSORS];
    int64_t shapes[TENSORS][3], strides[TENSORS][3];
    unsigned char *memory;
    size_t used;
} zoo;

static void add_animal(zoo *z, int index, DLDataType dtype, const int64_t shape[3], const int64_t strides[3],
                       int64_t reach)
{
    memcpy(z->shapes[index], shape, sizeof z->shapes[index]);
    memcpy(z->strides[index], strides, sizeof z->strides[index]);
    z->tensors[index] = tensor_over(z->memory + z->used, dtype, 3, z->shapes[index], z->strides[index]);
    z->used += ((size_t)reach * dtype.bits / 8 + 15) / 16 * 16;
    assert_true(z->used <= MEMORY);
}

static void fill_zoo(zoo *z)
{
    z->memory = aligned_alloc(64, MEMORY);
    z->used = 0;
    const DLDataType dtypes[4] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16, GSC_FLOAT16};
    add_animal(z, 0, dtypes[0], (int64_t[]){1, 1, 70001}, (int64_t[]){1, 1, 1}, 70001);     /* compact */
    add_animal(z, 1, dtypes[1], (int64_t[]){50, 41, 10}, (int64_t[]){1, 50, 2050}, 20500);  /* transposed */
    add_animal(z, 2, dtypes[2], (int64_t[]){3, 100, 5}, (int64_t[]){800, 8, 1}, 2400);      /* first 5 columns */
    add_animal(z, 3, dtypes[3], (int64_t[]){2, 70, 100}, (int64_t[]){8000, 110, 1}, 16000); /* long rows with gaps */
    add_animal(z, 4, dtypes[0], (int64_t[]){1, 1, 1}, (int64_t[]){5, 6, 7}, 1);
    add_animal(z, 5, dtypes[0], (int64_t[]){1, 99, 90}, (int64_t[]){1, 3, 300}, 27000); /* every third */
    add_animal(z, 6, dtypes[2], (int64_t[]){1, 1, 40000}, (int64_t[]){1, 1, 1}, 40000);
    add_animal(z, 7, dtypes[3], (int64_t[]){1, 1, 4097}, (int64_t[]){1, 1, 1}, 4097);
    add_animal(z, 8, dtypes[0], (int64_t[]){9, 1, 1000}, (int64_t[]){1010, 1, 1}, 9090);
    uint64_t seed = 99;
    for (size_t i = 0; i < MEMORY; i += 8) {
        uint64_t bits = next_random(&seed) & UINT64_C(0xbfffbfffbfffbfff); /* no greatest exponents: all finite */
        memcpy(z->memory + i, &bits, sizeof bits);
    }
}

static char *element_at(const DLTensor *tensor, int64_t k)
{
    char *element = tensor->data;
    for (int d = tensor->ndim - 1; d >= 0; d--) {
        element += k % tensor->shape[d] * tensor->strides[d] * tensor->dtype.bits / 8;
        k /= tensor->shape[d];
    }
    return element;
}

/* Rule 4, one element at a time. Returns the magnitude of the result. */
static double unscale_element(const DLTensor *tensor, int64_t k, double r)
{
    DLTensor one = {.data = element_at(tensor, k), .dtype = tensor->dtype};
    if (dtype_is(tensor->dtype, GSC_FLOAT64)) {
        element_set(&one, 0, element_get(&one, 0) * r);
    } else {
        volatile float x = (float)element_get(&one, 0);
        volatile float y = x * (float)r;
        element_set(&one, 0, (double)y);
    }
    return fabs(element_get(&one, 0));
}

static double unscale_reference(zoo *z, double r)
{
    double max_abs = 0;
    for (int t = 0; t < TENSORS; t++) {
        const DLTensor *tensor = &z->tensors[t];
        for (int64_t k = 0; k < tensor->shape[0] * tensor->shape[1] * tensor->shape[2]; k++)
            max_abs = fmax(max_abs, unscale_element(tensor, k, r));
    }
    return max_abs;
}

static const int32_t thread_counts[] = {1, 2, 3, 8};

/* section 5.2 */
static void test_unscale_of_everything(void **state)
{
    (void)state;
    const double r = 1.0 / 3.0;
    zoo expected;
    fill_zoo(&expected);
    double max_abs = unscale_reference(&expected, r);
    const gsc__kernel_table *table;
    for (size_t isa = 0; (table = gsc__kernels_present(isa)) != NULL; isa++)
        for (size_t t = 0; t < 4; t++) {
            gsc__kernels_select(table->isa);
            gsc_set_num_threads(thread_counts[t]);
            zoo found;
            fill_zoo(&found);
            gsc__list list = {.count = 0};
            fill_list(&list, found.tensors, TENSORS, &writes);
            gsc__check_result checked = gsc__sweep_check(&list, r), result = gsc__sweep_unscale(&list, r);
            assert_memory_equal(found.memory, expected.memory, MEMORY);
            assert_false(result.found_inf || checked.found_inf);
            assert_true(result.max_abs == max_abs && checked.max_abs == max_abs);
            gsc__list_free(&list);
            free(found.memory);
        }
    free(expected.memory);
    gsc_set_num_threads(0);
    gsc__kernels_select(gsc__kernels_present(0)->isa);
}

/* section 5.2 */
static void test_norm_has_the_same_bits_everywhere(void **state)
{
    (void)state;
    zoo z;
    fill_zoo(&z);
    double reference[2] = {0, 0};
    const gsc__kernel_table *table;
    for (size_t isa = 0; (table = gsc__kernels_present(isa)) != NULL; isa++)
        for (size_t t = 0; t < 4; t++)
            for (int p = 1; p <= 2; p++) {
                gsc__kernels_select(table->isa);
                gsc_set_num_threads(thread_counts[t]);
                gsc__list list = {.count = 0};
                fill_list(&list, z.tensors, TENSORS, &reads);
                gsc__norm_sums sums = {.exponent = 0};
                gsc__check_result result;
                gsc__norm_sum(&list, 1.0 / 1024, p, &sums, &result);
                double norm = gsc__norm_from_sums(&sums);
                if (isa == 0 && t == 0)
                    reference[p - 1] = norm;
                assert_true(norm == reference[p - 1] && norm > result.max_abs);
                gsc__list_free(&list);
            }
    free(z.memory);
    gsc_set_num_threads(0);
    gsc__kernels_select(gsc__kernels_present(0)->isa);
}

/* section 5.2 */
static void test_one_leaves_every_bit(void **state)
{
    (void)state;
    const uint32_t signalling[4] = {0x7f800001, 0xff812345, 0x00000001, 0x7f800000};
    uint32_t data[4];
    memcpy(data, signalling, sizeof data);
    const int64_t four = 4;
    DLTensor tensor = tensor_over(data, GSC_FLOAT32, 1, &four, NULL);
    gsc__list list = {.count = 0};
    fill_list(&list, &tensor, 1, &writes);
    gsc__check_result result = gsc__sweep_unscale(&list, 1.0);
    assert_true(result.found_inf && isnan(result.max_abs));
    assert_memory_equal(data, signalling, sizeof data);
    gsc__sweep_multiply(&list, 1.0);
    assert_memory_equal(data, signalling, sizeof data);
    gsc__list_free(&list);
}

static void test_what_a_finding_says(void **state)
{
    (void)state;
    float single[3] = {1, -7, 2};
    double twice[2] = {3, -9};
    const int64_t three = 3, two = 2;
    DLTensor tensors[2] = {tensor_over(single, GSC_FLOAT32, 1, &three, NULL),
                           tensor_over(twice, GSC_FLOAT64, 1, &two, NULL)};
    gsc__list list = {.count = 0};
    fill_list(&list, tensors, 2, &reads);
    gsc__check_result result = gsc__sweep_check(&list, 0.5);
    assert_true(!result.found_inf && result.max_abs == 4.5);
    single[1] = -INFINITY;
    result = gsc__sweep_check(&list, 0.5);
    assert_true(result.found_inf && isinf(result.max_abs));
    twice[0] = (double)NAN;
    result = gsc__sweep_check(&list, 0.5);
    assert_true(result.found_inf && isnan(result.max_abs));
    single[1] = 3e38f;
    twice[0] = 0;
    assert_true(gsc__sweep_check(&list, 2.0).found_inf); /* only the product overflows */
    assert_false(gsc__sweep_check(&list, 1.0).found_inf);
    list.count = 0;
    result = gsc__sweep_check(&list, 1.0);
    assert_true(!result.found_inf && result.max_abs == 0);
    gsc__list_free(&list);
}

/* rule 5.8 */
static void test_duplicates_are_processed_once(void **state)
{
    (void)state;
    enum { DATA = 64 };
    float data[DATA];
    for (int i = 0; i < DATA; i++)
        data[i] = 8;
    const int64_t compact[] = {4, 6}, transposed[] = {6, 4}, transposed_strides[] = {1, 6}, flat[] = {24};
    const int64_t slice[] = {4, 3}, slice_strides[] = {6, 1}, upside_down[] = {-6, 1};
    DLTensor tensors[] = {
        tensor_over(data + 30, GSC_FLOAT32, 2, slice, slice_strides),
        tensor_over(data, GSC_FLOAT32, 2, compact, NULL),
        tensor_over(data, GSC_FLOAT32, 2, transposed, transposed_strides), /* the same 24 */
        tensor_over(data, GSC_FLOAT32, 1, flat, NULL),                     /* again */
        tensor_over(data + 30 + 18, GSC_FLOAT32, 2, slice, upside_down),   /* the first's elements */
        tensor_over(data + 30, GSC_FLOAT32, 2, slice, slice_strides),
    };
    gsc__list list = {.count = 0};
    fill_list(&list, tensors, 6, &writes);
    assert_int_equal(list.count, 2);
    gsc__sweep_unscale(&list, 0.5);
    for (int i = 0; i < DATA; i++)
        assert_true(data[i] == (i < 24 || (i >= 30 && i < 54 && i % 6 < 3) ? 4.0f : 8.0f));
    gsc__list_free(&list);
}

/* rule 5.8 */
static void test_many_duplicates(void **state)
{
    (void)state;
    enum { N = 3000 };
    float *data = calloc(N, sizeof *data);
    DLTensor *tensors = calloc(2 * N, sizeof *tensors);
    const int64_t one = 1;
    for (size_t i = 0; i < 2 * N; i++) /* descending, each twice */
        tensors[i] = tensor_over(data + (2 * N - 1 - i) % N, GSC_FLOAT32, 1, &one, NULL);
    for (size_t i = 0; i < N; i++)
        data[i] = (float)i;
    gsc__list list = {.count = 0};
    fill_list(&list, tensors, 2 * N, &writes);
    assert_int_equal(list.count, N);
    gsc__sweep_multiply(&list, 2.0);
    for (size_t i = 0; i < N; i++)
        assert_true(data[i] == 2 * (float)i);
    gsc__list_free(&list);
    free(tensors);
    free(data);
}

/* A list of one-dimensional float32 views, given as start and count in `data`. Always the same descriptors, as an
 * optimizer's are. */
static void add_views(gsc__list *list, float *data, const int (*views)[2], size_t n)
{
    static DLTensor tensors[64];
    static int64_t counts[64];
    for (size_t i = 0; i < n; i++) {
        counts[i] = views[i][1];
        tensors[i] = tensor_over(data + views[i][0], GSC_FLOAT32, 1, &counts[i], NULL);
        assert_ok(gsc__list_add(list, &tensors[i], i, &writes));
    }
}

/* Elements of the finished list. */
static size_t finish_with(gsc__list *list, float *data, const int (*views)[2], size_t n)
{
    assert_ok(gsc__list_begin(list, n));
    add_views(list, data, views, n);
    assert_ok(gsc__list_finish(list, NULL, &writes, false));
    size_t elements = 0, in_runs = 0;
    for (size_t i = 0; i < list->count; i++) {
        assert_int_equal(list->views[i].first_element, elements);
        elements += list->views[i].count;
    }
    for (size_t i = 0; i < list->run_count; i++)
        in_runs += list->runs[i].count;
    assert_int_equal(list->elements, elements);
    assert_int_equal(in_runs, elements);
    return elements;
}

/* What was proved about the last list may be used, but only as far as it reaches. */
/* rule 5.8, 15.6 */
static void test_duplicates_in_lists_one_after_another(void **state)
{
    (void)state;
    float data[200] = {0};
    gsc__list list;
    gsc__list_init(&list);
    const int falling[3][2] = {{20, 10}, {10, 10}, {0, 10}}, twice[3][2] = {{20, 10}, {10, 10}, {20, 10}},
              other_extent[3][2] = {{20, 10}, {20, 5}, {0, 10}}, same_extent[3][2] = {{20, 5}, {20, 5}, {10, 10}},
              longer[4][2] = {{20, 10}, {10, 10}, {0, 10}, {10, 10}};
    for (int round = 0; round < 2; round++) {
        assert_int_equal(finish_with(&list, data, falling, 3), 30);
        assert_int_equal(finish_with(&list, data, falling, 3), 30);
        assert_int_equal(finish_with(&list, data, falling, 2), 20);
        assert_int_equal(finish_with(&list, data, falling, 0), 0);
        assert_int_equal(finish_with(&list, data, longer, 4), 30);
        assert_int_equal(finish_with(&list, data, falling, 3), 30);
        assert_int_equal(finish_with(&list, data, twice, 3), 20);
        assert_int_equal(finish_with(&list, data, twice, 3), 20);
        assert_ok(gsc__list_begin(&list, 3));
        add_views(&list, data, other_extent, 3);
        assert_fails(GSC_ERR_VALUE, gsc__list_finish(&list, NULL, &writes, false), "gradient 0 and gradient 1 share");
        assert_int_equal(finish_with(&list, data, same_extent, 3), 15);
        /* A list that is given up leaves parts of itself. */
        const int first[1][2] = {{10, 10}}, second[3][2] = {{10, 10}, {10, 10}, {0, 10}};
        assert_int_equal(finish_with(&list, data, (const int[3][2]){{40, 10}, {10, 10}, {0, 10}}, 3), 30);
        assert_ok(gsc__list_begin(&list, 3));
        add_views(&list, data, first, 1);
        assert_int_equal(finish_with(&list, data, second, 3), 20);
    }
    gsc__list_free(&list);
}

/* The same descriptors with other contents are other tensors. */
/* rule 15.6 */
static void test_changed_descriptors_are_noticed(void **state)
{
    (void)state;
    double data[64] = {0};
    int64_t shape[2] = {4, 2}, strides[2] = {2, 1};
    DLTensor tensor = tensor_over(data + 8, GSC_FLOAT32, 2, shape, NULL);
    gsc__list list;
    gsc__list_init(&list);
    for (int change = 0; change < 12; change++) {
        switch (change) {
        case 1: tensor.data = data; break;
        case 2: tensor.byte_offset = 8; break;
        case 3: shape[1] = 3; break;
        case 4: tensor.ndim = 1; break;
        case 5: tensor.dtype = GSC_FLOAT64; break;
        case 6: tensor.dtype = GSC_BFLOAT16; break;
        case 7: tensor.ndim = 2, shape[1] = 2, tensor.strides = strides; break;
        case 8: strides[0] = 3; break;
        case 9: strides[0] = 2, shape[1] = 1; break;
        case 10: tensor.ndim = 0; break;
        case 11: tensor.dtype = GSC_FLOAT16; break;
        default: break;
        }
        for (int again = 0; again < 2; again++) {
            assert_ok(gsc__list_begin(&list, 1));
            assert_ok(gsc__list_add(&list, &tensor, 0, &writes));
            assert_ok(gsc__list_finish(&list, NULL, &writes, true));
            const gsc__view_rules rules = {.writes = true, .allow_fp16 = true};
            const gsc__message_subject subject = {.api = "test", .what = "tensor"};
            gsc__view expected;
            assert_ok(gsc__view_check(&tensor, &rules, &subject, &expected));
            const gsc__view *view = &list.views[0];
            assert_int_equal(list.count, 1);
            assert_int_equal(list.elements, expected.count);
            assert_true(view->start == expected.start && view->count == expected.count && view->kind == expected.kind &&
                        view->dense == expected.dense);
            assert_true(!list.plain || (list.run_count == 1 && list.runs[0].data == expected.start &&
                                        list.runs[0].count == expected.count));
            assert_int_equal(list.plain, expected.dense);
        }
    }
    tensor.device.device_type = kDLCUDA;
    assert_ok(gsc__list_begin(&list, 1));
    assert_fails(GSC_ERR_DEVICE, gsc__list_add(&list, &tensor, 0, &writes), "device");
    gsc__list_free(&list);
}

/* The same with more tensors than fit without an allocation. */
/* rule 5.8 */
static void test_duplicates_in_long_lists(void **state)
{
    (void)state;
    float data[200] = {0};
    int views[40][2];
    gsc__list list;
    gsc__list_init(&list);
    for (size_t n = GSC_LIST_INLINE - 1; n <= 40; n++) {
        for (size_t i = 0; i < n; i++)
            views[i][0] = 4 * (int)((i * 7) % n), views[i][1] = 4;
        size_t different = 0; /* 7 may divide n */
        for (size_t i = 0; i < n; i++) {
            size_t before = 0;
            while (before < i && views[before][0] != views[i][0])
                before++;
            different += before == i;
        }
        assert_int_equal(finish_with(&list, data, (const int(*)[2])views, n), 4 * different);
        assert_int_equal(finish_with(&list, data, (const int(*)[2])views, n), 4 * different);
        views[n - 1][0] = views[0][0];
        assert_int_equal(finish_with(&list, data, (const int(*)[2])views, n),
                         4 * (n % 7 == 0 ? different : different - 1));
    }
    gsc__list_free(&list);
}

static void test_absent_and_empty(void **state)
{
    (void)state;
    const int64_t shape[] = {3, 0};
    DLTensor empty = tensor_over(NULL, GSC_FLOAT32, 2, shape, NULL);
    gsc__list list = {.count = 0};
    assert_ok(gsc__list_begin(&list, 2));
    assert_ok(gsc__list_add(&list, NULL, 0, &writes));
    assert_ok(gsc__list_add(&list, &empty, 1, &writes));
    assert_ok(gsc__list_finish(&list, NULL, &writes, true));
    assert_int_equal(list.count, 0);
    assert_false(gsc__sweep_unscale(&list, 0.5).found_inf);
    for (int k = 0; k < 4; k++) {
        double p = (double[]){1, 2, 3, (double)INFINITY}[k];
        gsc__norm_sums sums = {.exponent = gsc__norm_exponent(&list, 1.0, p)};
        gsc__norm_sum(&list, 1.0, p, &sums, NULL);
        assert_true(gsc__norm_from_sums(&sums) == 0);
    }
    gsc__list_free(&list);
}

static const char *name_of(void *self, size_t index) { return ((const char **)self)[index]; }

static DLTensor *refused; /* what tensor_of_each gives for the last of two */
static DLTensor *tensor_of_each(void *self, size_t index)
{
    (void)self;
    return index == 0 ? NULL : refused;
}

static void test_refusals_name_the_gradient(void **state)
{
    (void)state;
    const int64_t shape[] = {2}, zero_stride[] = {0};
    float data[2] = {1, 2};
    DLTensor overlapping = tensor_over(data, GSC_FLOAT32, 1, shape, zero_stride);
    DLTensor half = tensor_over(data, GSC_FLOAT16, 1, shape, NULL);
    const gsc__list_rules no_fp16 = {.writes = true, .api = "gsc_scaler_unscale"};
    gsc__list list = {.count = 0};
    assert_ok(gsc__list_begin(&list, 2));
    assert_fails(GSC_ERR_VALUE, gsc__list_add(&list, &overlapping, 3, &writes),
                 "gsc_scaler_unscale: gradient 3 has strides");
    const char *names[] = {"absent", "fc.weight"};
    gsc__list_source source = {.self = names, .tensor = tensor_of_each, .name = name_of};
    refused = &overlapping;
    assert_fails(GSC_ERR_VALUE, gsc__list_add_each(&list, 2, &source, &writes),
                 "gsc_scaler_unscale: gradient 1 (\"fc.weight\") has strides");
    source.name = NULL;
    assert_fails(GSC_ERR_VALUE, gsc__list_add_each(&list, 2, &source, &writes),
                 "gsc_scaler_unscale: gradient 1 has strides");
    assert_fails(GSC_ERR_VALUE, gsc__list_add(&list, &half, 4, &no_fp16), "gsc_scaler_unscale: gradient 4 is float16",
                 "float32");
    assert_ok(gsc__list_add(&list, &overlapping, 3, &reads));
    assert_ok(gsc__list_finish(&list, NULL, &reads, false));
    assert_int_equal(list.count, 1);
    gsc__list_free(&list);
}

static void test_too_many(void **state)
{
    (void)state;
    gsc__list list = {.count = 0};
    assert_ok(gsc__list_begin(&list, 5));
    size_t capacity = list.capacity;
    assert_fails(GSC_ERR_MEMORY, gsc__list_begin(&list, SIZE_MAX), "out of memory");
    assert_fails(GSC_ERR_MEMORY, gsc__list_begin(&list, SIZE_MAX / 2), "out of memory");
    assert_int_equal(list.capacity, capacity);
    assert_ok(gsc__list_begin(&list, 5));
    /* Views that read one element very often. */
    float data = 1;
    const int64_t often = INT64_MAX / 64, zero = 0;
    DLTensor tensor = tensor_over(&data, GSC_FLOAT32, 1, &often, &zero);
    assert_ok(gsc__list_add(&list, &tensor, 0, &reads));
    assert_fails(GSC_ERR_MEMORY, gsc__list_finish(&list, NULL, &reads, true), "norm");
    /* 128 of them are 2^64 elements. */
    refused = &tensor;
    const gsc__list_source source = {.tensor = tensor_of_each};
    assert_ok(gsc__list_begin(&list, 200));
    for (size_t i = 0; i < 64; i++)
        assert_ok(gsc__list_add_each(&list, 2, &source, &reads));
    for (size_t i = 0; i < 64; i++)
        assert_ok(gsc__list_add(&list, &tensor, i, &reads));
    assert_fails(GSC_ERR_VALUE, gsc__list_add(&list, &tensor, 128, &reads), "more than 2^64 elements");
    assert_fails(GSC_ERR_VALUE, gsc__list_add_each(&list, 2, &source, &reads), "more than 2^64 elements");
    assert_int_equal(list.count, 128);
    gsc__list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unscale_of_everything),
        cmocka_unit_test(test_norm_has_the_same_bits_everywhere),
        cmocka_unit_test(test_one_leaves_every_bit),
        cmocka_unit_test(test_what_a_finding_says),
        cmocka_unit_test(test_duplicates_are_processed_once),
        cmocka_unit_test(test_many_duplicates),
        cmocka_unit_test(test_duplicates_in_lists_one_after_another),
        cmocka_unit_test(test_changed_descriptors_are_noticed),
        cmocka_unit_test(test_duplicates_in_long_lists),
        cmocka_unit_test(test_absent_and_empty),
        cmocka_unit_test(test_refusals_name_the_gradient),
        cmocka_unit_test(test_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
