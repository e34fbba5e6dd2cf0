/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* feenableexcept */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "asserts.h"
#include "gradscaler/random.h"
#include "gradscaler/status.h"

#include "skipped.h"
#include "train/tensor/philox.h"

static DLTensor vector(void *data, int64_t *size, DLDataType dtype)
{
    return (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = 1, .dtype = dtype, .shape = size};
}

/* Random123's kat_vectors. */
static void philox_gives_the_published_vectors(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], block[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
         {UINT32_MAX, UINT32_MAX},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t words[4];
        memcpy(words, known[i].counter, sizeof words);
        gsc__philox4x32(words, known[i].key[0], known[i].key[1]);
        assert_memory_equal(words, known[i].block, sizeof words);
    }
}

/* The same vectors through the interface: which word of seed, stream and counter goes where. */
static void draws_are_halves_of_blocks(void **state)
{
    (void)state;
    gsc_random zero = gsc_random_init(0, 0);
    assert_true(gsc_random_bits(&zero) == UINT64_C(0xe169c58d6627e8d5));
    assert_true(gsc_random_bits(&zero) == UINT64_C(0x9b00dbd8bc57ac4c));
    gsc_random pi = gsc_random_init(UINT64_C(0x299f31d0a4093822), UINT64_C(0x85a308d3243f6a88));
    pi.counter = UINT64_C(0x0370734413198a2e) * 2;
    assert_true(gsc_random_bits(&pi) == UINT64_C(0x94fdccebd16cfe09));
    assert_true(gsc_random_bits(&pi) == UINT64_C(0x24126ea15001e420));
}

static void a_counter_resumes_and_wraps(void **state)
{
    (void)state;
    gsc_random random = gsc_random_init(7, 3);
    uint64_t drawn[9];
    for (size_t i = 0; i < 9; i++)
        drawn[i] = gsc_random_bits(&random);
    assert_int_equal(random.counter, 9);
    for (size_t i = 0; i < 9; i++) {
        gsc_random resumed = {.seed = 7, .stream = 3, .counter = i};
        assert_true(gsc_random_bits(&resumed) == drawn[i]);
    }
    gsc_random last = {.seed = 7, .stream = 3, .counter = UINT64_MAX};
    gsc_random_bits(&last);
    assert_true(last.counter == 0 && gsc_random_bits(&last) == drawn[0]);
}

static void uniform_has_53_bits_in_0_1(void **state)
{
    (void)state;
    gsc_random random = gsc_random_init(1, 0), bits = random;
    double sum = 0.0;
    for (int i = 0; i < 100000; i++) {
        double value = gsc_random_uniform(&random);
        assert_true(value >= 0.0 && value < 1.0);
        assert_true(value * 0x1p53 == (double)(gsc_random_bits(&bits) >> 11));
        sum += value;
    }
    assert_true(fabs(sum / 100000 - 0.5) < 0.005); /* 5.5 standard errors */
}

static void normal_has_moments_of_a_normal(void **state)
{
    (void)state;
    enum { N = 200000 };
    gsc_random random = gsc_random_init(2, 0);
    double moments[5] = {0};
    for (int i = 0; i < N; i++) {
        double value = gsc_random_normal(&random), power = 1.0;
        assert_true(fabs(value) < 8.6);
        for (int k = 0; k < 5; k++, power *= value)
            moments[k] += power / (double)N;
    }
    assert_int_equal(random.counter, 2 * N);
    assert_true(fabs(moments[1]) < 0.012);       /* standard errors: sqrt(1/N)  = 0.0022 */
    assert_true(fabs(moments[2] - 1.0) < 0.016); /*                  sqrt(2/N)  = 0.0032 */
    assert_true(fabs(moments[3]) < 0.045);       /*                  sqrt(15/N) = 0.0087 */
    assert_true(fabs(moments[4] - 3.0) < 0.11);  /*                  sqrt(96/N) = 0.022 */
}

static void normal_is_box_muller_of_two_draws(void **state)
{
    (void)state;
    for (uint64_t counter = 0; counter < 100; counter++) { /* odd ones straddle two blocks */
        gsc_random random = {.seed = 5, .stream = 6, .counter = counter}, draws = random;
        double radius = (double)((gsc_random_bits(&draws) >> 11) + 1) * 0x1p-53;
        double angle = 2.0 * acos(-1.0) * gsc_random_uniform(&draws);
        double expected = sqrt(-2.0 * log(radius)) * cos(angle);
        assert_true(fabs(gsc_random_normal(&random) - expected) < 1e-14);
        assert_true(random.counter == draws.counter);
    }
}

