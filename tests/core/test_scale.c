/* SPDX-License-Identifier: Apache-2.0 */
/* Rule 3: scale, scale_list and scale_view. */
#include <stdlib.h>

#include "layouts.h"
#include "rig.h"

/* rule 3.1, 3.2, conformance B */
static void test_each_pair_of_dtypes(void **state)
{
    (void)state;
    const struct {
        DLDataType in, out;
        double value, scale, expected;
    } cases[] = {
        {GSC_FLOAT32, GSC_FLOAT32, 4, 3, 12},
        {GSC_FLOAT32, GSC_FLOAT32, 1, 65536, 65536},
        {GSC_FLOAT32, GSC_FLOAT32, 3e38, 2, (double)INFINITY},
        {GSC_FLOAT32, GSC_FLOAT64, 3e38, 2, (double)3e38f * 2}, /* float64 because out is */
        {GSC_FLOAT32, GSC_FLOAT64, 0.1, 3, (double)0.1f * 3},
        {GSC_FLOAT64, GSC_FLOAT64, 0.1, 3, 0.1 * 3},
        {GSC_FLOAT64, GSC_FLOAT64, 1e300, 65536, 1e300 * 65536},
        {GSC_FLOAT64, GSC_FLOAT64, 1e-320, 2, 2e-320},
        {GSC_FLOAT16, GSC_FLOAT16, 1, 65536, (double)INFINITY}, /* 65536 is no float16 */
        {GSC_FLOAT16, GSC_FLOAT16, 1, 32768, 32768},
        {GSC_FLOAT16, GSC_FLOAT32, 1, 65536, 65536},
        {GSC_FLOAT16, GSC_FLOAT64, 1, 65536, 65536},
        {GSC_FLOAT16, GSC_FLOAT32, 0x1p-24, 65536, 0x1p-8},
        {GSC_FLOAT16, GSC_FLOAT16, 1025.0 / 1024, 1.5, 1538.0 / 1024}, /* a tie goes to even */
        {GSC_FLOAT16, GSC_FLOAT16, 1027.0 / 1024, 1.5, 1540.0 / 1024},
        {GSC_BFLOAT16, GSC_BFLOAT16, 1, 65536, 65536},
        {GSC_BFLOAT16, GSC_BFLOAT16, 129.0 / 128, 1.5, 194.0 / 128},
        {GSC_BFLOAT16, GSC_BFLOAT16, 131.0 / 128, 1.5, 196.0 / 128},
        {GSC_BFLOAT16, GSC_FLOAT32, 129.0 / 128, 1.5, 193.5 / 128},
        {GSC_BFLOAT16, GSC_FLOAT64, 3, 65536, 196608},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gsc_scaler_options options = options_of(cases[i].scale, 1);
        gsc_scaler *scaler = new_scaler(&options);
        double in_data = 0, out_data = 0;
        DLTensor in = tensor_of(cases[i].in, &in_data, NULL), out = tensor_of(cases[i].out, &out_data, NULL);
        element_set(&in, 0, cases[i].value);
        assert_ok(gsc_scaler_scale(scaler, &in, &out));
        assert_exact(element_get(&out, 0), cases[i].expected);
        if (dtype_is(cases[i].in, cases[i].out)) { /* in place */
            assert_ok(gsc_scaler_scale(scaler, &in, &in));
            assert_exact(element_get(&in, 0), cases[i].expected);
        }
        gsc_scaler_destroy(scaler);
    }
}

/* rule 3.1 */
static void test_float32_product_is_rounded_once(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(3, 1);
    gsc_scaler *scaler = new_scaler(&options);
    float value = 0.1f;
    DLTensor tensor = tensor_of(GSC_FLOAT32, &value, NULL);
    assert_ok(gsc_scaler_scale(scaler, &tensor, &tensor));
    assert_exact((double)value, (double)(0.1f * 3.0f));
    gsc_scaler_destroy(scaler);
}

