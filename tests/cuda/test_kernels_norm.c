/* SPDX-License-Identifier: Apache-2.0 */
/* Norms and clipping on the device: for p = 1, 2 and infinity the CPU's bits, for other p its numbers. */
#include "module_rig.h"

#include <float.h>

static const DLDataType all_dtypes[] = {GSC_FLOAT32_INIT, GSC_FLOAT64_INIT, GSC_BFLOAT16_INIT, GSC_FLOAT16_INIT};

/* The norm of the tensors as they are, measured through a disabled scaler, which clips in place. */
static double device_norm(twins *both, double p, double max_norm)
{
    gsc_scaler *scaler;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.device = (DLDevice){kDLCUDA, 0};
    options.backend = gsc_cuda_backend();
    options.enabled = false;
    assert_ok(gsc_scaler_create(&options, &scaler));
    double norm = -1;
    assert_ok(gsc_scaler_clip_grad_norm(scaler, &both->optimizer, max_norm, p, &norm));
    gsc_scaler_destroy(scaler);
    return norm;
}

/* Numbers of all magnitudes that the kind's squares bear, or beyond for float64: extreme. */
static void fill(char *memory, DLDataType dtype, size_t count, uint64_t *seed, int extreme)
{
    for (size_t i = 0; i < count; i++) {
        const double x = ((double)(next_random(seed) >> 11) * 0x1p-52 - 1) * (double)(next_random(seed) % 1000);
        if (dtype.bits == 64)
            ((double *)(void *)memory)[i] = ldexp(x, extreme);
        else if (dtype.bits == 32)
            ((float *)(void *)memory)[i] = (float)x;
        else
            ((uint16_t *)(void *)memory)[i] = (uint16_t)(next_random(seed) % 0x4000 + (next_random(seed) % 2 << 15));
    }
}

static void compare_norms(twins *both)
{
    static const double exact[] = {1, 2, (double)INFINITY}, close[] = {0.5, 1.5, 3, 10, 700};
    twins_upload(both);
    for (size_t i = 0; i < 3; i++) {
        double expected;
        assert_ok(gsc_grad_norm(both->cpu, both->count, exact[i], &expected));
        assert_exact(device_norm(both, exact[i], (double)INFINITY), expected);
    }
    for (size_t i = 0; i < 5; i++) {
        double expected;
        assert_ok(gsc_grad_norm(both->cpu, both->count, close[i], &expected));
        const double found = device_norm(both, close[i], (double)INFINITY);
        if (found != expected && !(fabs(found - expected) <= 1e-13 * expected) && !(isnan(found) && isnan(expected)))
            fail_msg("p = %g: %.17g instead of %.17g", close[i], found, expected);
    }
    twins_assert_equal(both);
}

/* One tensor of a size around every limit of an item, of each kind, from addresses that are no multiple of 16. */
static void sizes(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 15, 16, 17, 127, 128, 129, 4095, 4096, 4097, 3 * 4096 + 5};
    uint64_t seed = 1;
    for (size_t kind = 0; kind < 4; kind++)
        for (size_t s = 0; s < sizeof lengths / sizeof *lengths; s++) {
            twins both;
            twins_init(&both);
            fill(twins_add(&both, all_dtypes[kind], 0, 1, &lengths[s], NULL, all_dtypes[kind].bits / 8),
                 all_dtypes[kind], (size_t)lengths[s], &seed, 0);
            compare_norms(&both);
            twins_free(&both);
        }
}

/* The tree over items has the CPU's shape whatever their number: levels of 256, a part more, a part less. */
static void trees(void **state)
{
    (void)state;
    static const int64_t counts[] = {2, 3, 5, 6, 7, 100, 255, 256, 257, 511, 512, 513, 1000, 66000};
    uint64_t seed = 2;
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        twins both;
        twins_init(&both);
        fill(twins_add(&both, GSC_FLOAT32, 0, 1, &counts[c], NULL, 0), GSC_FLOAT32, (size_t)counts[c], &seed, 0);
        twins_cut(&both, 1);
        twins_upload(&both);
        double expected;
        assert_ok(gsc_grad_norm(both.cpu, both.count, 2, &expected));
        assert_exact(device_norm(&both, 2, (double)INFINITY), expected);
        twins_free(&both);
    }
}

