/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 5: gradients that are refused, before any element is touched, and those that are passed over. */
#include "rig.h"

/* Gradients before and after a refused one, so that "before any element is touched" shows. */
typedef struct refusal {
    rig r;
    float first[2], last;
    double bad[8];
    DLTensor *grad;
} refusal;

static void refusal_start(refusal *t, DLDataType dtype, int64_t count)
{
    rig_start(&t->r, 2);
    t->r.grad = 4;
    t->first[0] = t->first[1] = t->last = 8;
    for (int i = 0; i < 8; i++)
        t->bad[i] = 1;
    fake_add(&t->r.optimizer, GSC_FLOAT32, NULL, t->first, 2, "first");
    t->grad = &fake_add(&t->r.optimizer, dtype, NULL, t->bad, count, "fc.bias")->grad;
    fake_add(&t->r.optimizer, GSC_FLOAT32, NULL, &t->last, 1, "last");
}

static void assert_untouched(const refusal *t)
{
    assert_exact((double)t->r.grad, 4);
    assert_exact((double)t->first[1], 8);
    assert_exact((double)t->last, 8);
    for (int i = 0; i < 8; i++)
        assert_exact(t->bad[i], 1);
    assert_int_equal(t->r.optimizer.steps + t->r.optimizer.scaled_steps, 0);
}

/* unscale, step (plain and fused) and clip refuse with the same message. Without that gradient the iteration can start.
 */
static void assert_refused(refusal *t, gsc_status status, const char *word)
{
    gsc_scaler *scaler = t->r.scaler;
    const gsc_optimizer *optimizer = &t->r.optimizer.base;
    gsc_step_args clip = {.clip_norm = 1};
    for (int scaled = 0; scaled < 2; scaled++) {
        t->r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
        assert_fails(status, gsc_scaler_unscale(scaler, optimizer));
        assert_message(word);
        assert_fails(status, gsc_scaler_step(scaler, optimizer, NULL, NULL));
        assert_message(word);
        assert_fails(status, gsc_scaler_step(scaler, optimizer, &clip, NULL));
        assert_fails(status, gsc_scaler_clip_grad_norm(scaler, optimizer, 1, 2, NULL));
        assert_untouched(t);
        assert_int_equal(gsc_scaler_get_stage(scaler, optimizer), GSC_STAGE_READY);
        assert_false(gsc_scaler_found_inf(scaler, optimizer));
        assert_fails(GSC_ERR_STATE, gsc_scaler_update(scaler)); /* nothing was recorded */
    }
    t->r.optimizer.base.step_scaled = NULL;
    t->r.optimizer.params[2].absent = true;
    assert_ok(gsc_scaler_step(scaler, optimizer, NULL, NULL));
    assert_exact((double)t->last, 4);
    assert_exact((double)t->r.grad, 2);
    rig_stop(&t->r);
}

/* rule 5.1, 5.2, case 71, conformance L */
static void test_float16_names_the_parameter(void **state)
{
    (void)state;
    refusal t;
    refusal_start(&t, GSC_FLOAT16, 8);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(t.r.scaler, &t.r.optimizer.base));
    assert_message("fc.bias");
    assert_message("2");
    assert_message("float16");
    assert_message("float32"); /* keep float32 parameters */
    assert_refused(&t, GSC_ERR_VALUE, "fc.bias");
}

/* rule 5.2, case 71 */
static void test_float16_where_allowed(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(1024, 1);
    options.allow_fp16_grads = true;
    gsc_scaler *scaler = new_scaler(&options);
    uint16_t grad = to_fp16(1024);
    fake_optimizer optimizer;
    fake_init(&optimizer);
    fake_add(&optimizer, GSC_FLOAT16, NULL, &grad, 1, "half");
    assert_ok(gsc_scaler_unscale(scaler, &optimizer.base));
    assert_exact(from_fp16(grad), 1);
    gsc_scaler_destroy(scaler);
}

/* rule 5.3, case 75 */
static void test_complex_is_unsupported(void **state)
{
    (void)state;
    static const uint8_t bits[] = {32, 64, 128};
    for (size_t i = 0; i < 3; i++) {
        refusal t;
        refusal_start(&t, (DLDataType){kDLComplex, bits[i], 1}, 2);
        char words[64];
        snprintf(words, sizeof words, "(\"fc.bias\") is complex%d;", bits[i]);
        assert_refused(&t, GSC_ERR_UNSUPPORTED, words);
    }
}

