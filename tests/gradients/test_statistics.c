/* SPDX-License-Identifier: Apache-2.0 */
/* gsc_grad_statistics: counts, extremes and exponents. */
#include <float.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "elements.h"
#include "gradscaler/gradients.h"
#include "layouts.h"

static const int64_t one = 1, four = 4;

static DLTensor vector(void *data, DLDataType dtype, const int64_t *count)
{
    return tensor_over(data, dtype, 1, count, NULL);
}

/* section 3.1 */
static void test_statistics(void **state)
{
    (void)state;
    const int64_t ten = 10;
    float data[10] = {0, -0.0f, 1, -1.5f, 0x1p-149f, 0x1.8p-130f, FLT_MAX, INFINITY, -NAN, 2};
    DLTensor tensor = vector(data, GSC_FLOAT32, &ten);
    gsc_grad_stats stats;
    memset(&stats, 0xff, sizeof stats);
    assert_ok(gsc_grad_statistics(&tensor, &stats));
    assert_true(stats.count == 10 && stats.zeros == 2 && stats.infs == 1 && stats.nans == 1);
    assert_true(stats.min_abs == 0x1p-149 && stats.max_abs == (double)FLT_MAX);
    assert_int_equal(stats.exponents[0 + 150], 2);
    assert_int_equal(stats.exponents[-149 + 150], 1);
    assert_int_equal(stats.exponents[-130 + 150], 1);
    assert_int_equal(stats.exponents[127 + 150], 1);
    assert_int_equal(stats.exponents[1 + 150], 1);
    uint64_t sum = 0;
    for (size_t i = 0; i < 280; i++)
        sum += stats.exponents[i];
    assert_int_equal(sum, 6);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal(stats.reserved[i], 0);
}

/* section 3.1 */
static void test_statistics_of_other_dtypes(void **state)
{
    (void)state;
    double twice[4] = {0x1p-1074, 0x1.8p129, 0x1p1000, 0x1.fffffffffffffp-151};
    DLTensor tensor = vector(twice, GSC_FLOAT64, &four);
    gsc_grad_stats stats;
    assert_ok(gsc_grad_statistics(&tensor, &stats));
    assert_int_equal(stats.exponents[0], 2);
    assert_int_equal(stats.exponents[279], 2);
    assert_true(stats.min_abs == 0x1p-1074 && stats.max_abs == 0x1p1000);
    uint16_t half = 1; /* 2^-24 */
    tensor = vector(&half, GSC_FLOAT16, &one);
    assert_ok(gsc_grad_statistics(&tensor, &stats));
    assert_int_equal(stats.exponents[-24 + 150], 1);
    tensor.dtype = GSC_BFLOAT16; /* 2^-133 */
    assert_ok(gsc_grad_statistics(&tensor, &stats));
    assert_int_equal(stats.exponents[-133 + 150], 1);
    const int64_t none = 0;
    tensor = vector(NULL, GSC_FLOAT32, &none);
    assert_ok(gsc_grad_statistics(&tensor, &stats));
    assert_true(stats.count == 0 && stats.min_abs == 0 && stats.max_abs == 0);
    assert_fails(GSC_ERR_VALUE, gsc_grad_statistics(NULL, &stats), "gsc_grad_statistics: grad is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_grad_statistics(&tensor, NULL), "gsc_grad_statistics: out is NULL");
    tensor.dtype = (DLDataType){kDLInt, 8, 1};
    assert_fails(GSC_ERR_VALUE, gsc_grad_statistics(&tensor, &stats), "gsc_grad_statistics: grad has dtype int8");
}

/* Blocks of four sorts: ordinary numbers and zeros; any bits; subnormals; nothing that is finite but zeros. */
static void fill_blocks(DLTensor *tensor, size_t count)
{
    uint64_t random = 7;
    size_t size = tensor->dtype.bits / 8;
    const uint64_t ones = size == 8 ? 0x3ff : dtype_is(tensor->dtype, GSC_FLOAT16) ? 0x0f : 0x7f;
    const int mantissa = size == 8 ? 52 : size == 4 ? 23 : dtype_is(tensor->dtype, GSC_FLOAT16) ? 10 : 7;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = next_random(&random), fraction = bits & ((UINT64_C(1) << mantissa) - 1);
        uint64_t infinity = (2 * ones + 1) << mantissa;
        switch (i / 4096 % 4) {
        case 0: bits = i % 5 == 0 ? 0 : ((ones + bits % 4) << mantissa) | (fraction >> 1); break;
        case 1: break;
        case 2: bits = i % 3 == 0 ? 0 : fraction; break;
        default: bits = i % 7 == 0 ? 0 : i % 7 == 1 ? infinity | 1 : infinity; break;
        }
        memcpy((char *)tensor->data + i * size, &bits, size);
    }
}