/* rule 3.2 */
static void test_other_pairs_are_refused(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    const DLDataType int32 = {kDLInt, 32, 1}, complex64 = {kDLComplex, 64, 1}, vector = {kDLFloat, 32, 2};
    const struct {
        DLDataType in, out;
        gsc_status status;
    } cases[] = {
        {GSC_FLOAT32, GSC_FLOAT16, GSC_ERR_VALUE},
        {GSC_FLOAT32, GSC_BFLOAT16, GSC_ERR_VALUE},
        {GSC_FLOAT64, GSC_FLOAT32, GSC_ERR_VALUE},
        {GSC_FLOAT64, GSC_FLOAT16, GSC_ERR_VALUE},
        {GSC_FLOAT16, GSC_BFLOAT16, GSC_ERR_VALUE},
        {GSC_BFLOAT16, GSC_FLOAT16, GSC_ERR_VALUE},
        {int32, int32, GSC_ERR_VALUE},
        {int32, GSC_FLOAT32, GSC_ERR_VALUE},
        {GSC_FLOAT32, int32, GSC_ERR_VALUE},
        {vector, vector, GSC_ERR_VALUE},
        {complex64, complex64, GSC_ERR_UNSUPPORTED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double in_data[2] = {1, 1}, out_data[2] = {7, 7};
        DLTensor in = tensor_of(cases[i].in, in_data, NULL), out = tensor_of(cases[i].out, out_data, NULL);
        assert_fails(cases[i].status, gsc_scaler_scale(scaler, &in, &out));
        assert_exact(out_data[0], 7);
    }
    gsc_scaler_destroy(scaler);
}

/* rule 3.5 */
static void test_shapes_must_agree(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    float a[6] = {1, 1, 1, 1, 1, 1}, b[6] = {7, 7, 7, 7, 7, 7};
    int64_t two_three[] = {2, 3}, three_two[] = {3, 2}, six = 6, five = 5, negative = -1;
    DLTensor in = tensor_of(GSC_FLOAT32, a, &six), out = tensor_of(GSC_FLOAT32, b, &five);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &in, &out));
    in = (DLTensor){.data = a, .device = {kDLCPU, 0}, .ndim = 2, .dtype = GSC_FLOAT32, .shape = two_three};
    out = in;
    out.data = b;
    out.shape = three_two;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &in, &out));
    out = tensor_of(GSC_FLOAT32, b, &six);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &in, &out));
    int64_t six_one[] = {6, 1}, one = 1;
    out = (DLTensor){.data = b, .device = {kDLCPU, 0}, .ndim = 2, .dtype = GSC_FLOAT32, .shape = six_one};
    in = tensor_of(GSC_FLOAT32, a, &six);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &in, &out));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &out, &in));
    in = tensor_of(GSC_FLOAT32, a, NULL);
    out = tensor_of(GSC_FLOAT32, b, &one);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &in, &out));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &out, &in));
    in = tensor_of(GSC_FLOAT32, a, &negative);
    out = tensor_of(GSC_FLOAT32, b, &negative);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &in, &out));
    assert_exact((double)b[0], 7);
    gsc_scaler_destroy(scaler);
}

/* rule 3.5 */
static void test_overlap(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(2, 1);
    gsc_scaler *scaler = new_scaler(&options);
    float data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    int64_t four = 4, two_by_two[] = {2, 2}, zero_stride[] = {0, 1};
    DLTensor in = tensor_of(GSC_FLOAT32, data, &four), out = in;
    out.byte_offset = 4; /* shares three elements with in */
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &in, &out));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &out, &in));
    double wide[4] = {1, 2, 3, 4};
    DLTensor narrow = tensor_of(GSC_FLOAT32, wide, &four), widened = tensor_of(GSC_FLOAT64, wide, &four);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &narrow, &widened)); /* not in itself: other elements */
    out = (DLTensor){.data = data, .device = {kDLCPU, 0}, .ndim = 2, .dtype = GSC_FLOAT32, .shape = two_by_two};
    out.strides = zero_stride; /* both rows are one */
    float source[4] = {1, 2, 3, 4};
    in = out;
    in.data = source;
    in.strides = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &in, &out));
    for (int i = 0; i < 8; i++)
        assert_exact((double)data[i], i + 1);
    /* Reading one row twice is fine, and so is a neighbour that touches. */
    in.strides = zero_stride;
    out.strides = NULL;
    assert_ok(gsc_scaler_scale(scaler, &in, &out));
    assert_exact((double)data[0], 2);
    assert_exact((double)data[3], 4);
    in = tensor_of(GSC_FLOAT32, data, &four);
    out = in;
    out.byte_offset = 16;
    assert_ok(gsc_scaler_scale(scaler, &in, &out));
    assert_exact((double)data[4], 4);
    gsc_scaler_destroy(scaler);
}