/* rule 5.1, 5.4, trial T15 */
static void test_other_dtypes_and_lanes(void **state)
{
    (void)state;
    const struct {
        DLDataType dtype;
        const char *name;
    } cases[] = {
        {{kDLInt, 8, 1}, "dtype int8;"},
        {{kDLInt, 32, 1}, "dtype int32;"},
        {{kDLInt, 64, 1}, "dtype int64;"},
        {{kDLUInt, 1, 1}, "dtype uint1;"},
        {{kDLUInt, 8, 1}, "dtype uint8;"},
        {{kDLUInt, 16, 1}, "dtype uint16;"},
        {{6, 8, 1}, "dtype bool;"},
        {{kDLFloat, 8, 1}, "dtype float8;"},
        {{7, 8, 1}, "dtype float8_e3m4;"},
        {{10, 8, 1}, "dtype float8_e4m3fn;"},
        {{12, 8, 1}, "dtype float8_e5m2;"},
        {{17, 4, 1}, "dtype float4_e2m1fn;"},
        {{kDLFloat, 128, 1}, "dtype float128;"},
        {{kDLOpaqueHandle, 64, 1}, "dtype opaque64;"},
        {{kDLBfloat, 32, 1}, "dtype bfloat32;"},
        {{kDLFloat, 0, 1}, "dtype float0;"},
        {{kDLFloat, 32, 2}, "dtype float32, 2 lanes;"},
        {{kDLFloat, 32, 0}, "dtype float32, 0 lanes;"},
        {{kDLBfloat, 16, 4}, "dtype bfloat16, 4 lanes;"},
        {{kDLFloat, 64, 65535}, "dtype float64, 65535 lanes;"},
        {{18, 32, 1}, "dtype with code 18 and 32 bits;"},
        {{255, 255, 1}, "dtype with code 255 and 255 bits;"},
        {{kDLFloat, 33, 1}, "dtype float33;"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refusal t;
        refusal_start(&t, cases[i].dtype, 2);
        char words[64];
        snprintf(words, sizeof words, "(\"fc.bias\") has %s", cases[i].name);
        assert_refused(&t, GSC_ERR_VALUE, words);
    }
}

/* rule 5.5 */
static void test_self_overlapping_strides(void **state)
{
    (void)state;
    static int64_t shapes[][2] = {{2, 2}, {2, 2}, {2, 2}, {3, 2}, {2, 3}, {4, 1}, {2, 2}};
    static int64_t strides[][2] = {{0, 1}, {1, 0}, {1, 1}, {1, 2}, {2, 1}, {0, 9}, {1, -1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        refusal t;
        refusal_start(&t, GSC_FLOAT32, 2);
        t.grad->ndim = 2;
        t.grad->shape = shapes[i];
        t.grad->strides = strides[i];
        t.grad->byte_offset = i == 6 ? 4 : 0;
        assert_refused(&t, GSC_ERR_VALUE, "fc.bias");
    }
}

/* trial T2, rule 5.10 */
static void test_gradients_that_share_elements(void **state)
{
    (void)state;
    refusal t;
    refusal_start(&t, GSC_FLOAT32, 1);
    t.grad->data = &t.first[1];
    assert_refused(&t, GSC_ERR_VALUE, "gradient 1 (\"first\") and gradient 2 (\"fc.bias\") share memory");
}

/* rule 5.5 */
static void test_odd_strides_that_reach_nothing_twice(void **state)
{
    (void)state;
    float data[12];
    int64_t one_row[] = {1, 3}, zero_first[] = {0, 1}, two_rows[] = {2, 3}, interleaved[] = {1, 2}, outer[] = {3, 2},
            inner[] = {2, 1};
    int64_t *const shapes[] = {one_row, two_rows, outer};
    int64_t *const strides[] = {zero_first, interleaved, inner};
    for (size_t i = 0; i < 3; i++) {
        rig r;
        rig_start(&r, 2);
        for (int j = 0; j < 12; j++)
            data[j] = 2;
        DLTensor *grad = &fake_add(&r.optimizer, GSC_FLOAT32, NULL, data, 1, "g")->grad;
        grad->ndim = 2;
        grad->shape = shapes[i];
        grad->strides = strides[i];
        assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
        for (int j = 0; j < 12; j++)
            assert_exact((double)data[j], j < (i == 0 ? 3 : 6) ? 1 : 2);
        rig_stop(&r);
    }
}

/* rule 5.6, 17.1, case 80, trial T15 */
static void test_device_not_served(void **state)
{
    (void)state;
    static const struct {
        int type, id;
        const char *words;
    } devices[] = {
        {kDLCUDA, 0, "CUDA device 0;"},
        {kDLCUDA, 7, "CUDA device 7;"},
        {kDLCUDAHost, 0, "CUDA host device 0;"},
        {kDLOpenCL, 0, "OpenCL device 0;"},
        {kDLVulkan, 1, "Vulkan device 1;"},
        {kDLMetal, 0, "Metal device 0;"},
        {kDLVPI, 0, "VPI device 0;"},
        {kDLROCM, 2, "ROCm device 2;"},
        {11, 0, "ROCm host device 0;"},
        {kDLExtDev, 0, "extension device 0;"},
        {13, 0, "CUDA managed device 0;"},
        {14, 0, "oneAPI device 0;"},
        {15, 0, "WebGPU device 0;"},
        {16, 0, "Hexagon device 0;"},
        {17, 0, "MAIA device 0;"},
        {18, 3, "Trainium device 3;"},
        {0, 0, "device 0 of the unknown type 0;"},
        {5, 1, "device 1 of the unknown type 5;"},
        {19, 0, "device 0 of the unknown type 19;"},
        {-1, -2, "device -2 of the unknown type -1;"},
        {INT32_MAX, INT32_MIN, "device -2147483648 of the unknown type 2147483647;"},
    };
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        refusal t;
        char words[96];
        refusal_start(&t, GSC_FLOAT32, 2);
        memcpy(&t.grad->device.device_type, &devices[i].type, sizeof t.grad->device.device_type);
        t.grad->device.device_id = devices[i].id;
        snprintf(words, sizeof words, "(\"fc.bias\") is on %s", devices[i].words);
        assert_refused(&t, GSC_ERR_DEVICE, words);
    }
}

/* rule 5.4 */
static void test_malformed_tensors(void **state)
{
    (void)state;
    static int64_t negative[] = {-1}, huge[] = {INT64_MAX, INT64_MAX}, mixed[] = {INT64_MAX, 4},
                   wrapping[] = {548126533074, 33654171}; /* 2^64 + 38 */
    for (int i = 0; i < 8; i++) {
        refusal t;
        refusal_start(&t, GSC_FLOAT32, 2);
        switch (i) {
        case 0: t.grad->data = NULL; break; /* with elements */
        case 1: t.grad->shape = negative; break;
        case 2: t.grad->shape = NULL; break;
        case 3: t.grad->ndim = -1; break;
        case 4:
            t.grad->ndim = 2;
            t.grad->shape = huge;
            break;
        case 5:
            t.grad->data = (void *)(UINTPTR_MAX - 4095); /* ends behind the end of memory */
            t.grad->byte_offset = 8192;
            break;
        default: t.grad->ndim = 2; t.grad->shape = i == 6 ? wrapping : mixed;
        }
        assert_refused(&t, GSC_ERR_VALUE, "fc.bias");
    }
    refusal t;
    refusal_start(&t, GSC_FLOAT32, 1);
    t.grad->byte_offset = 2; /* no address of a float */
    assert_refused(&t, GSC_ERR_VALUE, "fc.bias");
}

/* rule 5.2 */
static void test_an_unnamed_gradient_is_named_by_its_index(void **state)
{
    (void)state;
    refusal t;
    refusal_start(&t, GSC_FLOAT16, 2);
    t.r.optimizer.params[2].name = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(t.r.scaler, &t.r.optimizer.base));
    assert_message("2");
    t.r.optimizer.base.name = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_unscale(t.r.scaler, &t.r.optimizer.base));
    assert_message("2");
    rig_stop(&t.r);
}

