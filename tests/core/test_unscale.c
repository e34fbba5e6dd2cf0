/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 4: unscale and its numbers. What it finds: test_found_inf.c. */
#include <float.h>

#include "rig.h"

/* rule 4.1, 4.2, case 14, 74, conformance L */
static void test_exact_numbers(void **state)
{
    (void)state;
    const double two_thirds = (double)(2.0f / 3.0f); /* its reciprocal rounds to 1.5f */
    const struct {
        DLDataType dtype;
        double scale, grad, expected;
    } cases[] = {
        {GSC_FLOAT32, 65536, 65536, 1},
        {GSC_FLOAT32, 3, 5, (double)1.66666675f}, /* 5 x (1/3); a division gives 1.66666663 */
        {GSC_FLOAT32, 10, 9, (double)0.900000036f},
        {GSC_FLOAT32, 7, 3, (double)(3.0f * (float)(1.0 / 7.0))},
        {GSC_FLOAT32, 0.5, 0.25, 0.5},
        {GSC_FLOAT32, 65536, 0x1p-133, 0x1p-149},
        {GSC_FLOAT32, 65536, 0x1.8p-133, 0x1p-148}, /* a tie among subnormals goes to even */
        {GSC_FLOAT32, 65536, 0x1p-134, 0},
        {GSC_FLOAT32, (double)FLT_MAX, (double)FLT_MAX, 1 - 0x1p-24}, /* r = 2^-128, a subnormal */
        {GSC_FLOAT32, (double)FLT_MIN, (double)FLT_MIN, 1},
        {GSC_FLOAT32, (double)FLT_MIN, 0x1p-149, 0x1p-23},
        {GSC_FLOAT64, 3, 5, 5.0 * (1.0 / 3.0)}, /* float64 uses the float64 r */
        {GSC_FLOAT64, 10, 9, 9.0 * (1.0 / 10.0)},
        {GSC_FLOAT64, 1, 1e300, 1e300},
        {GSC_FLOAT64, 65536, 1e-300 * 65536, 1e-300},
        {GSC_FLOAT64, 65536, 0x1p-1058, 0x1p-1074},
        {GSC_FLOAT64, (double)FLT_MAX, (double)FLT_MAX, (double)FLT_MAX * (1.0 / (double)FLT_MAX)},
        {GSC_BFLOAT16, 2, 2, 1},
        {GSC_BFLOAT16, 65536, 65536, 1},
        {GSC_BFLOAT16, two_thirds, 129.0 / 128, 194.0 / 128}, /* 193.5: a tie goes to even */
        {GSC_BFLOAT16, two_thirds, 131.0 / 128, 196.0 / 128}, /* 196.5 */
        {GSC_BFLOAT16, 2, 0x1p-133, 0},                       /* half the least subnormal */
        {GSC_BFLOAT16, 2, 0x1.8p-132, 0x1p-132},              /* 1.5 of them */
        {GSC_BFLOAT16, 3, 5, 1.6640625},
        {GSC_FLOAT16, 1024, 1024, 1},
        {GSC_FLOAT16, two_thirds, 1025.0 / 1024, 1538.0 / 1024},
        {GSC_FLOAT16, two_thirds, 1027.0 / 1024, 1540.0 / 1024},
        {GSC_FLOAT16, 65536, 65504, 65504.0 / 65536}, /* 1/65536 is no normal float16: formed in float32 */
        {GSC_FLOAT16, 1024, 0x1p-14, 0x1p-24},
        {GSC_FLOAT16, 2048, 0x1p-14, 0},
        {GSC_FLOAT16, 2048, 0x1.8p-13, 0x1p-23},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gsc_scaler_options options = options_of(cases[i].scale, 1);
        options.allow_fp16_grads = true;
        gsc_scaler *scaler = new_scaler(&options);
        double data = 0;
        fake_optimizer optimizer;
        fake_init(&optimizer);
        DLTensor *grad = &fake_add(&optimizer, cases[i].dtype, NULL, &data, 1, "g")->grad;
        for (int sign = 1; sign >= -1; sign -= 2) {
            element_set(grad, 0, sign * cases[i].grad);
            assert_ok(gsc_scaler_unscale(scaler, &optimizer.base));
            assert_exact(element_get(grad, 0), sign * cases[i].expected);
            assert_false(gsc_scaler_found_inf(scaler, &optimizer.base));
            assert_ok(gsc_scaler_rearm(scaler, &optimizer.base));
        }
        gsc_scaler_destroy(scaler);
    }
}