static void below_is_in_range_and_even(void **state)
{
    (void)state;
    gsc_random random = gsc_random_init(3, 0);
    assert_true(gsc_random_below(&random, 0) == 0);
    assert_int_equal(random.counter, 0);
    assert_true(gsc_random_below(&random, 1) == 0);
    int counts[7] = {0};
    for (int i = 0; i < 70000; i++) {
        uint64_t value = gsc_random_below(&random, 7);
        assert_true(value < 7);
        counts[value]++;
    }
    for (int i = 0; i < 7; i++)
        assert_in_range(counts[i], 9500, 10500); /* 5.4 standard deviations */
}

/* Of 2^64 draws a bound of 3 * 2^62 can use three quarters; taking the rest by remainder would double the first third.
 */
static void below_is_unbiased_for_large_bounds(void **state)
{
    (void)state;
    gsc_random random = gsc_random_init(4, 0);
    uint64_t third = UINT64_C(1) << 62;
    int first = 0;
    for (int i = 0; i < 30000; i++) {
        uint64_t value = gsc_random_below(&random, 3 * third);
        assert_true(value < 3 * third);
        first += value < third;
    }
    assert_in_range(first, 9550, 10450);
    assert_in_range(random.counter, 39000, 41000);
}

static void shuffle_is_a_fair_permutation(void **state)
{
    (void)state;
    int counts[27] = {0};
    gsc_random random = gsc_random_init(5, 0);
    for (int i = 0; i < 60000; i++) {
        int64_t values[3] = {0, 1, 2};
        gsc_random_shuffle(&random, values, 3);
        assert_true(values[0] + values[1] + values[2] == 3 && values[0] * values[1] * values[2] == 0);
        counts[values[0] * 9 + values[1] * 3 + values[2]]++;
    }
    int seen = 0;
    for (int i = 0; i < 27; i++)
        if (counts[i] > 0) {
            assert_in_range(counts[i], 9500, 10500);
            seen++;
        }
    assert_int_equal(seen, 6);
    gsc_random before = random;
    int64_t one = 9;
    gsc_random_shuffle(&random, &one, 1);
    gsc_random_shuffle(&random, &one, 0);
    gsc_random_shuffle(&random, NULL, 3);
    assert_true(one == 9 && random.counter == before.counter);
}

static void fills_equal_single_draws_for_every_thread_count(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 1023, 1024, 1025, 5000};
    static double filled[5001];
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int32_t threads = 1; threads <= 4; threads++)
            for (uint64_t counter = 0; counter < 2; counter++) {
                gsc_set_num_threads(threads);
                int64_t n = sizes[s];
                DLTensor out = vector(filled, &n, GSC_FLOAT64);
                filled[n] = 77.0;
                gsc_random random = {.seed = 11, .stream = 12, .counter = counter}, single = random;
                assert_ok(gsc_random_fill_uniform(&random, &out, -1.0, 3.0));
                for (int64_t i = 0; i < n; i++)
                    assert_true(filled[i] == -1.0 + gsc_random_uniform(&single) * 4.0);
                assert_true(random.counter == single.counter);
                assert_ok(gsc_random_fill_normal(&random, &out, 1.0, 0.5));
                for (int64_t i = 0; i < n; i++)
                    assert_true(filled[i] == 1.0 + 0.5 * gsc_random_normal(&single));
                assert_true(random.counter == single.counter && filled[n] == 77.0);
            }
    gsc_set_num_threads(0);
}

static void float32_fills_round_once(void **state)
{
    (void)state;
    static float filled[3000];
    int64_t n = 3000;
    DLTensor out = vector(filled, &n, GSC_FLOAT32);
    gsc_random random = gsc_random_init(13, 0), single = random;
    assert_ok(gsc_random_fill_uniform(&random, &out, -0.25, 0.5));
    for (int64_t i = 0; i < n; i++)
        assert_true(filled[i] == (float)(-0.25 + gsc_random_uniform(&single) * 0.75));
    assert_ok(gsc_random_fill_normal(&random, &out, 0.0, 0.1));
    for (int64_t i = 0; i < n; i++)
        assert_true(filled[i] == (float)(0.1 * gsc_random_normal(&single)));
}