/* rule 5.7, case 37 */
static void test_absent_and_empty_are_passed_over(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 65536);
    r.grad = 65536;
    int64_t no_rows[] = {3, 0};
    float unused[4] = {5, 5, 5, 5};
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, NULL, 1, "absent")->absent = true;
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, NULL, 0, "empty");
    DLTensor *flat = &fake_add(&r.optimizer, GSC_BFLOAT16, NULL, NULL, 0, "no rows")->grad;
    flat->ndim = 2;
    flat->shape = no_rows;
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, unused, 0, "empty with data");
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_exact((double)r.grad, 1);
    assert_exact((double)unused[0], 5);
    double norm;
    assert_ok(gsc_scaler_clip_grad_norm(r.scaler, &r.optimizer.base, 10, 2, &norm));
    assert_exact(norm, 1);
    assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, NULL));
    assert_ok(gsc_scaler_update(r.scaler));
    assert_int_equal(state_of(r.scaler).growth_tracker, 1);
    rig_stop(&r);
}

/* rule 5.7 */
static void test_empty_gradients_do_not_count_as_checked(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(4, 1);
    rig r;
    rig_start_with(&r, &options);
    r.optimizer.params[0].shape[0] = 0;
    r.optimizer.params[0].grad.data = NULL;
    for (int scaled = 0; scaled < 2; scaled++) {
        r.optimizer.base.step_scaled = scaled != 0 ? fake_step_scaled : NULL;
        gsc_step_result result;
        assert_ok(gsc_scaler_step(r.scaler, &r.optimizer.base, NULL, &result));
        assert_int_equal(result.outcome, GSC_NO_GRADS);
        assert_ok(gsc_scaler_update(r.scaler));
        assert_exact(gsc_scaler_get_scale(r.scaler), 4); /* interval 1: a checked iteration would have grown it */
        assert_int_equal(state_of(r.scaler).growth_tracker, 0);
    }
    rig_stop(&r);
}