/* rule 3.5 */
static void test_strides_and_offset(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(10, 1);
    gsc_scaler *scaler = new_scaler(&options);
    float source[6] = {1, 2, 3, 4, 5, 6}, target[12];
    for (int i = 0; i < 12; i++)
        target[i] = -1;
    int64_t shape[] = {3, 2}, transposed[] = {1, 3}, gapped[] = {4, 2};
    DLTensor in = {.data = source, .device = {kDLCPU, 0}, .ndim = 2, .dtype = GSC_FLOAT32, .shape = shape};
    in.strides = transposed; /* the 3 x 2 transpose of a 2 x 3 matrix */
    DLTensor out = in;
    out.data = target;
    out.strides = gapped;
    out.byte_offset = 4;
    assert_ok(gsc_scaler_scale(scaler, &in, &out));
    const double expected[12] = {-1, 10, -1, 40, -1, 20, -1, 50, -1, 30, -1, 60};
    for (int i = 0; i < 12; i++)
        assert_exact((double)target[i], expected[i]);
    gsc_scaler_destroy(scaler);
}

/* rule 3.5 */
static void test_empty_and_zero_dimensional(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    int64_t none = 0;
    DLTensor empty = tensor_of(GSC_FLOAT32, NULL, &none);
    assert_ok(gsc_scaler_scale(scaler, &empty, &empty));
    float one = 1;
    DLTensor scalar = tensor_of(GSC_FLOAT32, &one, NULL);
    assert_ok(gsc_scaler_scale(scaler, &scalar, &scalar));
    assert_exact((double)one, 65536);
    gsc_scaler_destroy(scaler);
}

/* rule 3.1 */
static void test_special_values(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(2, 1);
    gsc_scaler *scaler = new_scaler(&options);
    float data[5] = {INFINITY, -INFINITY, NAN, -0.0f, bits_to_float(1)};
    int64_t five = 5;
    DLTensor tensor = tensor_of(GSC_FLOAT32, data, &five);
    assert_ok(gsc_scaler_scale(scaler, &tensor, &tensor));
    assert_exact((double)data[0], (double)INFINITY);
    assert_exact((double)data[1], -(double)INFINITY);
    assert_exact((double)data[2], (double)NAN);
    assert_exact((double)data[3], -0.0);
    assert_int_equal(float_to_bits(data[4]), 2); /* subnormals are kept */
    gsc_scaler_destroy(scaler);
}

/* rule 3.3, conformance B */
static void test_list_is_checked_before_any_is_written(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(2, 1);
    gsc_scaler *scaler = new_scaler(&options);
    float a = 4, b[2] = {4, 8};
    int32_t c = 4;
    int64_t two = 2;
    DLTensor first = tensor_of(GSC_FLOAT32, &a, NULL), second = tensor_of(GSC_FLOAT32, b, &two);
    DLTensor third = tensor_of((DLDataType){kDLInt, 32, 1}, &c, NULL);
    DLTensor *list[] = {&first, &second, &third};
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale_list(scaler, list, list, 3));
    assert_exact((double)a, 4);
    assert_exact((double)b[1], 8);
    list[2] = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale_list(scaler, list, list, 3));
    assert_exact((double)a, 4);
    assert_ok(gsc_scaler_scale_list(scaler, list, list, 2)); /* 4, (4, 8) -> 8, (8, 16) */
    assert_exact((double)a, 8);
    assert_exact((double)b[0], 8);
    assert_exact((double)b[1], 16);
    assert_ok(gsc_scaler_scale_list(scaler, list, list, 0));
    assert_exact((double)a, 8);
    gsc_scaler_destroy(scaler);
}