/* Ranges of few floats, with bounds on and between floats: rounding alone would give values outside. */
static void float32_uniform_stays_in_its_range(void **state)
{
    (void)state;
    static const double ranges[][2] = {{1.0, 1.0 + 0x1p-22},     {1.0 + 0x1p-25, 1.0 + 0x1p-22 + 0x1p-25},
                                       {-1.0 - 0x1p-22, -1.0},   {0.1, 0.10000002},
                                       {16777216.0, 16777218.0}, {-0x1p-149, 0x1p-149},
                                       {-FLT_MAX, FLT_MAX}};
    static float filled[4096];
    int64_t n = 4096;
    DLTensor out = vector(filled, &n, GSC_FLOAT32);
    gsc_random random = gsc_random_init(14, 0);
    for (size_t r = 0; r < sizeof ranges / sizeof ranges[0]; r++) {
        assert_ok(gsc_random_fill_uniform(&random, &out, ranges[r][0], ranges[r][1]));
        for (int64_t i = 0; i < n; i++)
            assert_true(filled[i] >= ranges[r][0] && filled[i] < ranges[r][1]);
    }
    assert_ok(gsc_random_fill_uniform(&random, &out, 0.1, 0.1));
    assert_true(filled[0] == 0.1f && filled[4095] == 0.1f);
}

static void float64_uniform_stays_in_its_range(void **state)
{
    (void)state;
    static double filled[4096];
    int64_t n = 4096;
    DLTensor out = vector(filled, &n, GSC_FLOAT64);
    gsc_random random = gsc_random_init(15, 0);
    assert_ok(gsc_random_fill_uniform(&random, &out, 1.0, 1.0 + 0x1p-51));
    for (int64_t i = 0; i < n; i++)
        assert_true(filled[i] >= 1.0 && filled[i] < 1.0 + 0x1p-51);
}

static void fills_refuse_bad_tensors(void **state)
{
    (void)state;
    float data[8] = {0};
    int64_t shape[2] = {2, 3}, strides[2] = {4, 1};
    const DLTensor good = {
        .data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = GSC_FLOAT32, .shape = shape, .strides = strides};
    gsc_random random = gsc_random_init(0, 0);
    DLTensor out = good;
    assert_fails(GSC_ERR_VALUE, gsc_random_fill_uniform(&random, &out, 0, 1), "gsc_random_fill_uniform", "compact");
    assert_fails(GSC_ERR_VALUE, gsc_random_fill_normal(&random, &out, 0, 1), "gsc_random_fill_normal", "compact");
    strides[0] = 3;
    assert_fails(GSC_ERR_VALUE, gsc_random_fill_uniform(&random, NULL, 0, 1), "out is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_random_fill_uniform(NULL, &out, 0, 1), "random is NULL");
    out.dtype = GSC_FLOAT16;
    assert_fails(GSC_ERR_VALUE, gsc_random_fill_uniform(&random, &out, 0, 1), "float16;", "float32 or float64");
    out = good;
    out.device.device_type = kDLCUDA;
    assert_fails(GSC_ERR_VALUE, gsc_random_fill_uniform(&random, &out, 0, 1), "on CUDA device 0", "CPU");
    out = good;
    out.byte_offset = 1;
    assert_fails(GSC_ERR_VALUE, gsc_random_fill_uniform(&random, &out, 0, 1), "aligned");
    out = good;
    out.data = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_random_fill_uniform(&random, &out, 0, 1), "6 elements but no data");
    out = good;
    shape[0] = -1;
    assert_fails(GSC_ERR_VALUE, gsc_random_fill_uniform(&random, &out, 0, 1), "-1");
    for (size_t i = 0; i < 8; i++)
        assert_true(data[i] == 0.0f);
    assert_int_equal(random.counter, 0);
    shape[0] = 2;
    out.byte_offset = 4;
    assert_ok(gsc_random_fill_uniform(&random, &out, 1, 2));
    assert_true(data[0] == 0.0f && data[1] >= 1.0f && data[6] >= 1.0f && data[7] == 0.0f);
}