/* All kinds and magnitudes of float64 in one list: tiny, ordinary and huge items. */
static void mixtures(void **state)
{
    (void)state;
    uint64_t seed = 3;
    for (int round = 0; round < 8; round++) {
        twins both;
        twins_init(&both);
        for (size_t kind = 0; kind < 4; kind++) {
            const int64_t length = 9000 + (int64_t)(next_random(&seed) % 9000);
            fill(twins_add(&both, all_dtypes[kind], 0, 1, &length, NULL, 0), all_dtypes[kind], (size_t)length, &seed,
                 0);
        }
        static const int extremes[][2] = {{-700, -900}, {600, 900},     {-1000, 900}, {-600, 0},
                                          {700, 1},     {-1060, -1070}, {-479, -491}, {480, 468}};
        for (int e = 0; e < 2; e++) {
            const int64_t length = 5000;
            fill(twins_add(&both, GSC_FLOAT64, 0, 1, &length, NULL, 0), GSC_FLOAT64, (size_t)length, &seed,
                 extremes[round][e]);
        }
        if (round == 3) /* columns with gaps */
            fill(twins_add(&both, GSC_FLOAT32, 0, 2, (int64_t[]){70, 90}, (int64_t[]){1, 75}, 0), GSC_FLOAT32,
                 89 * 75 + 70, &seed, 0);
        compare_norms(&both);
        twins_free(&both);
    }
}

static void not_finite(void **state)
{
    (void)state;
    static const float bad[] = {INFINITY, NAN};
    for (int b = 0; b < 2; b++) {
        twins both;
        twins_init(&both);
        float *x = (void *)twins_add(&both, GSC_FLOAT32, 0, 1, (int64_t[]){5000}, NULL, 0);
        double *y = (void *)twins_add(&both, GSC_FLOAT64, 0, 1, (int64_t[]){50}, NULL, 0);
        for (int i = 0; i < 5000; i++)
            x[i] = i == 4500 ? bad[b] : 1;
        for (int i = 0; i < 50; i++)
            y[i] = 1;
        compare_norms(&both);
        (void)device_norm(&both, 2, 1e-3); /* leaves the gradients alone */
        twins_assert_equal(&both);
        twins_free(&both);
    }
}

/* Powers so large that all but the greatest number's vanish, and so small that every number's is 1. */
static void extreme_powers(void **state)
{
    (void)state;
    static const double powers[] = {5000, 1e-17, 1e300};
    for (size_t p = 0; p < 3; p++)
        for (size_t length = 1; length <= 2; length++) {
            twins both;
            twins_init(&both);
            float *x = (void *)twins_add(&both, GSC_FLOAT32, 0, 1, (int64_t[]){(int64_t)length}, NULL, 0);
            x[0] = -0.3f;
            if (length == 2)
                x[1] = p == 1 ? 0 : 1e-3f;
            twins_upload(&both);
            double expected;
            assert_ok(gsc_grad_norm(both.cpu, both.count, powers[p], &expected));
            assert_exact(device_norm(&both, powers[p], (double)INFINITY), expected);
            twins_free(&both);
        }
}

/* No gradients, and gradients of zeros. */
static void nothing(void **state)
{
    (void)state;
    twins both;
    twins_init(&both);
    twins_upload(&both);
    assert_exact(device_norm(&both, 2, 1), 0);
    float *x = (void *)twins_add(&both, GSC_FLOAT32, 0, 1, (int64_t[]){10}, NULL, 0);
    memset(x, 0, 10 * sizeof *x);
    compare_norms(&both);
    twins_free(&both);
}