/* rule 3.3, trial T31 */
static void test_a_pair_listed_twice_is_multiplied_once(void **state)
{
    (void)state;
    enum { PAIRS = 40 };
    gsc_scaler_options options = options_of(8, 1);
    gsc_scaler *scaler = new_scaler(&options);
    for (size_t n = 2; n <= PAIRS; n += 19) { /* few pairs and many */
        float data[PAIRS], result[PAIRS];
        DLTensor in[PAIRS], out[PAIRS], *ins[PAIRS], *outs[PAIRS];
        for (size_t i = 0; i < n; i++) {
            data[i] = (float)(i + 1);
            in[i] = tensor_of(GSC_FLOAT32, &data[i % (n - 1)], NULL); /* the last is the first once more */
            out[i] = tensor_of(GSC_FLOAT32, &result[i % (n - 1)], NULL);
            ins[i] = &in[i];
            outs[i] = &out[i];
        }
        assert_ok(gsc_scaler_scale_list(scaler, ins, outs, n));
        for (size_t i = 0; i < n - 1; i++)
            assert_exact((double)result[i], 8 * (double)(i + 1));
        assert_ok(gsc_scaler_scale_list(scaler, ins, ins, n)); /* in place */
        for (size_t i = 0; i < n - 1; i++)
            assert_exact((double)data[i], 8 * (double)(i + 1));
        /* One out for two ins; an out that another pair reads, in either order: nothing is written. */
        in[n - 1].data = &data[n - 1];
        assert_fails(GSC_ERR_VALUE, gsc_scaler_scale_list(scaler, ins, outs, n), "out 0 and out", "overlap");
        out[n - 1].data = &data[0];
        assert_fails(GSC_ERR_VALUE, gsc_scaler_scale_list(scaler, ins, outs, n), "in 0 and out", "overlap");
        for (size_t i = 0; i < n - 1; i++)
            assert_exact((double)data[i], 8 * (double)(i + 1));
        out[n - 1].data = &data[n - 1]; /* an in that several pairs read is fine */
        in[n - 1].data = &data[0];
        assert_ok(gsc_scaler_scale_list(scaler, ins, outs, n));
        assert_exact((double)data[n - 1], 64);
        assert_exact((double)result[0], 64);
    }
    gsc_scaler_destroy(scaler);
}

/* rule 3.5 */
static void test_view_always_holds_the_scale(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 4);
    DLTensor view;
    memset(&view, 0xff, sizeof view);
    assert_ok(gsc_scaler_scale_view(r.scaler, (DLDevice){kDLCPU, 0}, &view));
    assert_int_equal(view.ndim, 0);
    assert_int_equal(view.device.device_type, kDLCPU);
    assert_true(dtype_is(view.dtype, GSC_FLOAT32));
    assert_exact(element_get(&view, 0), 4);
    rig_iterate(&r, INFINITY);
    assert_exact(element_get(&view, 0), 2);
    rig_iterate(&r, 1);
    rig_iterate(&r, 1);
    assert_exact(element_get(&view, 0), 4);
    assert_ok(gsc_scaler_update_to(r.scaler, 77));
    assert_exact(element_get(&view, 0), 77);
    gsc_scaler_state saved = state_of(r.scaler);
    saved.scale = 0.25;
    assert_ok(gsc_scaler_load_state_dict(r.scaler, &saved));
    assert_exact(element_get(&view, 0), 0.25);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale_view(r.scaler, (DLDevice){kDLCPU, 0}, NULL));
    rig_stop(&r);
}

/* rule 3.5 */
static void test_refusals_leave_the_output(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    float a = 1, b = 7;
    DLTensor in = tensor_of(GSC_FLOAT32, &a, NULL), out = tensor_of(GSC_FLOAT32, &b, NULL);
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, NULL, &out));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &in, NULL));
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(NULL, &in, &out));
    in.device.device_type = kDLCUDA;
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_scale(scaler, &in, &out));
    in.device.device_type = kDLCPU;
    out.device.device_type = kDLCUDA;
    assert_fails(GSC_ERR_DEVICE, gsc_scaler_scale(scaler, &in, &out));
    out.device.device_type = kDLCPU;
    in.data = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_scaler_scale(scaler, &in, &out));
    assert_exact((double)b, 7);
    gsc_scaler_destroy(scaler);
}