static void fills_refuse_bad_parameters(void **state)
{
    (void)state;
    double data[2] = {5.0, 5.0};
    int64_t n = 2;
    DLTensor f64 = vector(data, &n, GSC_FLOAT64), f32 = vector(data, &n, GSC_FLOAT32);
    gsc_random random = gsc_random_init(0, 0);
    const double bad[][2] = {{1.0, 0.5},         {NAN, 1.0}, {0.0, NAN}, {0.0, INFINITY}, {-INFINITY, INFINITY},
                             {-DBL_MAX, DBL_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_fails(GSC_ERR_VALUE, gsc_random_fill_uniform(&random, &f64, bad[i][0], bad[i][1]), "low", "high");
    assert_fails(GSC_ERR_VALUE, gsc_random_fill_uniform(&random, &f32, 0.0, 1e39), "1e+39", "float32");
    assert_fails(GSC_ERR_VALUE, gsc_random_fill_uniform(&random, &f32, 1.0 + 0x1p-30, 1.0 + 0x1p-29), "no float32");
    const double bad_normal[][2] = {{NAN, 1.0}, {0.0, NAN}, {0.0, -1.0}, {INFINITY, 1.0}, {0.0, INFINITY}};
    for (size_t i = 0; i < sizeof bad_normal / sizeof bad_normal[0]; i++)
        assert_fails(GSC_ERR_VALUE, gsc_random_fill_normal(&random, &f64, bad_normal[i][0], bad_normal[i][1]), "mean",
                     "deviation");
    assert_fails(GSC_ERR_VALUE, gsc_random_fill_normal(&random, &f32, 0.0, 1e38), "1e+38", "float32");
    assert_true(data[0] == 5.0 && data[1] == 5.0 && random.counter == 0);
}

static void null_draws_nothing(void **state)
{
    (void)state;
    int64_t value = 1;
    assert_true(gsc_random_bits(NULL) == 0 && gsc_random_below(NULL, 5) == 0);
    assert_true(gsc_random_uniform(NULL) == 0.0 && gsc_random_normal(NULL) == 0.0);
    gsc_random_shuffle(NULL, &value, 1);
    assert_message("gsc_random_shuffle: random is NULL");
}

static void a_trapping_caller_is_no_trap(void **state)
{
    (void)state;
#if defined(__GLIBC__) && defined(__x86_64__)
    float values[4];
    int64_t shape[] = {4};
    DLTensor tensor = {.data = values, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLFloat, 32, 1}, .shape = shape};
    gsc_random random = gsc_random_init(1, 0);
    fenv_t before;
    fegetenv(&before);
    feclearexcept(FE_ALL_EXCEPT);
    feenableexcept(FE_ALL_EXCEPT);
    gsc_status statuses[] = {
        gsc_random_fill_normal(&random, &tensor, 0.1, 0.3),
        gsc_random_fill_normal(&random, &tensor, 0, DBL_MAX),
        gsc_random_fill_normal(&random, &tensor, 0, (double)NAN),
        gsc_random_fill_uniform(&random, &tensor, -0.1, 0.3),
        gsc_random_fill_uniform(&random, &tensor, (double)NAN, 0.3),
    };
    fesetenv(&before);
    assert_ok(statuses[0]);
    assert_status(statuses[1], GSC_ERR_VALUE);
    assert_status(statuses[2], GSC_ERR_VALUE);
    assert_ok(statuses[3]);
    assert_status(statuses[4], GSC_ERR_VALUE);
#else
    SKIP_BECAUSE("floating-point traps are enabled with glibc on x86-64 alone");
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_vectors),
        cmocka_unit_test(draws_are_halves_of_blocks),
        cmocka_unit_test(a_counter_resumes_and_wraps),
        cmocka_unit_test(uniform_has_53_bits_in_0_1),
        cmocka_unit_test(normal_has_moments_of_a_normal),
        cmocka_unit_test(normal_is_box_muller_of_two_draws),
        cmocka_unit_test(below_is_in_range_and_even),
        cmocka_unit_test(below_is_unbiased_for_large_bounds),
        cmocka_unit_test(shuffle_is_a_fair_permutation),
        cmocka_unit_test(fills_equal_single_draws_for_every_thread_count),
        cmocka_unit_test(float32_fills_round_once),
        cmocka_unit_test(float32_uniform_stays_in_its_range),
        cmocka_unit_test(float64_uniform_stays_in_its_range),
        cmocka_unit_test(fills_refuse_bad_tensors),
        cmocka_unit_test(fills_refuse_bad_parameters),
        cmocka_unit_test(null_draws_nothing),
        cmocka_unit_test(a_trapping_caller_is_no_trap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