/* Clipped in place: the bits of the CPU's gsc_clip_grad_norm. */
static void clips(void **state)
{
    (void)state;
    static const double powers[] = {1, 2, (double)INFINITY}, most[] = {1e-3, 1, 1e4, 0, 1e300};
    uint64_t seed = 4;
    for (size_t p = 0; p < 3; p++)
        for (size_t m = 0; m < 5; m++) {
            twins both;
            twins_init(&both);
            for (size_t kind = 0; kind < 4; kind++) {
                const int64_t length = 4100;
                fill(twins_add(&both, all_dtypes[kind], 0, 1, &length, NULL, 0), all_dtypes[kind], (size_t)length,
                     &seed, 0);
            }
            twins_upload(&both);
            double expected;
            assert_ok(gsc_clip_grad_norm(both.cpu, both.count, most[m], powers[p], &expected));
            assert_exact(device_norm(&both, powers[p], most[m]), expected);
            twins_assert_equal(&both);
            twins_free(&both);
        }
}

/* A step that clips: in place after unscaling, or folded into the multiplier while the gradients stay scaled. */
static void steps_that_clip(void **state)
{
    (void)state;
    static const double powers[] = {1, 2, (double)INFINITY, 3};
    uint64_t seed = 5;
    for (size_t p = 0; p < 4; p++)
        for (int fused = 0; fused < 2; fused++) {
            twins both;
            twins_init(&both);
            const int64_t length = 10000;
            fill(twins_add(&both, GSC_FLOAT32, 0, 1, &length, NULL, 0), GSC_FLOAT32, (size_t)length, &seed, 0);
            twins_upload(&both);
            both.optimizer.step_scaled = fused ? twins_step_scaled : NULL;
            gsc_scaler *scaler = device_scaler(1024);
            const gsc_step_args args = {.clip_norm = 0.5, .clip_norm_type = powers[p]};
            gsc_step_result result;
            assert_ok(gsc_scaler_step(scaler, &both.optimizer, &args, &result));
            assert_int_equal(result.outcome, fused ? GSC_PENDING : GSC_STEPPED);
            assert_ok(gsc_scaler_result(scaler, &both.optimizer, &result));
            double expected;
            if (fused) {
                double multiplier64;
                float multiplier;
                standin_download(&multiplier, both.scaling.multiplier_dev->data, sizeof multiplier);
                standin_download(&multiplier64, both.scaling.multiplier64_dev->data, sizeof multiplier64);
                assert_exact(multiplier64, 1.0 / 1024 * (0.5 / (result.grad_norm + 1e-6)));
                assert_exact((double)multiplier, (double)(float)multiplier64);
                twins_assert_equal(&both);
                assert_ok(gsc_unscale_grads(both.cpu, both.count, 1024, NULL));
                assert_ok(gsc_grad_norm(both.cpu, both.count, powers[p], &expected));
            } else {
                assert_ok(gsc_unscale_grads(both.cpu, both.count, 1024, NULL));
                assert_ok(gsc_clip_grad_norm(both.cpu, both.count, 0.5, powers[p], &expected));
                if (p != 3)
                    twins_assert_equal(&both);
            }
            if (p == 3)
                assert_true(fabs(result.grad_norm - expected) <= 1e-14 * expected);
            else
                assert_exact(result.grad_norm, expected);
            gsc_scaler_destroy(scaler);
            twins_free(&both);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(sizes, assert_clean),
        cmocka_unit_test_teardown(trees, assert_clean),
        cmocka_unit_test_teardown(mixtures, assert_clean),
        cmocka_unit_test_teardown(not_finite, assert_clean),
        cmocka_unit_test_teardown(extreme_powers, assert_clean),
        cmocka_unit_test_teardown(nothing, assert_clean),
        cmocka_unit_test_teardown(clips, assert_clean),
        cmocka_unit_test_teardown(steps_that_clip, assert_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