static void expected_statistics(const DLTensor *tensor, size_t count, gsc_grad_stats *stats)
{
    *stats = (gsc_grad_stats){.count = count};
    for (size_t i = 0; i < count; i++) {
        double magnitude = fabs(element_get(tensor, i));
        int exponent = 0;
        stats->zeros += magnitude == 0;
        stats->infs += isinf(magnitude) != 0;
        stats->nans += isnan(magnitude) != 0;
        if (magnitude == 0 || !isfinite(magnitude))
            continue;
        frexp(magnitude, &exponent);
        exponent = exponent - 1 < -150 ? -150 : exponent - 1 > 129 ? 129 : exponent - 1;
        stats->exponents[exponent + 150]++;
        if (stats->min_abs == 0 || magnitude < stats->min_abs)
            stats->min_abs = magnitude;
        if (magnitude > stats->max_abs)
            stats->max_abs = magnitude;
    }
}

/* section 3.1 */
static void test_statistics_of_every_length(void **state)
{
    (void)state;
    enum { MOST = 3 * 32768 + 5 };
    const size_t lengths[] = {1, 3, 4, 5, 4095, 4096, 4097, 8192, 12288, 16384, 16389, 65537, MOST};
    const size_t starts[] = {0, 1, 8192, 12288};
    const DLDataType dtypes[] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16, GSC_FLOAT16};
    char *memory = malloc((MOST + 12288) * sizeof(double));
    assert_non_null(memory);
    for (size_t d = 0; d < 4; d++)
        for (size_t s = 0; s < sizeof starts / sizeof *starts; s++) {
            DLTensor tensor = vector(memory, dtypes[d], &one);
            fill_blocks(&tensor, MOST + 12288);
            tensor.byte_offset = starts[s] * dtypes[d].bits / 8;
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
                int64_t count = (int64_t)lengths[l], backwards = -1;
                gsc_grad_stats found, expected;
                expected_statistics(&tensor, lengths[l], &expected);
                gsc_set_num_threads((int32_t)(l % 4 == 3 ? 8 : l % 4 + 1));
                DLTensor view = tensor;
                view.shape = &count;
                assert_ok(gsc_grad_statistics(&view, &found));
                assert_memory_equal(&found, &expected, sizeof found);
                view.byte_offset += (lengths[l] - 1) * dtypes[d].bits / 8;
                view.strides = &backwards;
                assert_ok(gsc_grad_statistics(&view, &found));
                assert_memory_equal(&found, &expected, sizeof found);
            }
        }
    gsc_set_num_threads(0);
    free(memory);
}

/* Each alone, so that nothing else in its block says how to look at it. */
/* section 3.1 */
static void test_statistics_at_the_borders(void **state)
{
    (void)state;
    const struct {
        DLDataType dtype;
        uint64_t bits[8];
    } cases[] = {
        {{kDLFloat, 32, 1}, {1, 0x007fffff, 0x00800000, 0x7f7fffff, 0x7f800000, 0x7f800001, 0x80000000, 0x80000001}},
        {{kDLFloat, 64, 1},
         {1, 0x368fffffffffffff, 0x3690000000000000, 0x480fffffffffffff, 0x4810000000000000, 0x4820000000000000,
          0x7fefffffffffffff, 0x8000000000000000}},
        {{kDLBfloat, 16, 1}, {1, 0x7f, 0x80, 0x7f7f, 0x7f80, 0x7f81, 0x8000, 0x8001}},
        {{kDLFloat, 16, 1}, {1, 0x3ff, 0x400, 0x7bff, 0x7c00, 0x7c01, 0x8000, 0x8001}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t i = 0; i < 8; i++) {
            uint64_t bits = cases[c].bits[i];
            DLTensor tensor = vector(&bits, cases[c].dtype, &one);
            gsc_grad_stats found, expected;
            expected_statistics(&tensor, 1, &expected);
            assert_ok(gsc_grad_statistics(&tensor, &found));
            assert_memory_equal(&found, &expected, sizeof found);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_statistics_of_other_dtypes),
        cmocka_unit_test(test_statistics_of_every_length),
        cmocka_unit_test(test_statistics_at_the_borders),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