/* rule 3.4, case 34 */
static void test_nothing_is_initialised_lazily(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 8);
    assert_int_equal(rig_step(&r, 8), GSC_STEPPED); /* step without an earlier scale */
    assert_exact((double)r.param, -1);
    assert_ok(gsc_scaler_update(r.scaler));
    rig_stop(&r);
    rig_start(&r, 8);
    r.grad = 8;
    assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
    assert_exact((double)r.grad, 1);
    rig_stop(&r);
}

/* Beyond what a kernel takes at a time, and several tasks of threads. */
enum { MOST = 3 * 32768 + 5 };

static const size_t lengths[] = {0,    1,    2,    15,   16,   17,    255,   256,   257, 1023,
                                 1024, 1025, 4095, 4096, 4097, 65535, 65536, 65537, MOST};

static const struct {
    DLDataType in, out;
} pairs[] = {
    {{kDLFloat, 32, 1}, {kDLFloat, 32, 1}},   {{kDLFloat, 64, 1}, {kDLFloat, 64, 1}},
    {{kDLBfloat, 16, 1}, {kDLBfloat, 16, 1}}, {{kDLFloat, 16, 1}, {kDLFloat, 16, 1}},
    {{kDLFloat, 32, 1}, {kDLFloat, 64, 1}},   {{kDLBfloat, 16, 1}, {kDLFloat, 32, 1}},
    {{kDLBfloat, 16, 1}, {kDLFloat, 64, 1}},  {{kDLFloat, 16, 1}, {kDLFloat, 32, 1}},
    {{kDLFloat, 16, 1}, {kDLFloat, 64, 1}},
};

enum { PAIRS = sizeof pairs / sizeof *pairs };

static size_t size_of(DLDataType dtype) { return dtype.bits / 8; }

/* Any bits that are no NaN. */
static void fill_randomly(DLTensor *tensor, size_t count)
{
    uint64_t random = 1;
    for (size_t i = 0; i < count; i++)
        do {
            uint64_t bits = next_random(&random);
            memcpy((char *)tensor->data + i * size_of(tensor->dtype), &bits, size_of(tensor->dtype));
        } while (isnan(element_get(tensor, i)));
}

/* One product, rounded once: in float32, or in double where that is among the two. */
static void scale_obviously(const DLTensor *in, DLTensor *out, size_t count, double scale)
{
    for (size_t i = 0; i < count; i++) {
        volatile double product = element_get(in, i) * scale;
        volatile float rounded = (float)product; /* products of two float32 values are exact in double */
        element_set(out, i, dtype_is(out->dtype, GSC_FLOAT64) ? product : (double)rounded);
    }
}

/* The first `count` of out are expected, and the one behind is untouched. */
static void assert_scaled(const DLTensor *out, const DLTensor *expected, size_t count)
{
    size_t size = size_of(out->dtype);
    const unsigned char *end = (const unsigned char *)out->data + count * size;
    assert_memory_equal(out->data, expected->data, count * size);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(end[i], 0x5a);
}

static void scale_every_length(gsc_scaler *scaler, DLDataType in_dtype, DLDataType out_dtype)
{
    int64_t count = MOST;
    void *memory[3];
    for (int i = 0; i < 3; i++)
        assert_non_null(memory[i] = malloc((MOST + 1) * sizeof(double)));
    DLTensor in = tensor_over(memory[0], in_dtype, 1, &count, NULL);
    DLTensor out = tensor_over(memory[1], out_dtype, 1, &count, NULL);
    DLTensor expected = tensor_over(memory[2], out_dtype, 1, &count, NULL);
    fill_randomly(&in, MOST);
    scale_obviously(&in, &expected, MOST, gsc_scaler_get_scale(scaler));
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        count = (int64_t)lengths[l];
        memset(out.data, 0x5a, (MOST + 1) * sizeof(double));
        assert_ok(gsc_scaler_scale(scaler, &in, &out));
        assert_scaled(&out, &expected, lengths[l]);
        if (!dtype_is(in_dtype, out_dtype))
            continue;
        memcpy(out.data, in.data, lengths[l] * size_of(in_dtype)); /* in place */
        assert_ok(gsc_scaler_scale(scaler, &out, &out));
        assert_scaled(&out, &expected, lengths[l]);
    }
    for (int i = 0; i < 3; i++)
        free(memory[i]);
}

