/* SPDX-License-Identifier: Apache-2.0 */
/* out = in * scale on the device, bits beside the CPU's: every pair of dtypes, all layouts, many pairs. */
#include "module_rig.h"

#include <float.h>

static const DLDataType all_dtypes[] = {GSC_FLOAT32_INIT, GSC_FLOAT64_INIT, GSC_BFLOAT16_INIT, GSC_FLOAT16_INIT};

/* Scales tensor 2i into tensor 2i + 1 (or, where they are one, into itself), on both. */
static void compare_scale(twins *both, double scale, bool in_place)
{
    gsc_scaler *cpu = cpu_scaler(scale), *gpu = device_scaler(scale);
    const size_t pairs = in_place ? both->count : both->count / 2;
    DLTensor **tensors[4];
    for (int i = 0; i < 4; i++) {
        tensors[i] = malloc((pairs + 1) * sizeof **tensors);
        assert_non_null(tensors[i]);
    }
    twins_upload(both);
    for (size_t i = 0; i < pairs; i++) {
        const size_t in = in_place ? i : 2 * i, out = in_place ? i : 2 * i + 1;
        tensors[0][i] = both->cpu[in];
        tensors[1][i] = both->cpu[out];
        tensors[2][i] = both->gpu[in];
        tensors[3][i] = both->gpu[out];
    }
    assert_ok(gsc_scaler_scale_list(cpu, tensors[0], tensors[1], pairs));
    standin_reset_counts();
    assert_ok(gsc_scaler_scale_list(gpu, tensors[2], tensors[3], pairs));
    assert_int_equal(standin_synchronisations() + standin_allocations(), 0);
    gsc_scaler_destroy(gpu); /* waits */
    twins_assert_equal(both);
    gsc_scaler_destroy(cpu);
    for (int i = 0; i < 4; i++)
        free(tensors[i]);
}

/* in and out may be wider: any kind into float32 or float64, else into its own. */
static bool is_pair(size_t in, size_t out) { return in == out || out == 1 || (out == 0 && in != 1); }

/* All 16-bit patterns, and for the other kinds random ones, which have NaNs and infinities among them. */
static void random_bits(char *memory, size_t bytes, uint64_t *seed)
{
    for (size_t i = 0; i < bytes; i += 2) {
        const uint16_t bits = (uint16_t)(next_random(seed) >> 20);
        memcpy(memory + i, &bits, sizeof bits);
    }
}

static void dtypes(void **state)
{
    (void)state;
    static const double scales[] = {1, 65536, 0.7, (double)FLT_MIN, (double)FLT_MAX};
    uint64_t seed = 1;
    for (size_t in = 0; in < 4; in++)
        for (size_t out = 0; out < 4; out++)
            for (size_t s = 0; s < 5 && is_pair(in, out); s++) {
                twins both;
                twins_init(&both);
                const int64_t length = all_dtypes[in].bits == 16 ? 65536 : 5003;
                char *memory = twins_add(&both, all_dtypes[in], 0, 1, &length, NULL, 16 - all_dtypes[in].bits / 8);
                twins_add(&both, all_dtypes[out], 0, 1, &length, NULL, s % 2 == 0 ? 0 : all_dtypes[out].bits / 8);
                random_bits(memory, (size_t)length * all_dtypes[in].bits / 8, &seed);
                for (int64_t i = 0; i < length && all_dtypes[in].bits == 16; i++)
                    ((uint16_t *)(void *)memory)[i] = (uint16_t)i;
                compare_scale(&both, scales[s], false);
                twins_free(&both);
            }
}

static void in_place(void **state)
{
    (void)state;
    uint64_t seed = 2;
    twins both;
    twins_init(&both);
    for (size_t kind = 0; kind < 4; kind++) {
        const int64_t length = 4111;
        char *memory = twins_add(&both, all_dtypes[kind], 0, 1, &length, NULL, all_dtypes[kind].bits / 8);
        random_bits(memory, (size_t)length * all_dtypes[kind].bits / 8, &seed);
    }
    compare_scale(&both, 3, true);
    twins_free(&both);
}

/* Transposed, reversed, repeated and with gaps. */
static void layouts(void **state)
{
    (void)state;
    static const int64_t shape[] = {5, 7, 3};
    static const int64_t strides[][3] = {{21, 3, 1}, {1, 5, 35}, {21, -3, 1}, {0, 3, 1}, {50, 7, 2}, {-1, -5, -35}};
    uint64_t seed = 3;
    for (size_t in = 0; in < 6; in++)
        for (size_t out = 0; out < 6; out++) {
            if (out == 3)
                continue; /* elements would be written more than once */
            twins both;
            twins_init(&both);
            const size_t kind = (in + out) % 4, wide = kind == 1 ? 1 : (in + out) % 2;
            char *memory = twins_add(&both, all_dtypes[kind], 0, 3, shape, strides[in], 0);
            random_bits(memory, both.list[0].bytes - 16, &seed);
            twins_add(&both, all_dtypes[wide], 0, 3, shape, strides[out], 0);
            assert_true(is_pair(kind, wide));
            compare_scale(&both, 512, false);
            twins_free(&both);
        }
}

/* More pairs than a kernel's argument holds. */
static void many_pairs(void **state)
{
    (void)state;
    uint64_t seed = 4;
    twins both;
    twins_init(&both);
    const int64_t length = 900;
    random_bits(twins_add(&both, GSC_FLOAT16, 0, 1, &length, NULL, 0), 1800, &seed);
    twins_cut(&both, 3);
    compare_scale(&both, 2, false);
    twins_free(&both);
}

/* A disabled scaler copies. */
static void disabled(void **state)
{
    (void)state;
    gsc_scaler *scaler;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.device = (DLDevice){kDLCUDA, 0};
    options.backend = gsc_cuda_backend();
    options.enabled = false;
    twins both;
    twins_init(&both);
    uint64_t seed = 5;
    const int64_t length = 100;
    random_bits(twins_add(&both, GSC_FLOAT32, 0, 1, &length, NULL, 0), 400, &seed);
    twins_add(&both, GSC_FLOAT32, 0, 1, &length, NULL, 0);
    twins_upload(&both);
    assert_ok(gsc_scaler_create(&options, &scaler));
    assert_ok(gsc_scaler_scale(scaler, both.gpu[0], both.gpu[1]));
    gsc_scaler_destroy(scaler);
    memcpy(both.list[1].host, both.list[0].host, 400);
    twins_assert_equal(&both);
    twins_free(&both);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(dtypes, assert_clean),   cmocka_unit_test_teardown(in_place, assert_clean),
        cmocka_unit_test_teardown(layouts, assert_clean),  cmocka_unit_test_teardown(many_pairs, assert_clean),
        cmocka_unit_test_teardown(disabled, assert_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