/* A sparse gradient is handed over as its values. */
/* rule 5.9, case 76, conformance K */
static void test_values_of_a_sparse_gradient(void **state)
{
    (void)state;
    float values[3] = {16, 32, 64};
    rig r;
    rig_start(&r, 4);
    fake_add(&r.optimizer, GSC_FLOAT32, NULL, values, 3, "embedding.values");
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_exact((double)values[0], 4);
    assert_exact((double)values[1], 8);
    assert_exact((double)values[2], 16);
    rig_stop(&r);
}

/* The second gradient cannot be had. */
static DLTensor *failing_grad(void *self, size_t index)
{
    fake_optimizer *fake = self;
    if (index != 1)
        return fake_grad(self, index);
    if (fake->count == 2)
        gsc_fail_message(GSC_ERR_IO, "100% of the shard is gone: %s");
    return GSC_GRAD_FAILED;
}

/* trial T11 */
static void test_gradient_that_cannot_be_had(void **state)
{
    (void)state;
    float p[3] = {0}, g[3] = {8, 8, 8};
    fake_optimizer fake;
    fake_init(&fake);
    fake_add(&fake, GSC_FLOAT32, p, g, 1, "first");
    fake_add(&fake, GSC_FLOAT32, p + 1, g + 1, 1, "second");
    gsc_scaler_options options = options_of(8, 1);
    gsc_scaler *scaler = new_scaler(&options);
    fake.base.grad = failing_grad;
    assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_unscale(scaler, &fake.base), "gsc_scaler_unscale",
                 "gradient 1 (\"second\")", "100% of the shard is gone: %s");
    assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_step(scaler, &fake.base, NULL, NULL), "gsc_scaler_step", "is gone");
    assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_clip_grad_norm(scaler, &fake.base, 1, 2, NULL), "is gone");
    fake_add(&fake, GSC_FLOAT32, p + 2, g + 2, 1, "third");
    assert_fails(GSC_ERR_OPTIMIZER, gsc_scaler_unscale(scaler, &fake.base), "\"second\"", "no message");
    assert_int_equal(gsc_scaler_get_stage(scaler, &fake.base), GSC_STAGE_READY);
    for (int i = 0; i < 3; i++)
        assert_exact((double)g[i], 8);
    fake.base.grad = fake_grad; /* and it goes on */
    gsc_step_result result;
    assert_ok(gsc_scaler_step(scaler, &fake.base, NULL, &result));
    assert_int_equal(result.outcome, GSC_STEPPED);
    for (int i = 0; i < 3; i++)
        assert_exact((double)g[i], 1);
    assert_ok(gsc_scaler_update(scaler));
    gsc_scaler_destroy(scaler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float16_names_the_parameter),
        cmocka_unit_test(test_float16_where_allowed),
        cmocka_unit_test(test_complex_is_unsupported),
        cmocka_unit_test(test_other_dtypes_and_lanes),
        cmocka_unit_test(test_self_overlapping_strides),
        cmocka_unit_test(test_gradients_that_share_elements),
        cmocka_unit_test(test_odd_strides_that_reach_nothing_twice),
        cmocka_unit_test(test_device_not_served),
        cmocka_unit_test(test_malformed_tensors),
        cmocka_unit_test(test_an_unnamed_gradient_is_named_by_its_index),
        cmocka_unit_test(test_absent_and_empty_are_passed_over),
        cmocka_unit_test(test_empty_gradients_do_not_count_as_checked),
        cmocka_unit_test(test_values_of_a_sparse_gradient),
        cmocka_unit_test(test_gradient_that_cannot_be_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