/* rule 3.1, section 5.2 */
static void test_every_length_on_every_number_of_threads(void **state)
{
    (void)state;
    const int32_t threads[] = {1, 2, 3, 8};
    const double scales[] = {3, 65535, (double)1.1f, 0x1p-30};
    for (size_t t = 0; t < 4; t++) {
        gsc_scaler_options options = options_of(scales[t], 1);
        gsc_scaler *scaler = new_scaler(&options);
        gsc_set_num_threads(threads[t]);
        for (size_t p = 0; p < PAIRS; p++)
            scale_every_length(scaler, pairs[p].in, pairs[p].out);
        gsc_scaler_destroy(scaler);
    }
    gsc_set_num_threads(0);
}

/* Backwards into every second element, on several threads. */
/* rule 3.5 */
static void test_strides_of_every_pair(void **state)
{
    (void)state;
    gsc_scaler_options options = options_of(5, 1);
    gsc_scaler *scaler = new_scaler(&options);
    gsc_set_num_threads(3);
    int64_t count = MOST, backwards = -1, second = 2;
    void *memory[3];
    for (int i = 0; i < 3; i++)
        assert_non_null(memory[i] = malloc(2 * MOST * sizeof(double)));
    for (size_t p = 0; p < PAIRS; p++) {
        DLTensor in = tensor_over(memory[0], pairs[p].in, 1, &count, NULL);
        DLTensor out = tensor_over(memory[1], pairs[p].out, 1, &count, &second);
        DLTensor expected = tensor_over(memory[2], pairs[p].out, 1, &count, NULL);
        fill_randomly(&in, MOST);
        scale_obviously(&in, &expected, MOST, 5);
        in.byte_offset = (MOST - 1) * size_of(in.dtype);
        in.strides = &backwards;
        memset(out.data, 0x5a, 2 * MOST * sizeof(double));
        assert_ok(gsc_scaler_scale(scaler, &in, &out));
        for (size_t i = 0; i < MOST; i++) {
            assert_exact(element_get(&out, 2 * i), element_get(&expected, MOST - 1 - i));
            assert_int_equal(((unsigned char *)out.data)[(2 * i + 1) * size_of(out.dtype)], 0x5a);
        }
    }
    for (int i = 0; i < 3; i++)
        free(memory[i]);
    gsc_set_num_threads(0);
    gsc_scaler_destroy(scaler);
}

/* NaNs become quiet and keep their payload, alone and among many; with scale 1 and one dtype every bit stays. */
/* rule 3.1 */
static void test_signalling_nans(void **state)
{
    (void)state;
    const uint64_t bits[PAIRS][2] = {{0xff812345, 0xffc12345},
                                     {0x7ff0000000000001, 0x7ff8000000000001},
                                     {0xff81, 0xffc1},
                                     {0x7c01, 0x7e01},
                                     {0xff812345, UINT64_C(0xfff) << 52 | UINT64_C(0x412345) << 29},
                                     {0xff81, 0xffc10000},
                                     {0xff81, UINT64_C(0xfff82) << 44},
                                     {0x7c01, 0x7fc02000},
                                     {0x7c01, UINT64_C(0x7ff804) << 40}};
    enum { MANY = 100 };
    for (size_t p = 0; p < PAIRS; p++)
        for (int64_t count = 1; count <= MANY; count += MANY - 1)
            for (int scale = 1; scale <= 2; scale++) {
                gsc_scaler_options options = options_of(scale, 1);
                gsc_scaler *scaler = new_scaler(&options);
                double from[MANY], to[MANY];
                DLTensor in = tensor_over(from, pairs[p].in, 1, &count, NULL);
                DLTensor out = tensor_over(to, pairs[p].out, 1, &count, NULL);
                for (int64_t i = 0; i < count; i++)
                    memcpy((char *)from + (size_t)i * size_of(in.dtype), &bits[p][0], size_of(in.dtype));
                assert_ok(gsc_scaler_scale(scaler, &in, &out));
                uint64_t found = 0, expected = bits[p][scale == 1 && dtype_is(in.dtype, out.dtype) ? 0 : 1];
                memcpy(&found, (char *)to + (size_t)(count - 1) * size_of(out.dtype), size_of(out.dtype));
                assert_int_equal(found, expected);
                gsc_scaler_destroy(scaler);
            }
}