/* Bit patterns that a multiplication, a NaN quieting or a flush would change. */
/* rule 4.3, case 73 */
static void test_scale_one_leaves_every_bit(void **state)
{
    (void)state;
    uint32_t f32[] = {0x7f800001u, 0xff800001u, 0x7fc12345u, 0x80000000u, 1u, 0x807fffffu, 0x7f800000u, 0x3f800001u};
    uint64_t f64[] = {0x7ff0000000000001u, 0xfff8000000000123u, 0x8000000000000000u, 1u};
    uint16_t bf16[] = {0x7f81u, 0xff81u, 0x8000u, 1u, 0x7fffu}, fp16[] = {0x7c01u, 0xfc01u, 0x8000u, 1u, 0x7fffu};
    uint32_t f32_before[8];
    uint64_t f64_before[4];
    uint16_t bf16_before[5], fp16_before[5];
    memcpy(f32_before, f32, sizeof f32);
    memcpy(f64_before, f64, sizeof f64);
    memcpy(bf16_before, bf16, sizeof bf16);
    memcpy(fp16_before, fp16, sizeof fp16);
    gsc_scaler_options options = options_of(1, 1);
    options.allow_fp16_grads = true;
    gsc_scaler *scaler = new_scaler(&options);
    fake_optimizer optimizer;
    fake_init(&optimizer);
    fake_add(&optimizer, GSC_FLOAT32, NULL, f32, 8, "f32");
    fake_add(&optimizer, GSC_FLOAT64, NULL, f64, 4, "f64");
    fake_add(&optimizer, GSC_BFLOAT16, NULL, bf16, 5, "bf16");
    fake_add(&optimizer, GSC_FLOAT16, NULL, fp16, 5, "fp16");
    assert_ok(gsc_scaler_unscale(scaler, &optimizer.base));
    assert_true(gsc_scaler_found_inf(scaler, &optimizer.base));
    assert_memory_equal(f32, f32_before, sizeof f32);
    assert_memory_equal(f64, f64_before, sizeof f64);
    assert_memory_equal(bf16, bf16_before, sizeof bf16);
    assert_memory_equal(fp16, fp16_before, sizeof fp16);
    gsc_scaler_destroy(scaler);
}

/* rule 4.4 */
static void test_every_element_is_processed(void **state)
{
    (void)state;
    enum { N = 1000 };
    static float first[N], second[N];
    rig r;
    rig_start(&r, 65536);
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, first, N, "first");
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, second, N, "second");
    for (int i = 0; i < N; i++)
        first[i] = second[i] = 65536.0f * (float)i;
    first[0] = INFINITY;
    first[500] = NAN;
    r.grad = -INFINITY;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    assert_exact((double)r.grad, -(double)INFINITY);
    assert_exact((double)first[0], (double)INFINITY);
    assert_exact((double)first[500], (double)NAN);
    for (int i = 0; i < N; i++) {
        if (i != 0 && i != 500)
            assert_exact((double)first[i], i);
        assert_exact((double)second[i], i);
    }
    rig_stop(&r);
}

/* rule 4.2, conformance C */
static void test_strided_views(void **state)
{
    (void)state;
    enum { SIDE = 20 };
    static float dense[SIDE * SIDE], sliced[SIDE * SIDE], transposed[SIDE * SIDE], reversed[SIDE];
    int64_t square[] = {SIDE, SIDE}, column_major[] = {1, SIDE}, slice[] = {SIDE, 5}, slice_strides[] = {SIDE, 1};
    int64_t line[] = {SIDE}, backwards[] = {-1};
    for (int i = 0; i < SIDE * SIDE; i++)
        dense[i] = sliced[i] = transposed[i] = 4;
    for (int i = 0; i < SIDE; i++)
        reversed[i] = 4;
    rig r;
    rig_start(&r, 4);
    r.grad = 4;
    float *const data[] = {dense, sliced, transposed, reversed};
    for (size_t i = 0; i < 4; i++) {
        DLTensor *grad = &fake_add(&r.optimizer, GSC_FLOAT32, NULL, data[i], 1, "g")->grad;
        grad->ndim = i == 3 ? 1 : 2;
        grad->shape = i == 0 || i == 2 ? square : i == 1 ? slice : line;
        grad->strides = i == 0 ? NULL : i == 1 ? slice_strides : i == 2 ? column_major : backwards;
        grad->byte_offset = i == 3 ? (SIDE - 1) * sizeof(float) : 0;
    }
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    for (int i = 0; i < SIDE * SIDE; i++) {
        assert_exact((double)dense[i], 1);
        assert_exact((double)transposed[i], 1);
        assert_exact((double)sliced[i], i % SIDE < 5 ? 1 : 4); /* gaps are not touched */
    }
    for (int i = 0; i < SIDE; i++)
        assert_exact((double)reversed[i], 1);
    assert_ok(gsc_scaler_update_to(r.scaler, 1));
    sliced[2 * SIDE + 7] = NAN; /* in a gap: not the gradient's */
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_false(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    assert_ok(gsc_scaler_update_to(r.scaler, 1));
    sliced[2 * SIDE + 4] = NAN;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_true(gsc_scaler_found_inf(r.scaler, &r.optimizer.base));
    rig_stop(&r);
}

/* rule 4.2 */
static void test_byte_offsets(void **state)
{
    (void)state;
    const DLDataType dtypes[] = {GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16, GSC_FLOAT16};
    for (size_t d = 0; d < 4; d++) {
        gsc_scaler_options options = options_of(4, 2);
        options.allow_fp16_grads = true;
        gsc_scaler *scaler = new_scaler(&options);
        double data[6] = {0};
        fake_optimizer optimizer;
        fake_init(&optimizer);
        DLTensor *grad = &fake_add(&optimizer, dtypes[d], NULL, data, 3, "g")->grad;
        DLTensor whole = *grad;
        for (size_t i = 0; i < 6; i++)
            element_set(&whole, i, 4);
        grad->byte_offset = 2 * dtypes[d].bits / 8;
        assert_ok(gsc_scaler_unscale(scaler, &optimizer.base));
        for (size_t i = 0; i < 6; i++)
            assert_exact(element_get(&whole, i), i >= 2 && i < 5 ? 1 : 4);
        gsc_scaler_destroy(scaler);
    }
}

/* rule 5.8 */
static void test_identical_views_are_processed_once(void **state)
{
    (void)state;
    float shared[3] = {65536, 131072, 0}, other = 65536;
    rig r;
    rig_start(&r, 65536);
    r.grad = 65536;
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, shared, 3, "tied.a");
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, &other, 1, "other");
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, shared, 3, "tied.b");
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, &r.grad, 1, "weight again");
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_exact((double)shared[0], 1);
    assert_exact((double)shared[1], 2);
    assert_exact((double)other, 1);
    assert_exact((double)r.grad, 1);
    rig_stop(&r);
}