/* case 12 */
static void test_65536_is_no_float16(void **state)
{
    (void)state;
    gsc_scaler *scaler = new_scaler(NULL);
    uint16_t loss = to_fp16(1), scaled;
    float wide;
    DLTensor in = tensor_of(GSC_FLOAT16, &loss, NULL), out = tensor_of(GSC_FLOAT32, &wide, NULL);
    DLTensor half = tensor_of(GSC_FLOAT16, &scaled, NULL);
    assert_ok(gsc_scaler_scale(scaler, &in, &out)); /* in float32 it is fine */
    assert_exact((double)wide, 65536);
    assert_ok(gsc_scaler_scale(scaler, &in, &half)); /* into float16 it is infinite, and the scaler backs off */
    assert_exact(from_fp16(scaled), (double)INFINITY);
    gsc_scaler_destroy(scaler);
    rig r;
    rig_start_with(&r, NULL);
    rig_iterate(&r, (float)from_fp16(scaled));
    assert_exact(gsc_scaler_get_scale(r.scaler), 32768);
    rig_stop(&r);
}

/* case 34, 95 */
static void test_step_and_unscale_without_scale(void **state)
{
    (void)state;
    rig r, resumed;
    rig_start(&r, 8);
    assert_int_equal(rig_iterate(&r, 8), GSC_STEPPED);
    assert_exact((double)r.param, -1);
    gsc_scaler_state saved = state_of(r.scaler);
    rig_start(&resumed, 2);
    assert_ok(gsc_scaler_load_state_dict(resumed.scaler, &saved));
    resumed.grad = 8;
    assert_ok(gsc_scaler_unscale(resumed.scaler, &resumed.optimizer.base));
    assert_exact((double)resumed.grad, 1);
    rig_stop(&r);
    rig_stop(&resumed);
}

/* conformance J, 108 */
static void test_a_gradient_penalty(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 1024);
    float scaled_grad = 3 * 1024; /* of the scaled loss, taken out of place */
    double inverse = 1 / gsc_scaler_get_scale(r.scaler);
    double penalty = (double)scaled_grad * inverse;
    float loss = (float)penalty;
    DLTensor tensor = tensor_of(GSC_FLOAT32, &loss, NULL);
    assert_ok(gsc_scaler_scale(r.scaler, &tensor, &tensor));
    assert_exact((double)loss, 3 * 1024);
    assert_int_equal(rig_iterate(&r, loss), GSC_STEPPED);
    assert_exact((double)r.param, -3);
    rig_stop(&r);
}

/* case 89 */
static void test_the_scale_seeds_a_backward_pass(void **state)
{
    (void)state;
    rig r;
    rig_start(&r, 512);
    DLTensor view;
    assert_ok(gsc_scaler_scale_view(r.scaler, (DLDevice){kDLCPU, 0}, &view));
    assert_exact(element_get(&view, 0), gsc_scaler_get_scale(r.scaler));
    assert_int_equal(rig_iterate(&r, (float)element_get(&view, 0)), GSC_STEPPED); /* no loss tensor at hand */
    assert_exact((double)r.param, -1);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_pair_of_dtypes),
        cmocka_unit_test(test_float32_product_is_rounded_once),
        cmocka_unit_test(test_other_pairs_are_refused),
        cmocka_unit_test(test_shapes_must_agree),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_strides_and_offset),
        cmocka_unit_test(test_empty_and_zero_dimensional),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_every_length_on_every_number_of_threads),
        cmocka_unit_test(test_strides_of_every_pair),
        cmocka_unit_test(test_signalling_nans),
        cmocka_unit_test(test_list_is_checked_before_any_is_written),
        cmocka_unit_test(test_a_pair_listed_twice_is_multiplied_once),
        cmocka_unit_test(test_view_always_holds_the_scale),
        cmocka_unit_test(test_refusals_leave_the_output),
        cmocka_unit_test(test_nothing_is_initialised_lazily),
        cmocka_unit_test(test_65536_is_no_float16),
        cmocka_unit_test(test_step_and_unscale_without_scale),
        cmocka_unit_test(test_a_gradient_penalty),
        cmocka_unit_test(test_the_scale_seeds_a_backward_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