/* rule 4.2, section 5.2 */
static void test_every_thread_count_gives_the_same_bits(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    static float data[N], expected[N];
    static const int32_t threads[] = {1, 2, 3, 8};
    for (size_t t = 0; t < 4; t++) {
        gsc_set_num_threads(threads[t]);
        rig r;
        rig_start(&r, 3);
        for (size_t i = 0; i < N; i++)
            data[i] = (float)(i % 9973) * 0.37f - 1000;
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, data, N, "large");
        double norm;
        assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 5, 2, &norm));
        if (t == 0)
            memcpy(expected, data, sizeof data);
        assert_memory_equal(data, expected, sizeof data);
        rig_stop(&r);
    }
    gsc_set_num_threads(0);
}

/* case 13 */
static void test_the_inverse_is_not_flushed(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(32768, 2000);
    options.allow_fp16_grads = true;
    static const double gradients[] = {1, 0.5, -1.5, 0x1p-10, 0x1p-20};
    for (size_t i = 0; i < 5; i++) {
        gsc_scaler *scaler = new_scaler(&options);
        uint16_t half = to_fp16(gradients[i] * 32768);
        fake_optimizer optimizer;
        fake_init(&optimizer);
        fake_add(&optimizer, GSC_FLOAT16, NULL, &half, 1, "half");
        assert_ok(gsc_scaler_unscale(scaler, &optimizer.base));
        assert_exact(from_fp16(half), gradients[i]);
        gsc_scaler_destroy(scaler);
    }
}

/* case 14 */
static void test_a_multiplication_by_the_reciprocal(void **state)
{
    (void)state;
    static const float scales[] = {3, 10, 5, 6, 7, 9, 11, 49, 100, 1000.5f, 0.3f};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        for (int g = 1; g < 50; g++) {
            rig r;
            rig_start(&r, (double)scales[i]);
            rig_step(&r, (float)g);
            float inverse = (float)(1.0 / (double)scales[i]);
            assert_exact((double)r.grad, (double)((float)g * inverse));
            rig_stop(&r);
        }
    }
    for (int e = -100; e <= 100; e += 7) { /* powers of two are exact */
        rig r;
        rig_start(&r, ldexp(1, e));
        rig_step(&r, ldexpf(1.2345f, e));
        assert_exact((double)r.grad, (double)1.2345f);
        rig_stop(&r);
    }
}

/* case 29 */
static void test_every_gradient_is_unscaled(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 65536);
    float grads[15][3];
    for (int i = 0; i < 15; i++) {
        for (int j = 0; j < 3; j++)
            grads[i][j] = 65536;
        fake_add(&r.optimizer, GSC_FLOAT32, NULL, grads[i], 3, "group");
    }
    r.grad = 65536;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_exact((double)r.grad, 1);
    for (int i = 0; i < 15; i++) {
        for (int j = 0; j < 3; j++)
            assert_exact((double)grads[i][j], 1);
    }
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_numbers),
        cmocka_unit_test(test_scale_one_leaves_every_bit),
        cmocka_unit_test(test_every_element_is_processed),
        cmocka_unit_test(test_strided_views),
        cmocka_unit_test(test_byte_offsets),
        cmocka_unit_test(test_identical_views_are_processed_once),
        cmocka_unit_test(test_every_thread_count_gives_the_same_bits),
        cmocka_unit_test(test_the_inverse_is_not_flushed),
        cmocka_unit_test(test_a_multiplication_by_the_reciprocal),
        cmocka_unit_test(test_every_gradient_is_unscaled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
