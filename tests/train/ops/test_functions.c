/* SPDX-License-Identifier: Apache-2.0 */
/* Ops through the public API: refusals, rounding, special values, scaled losses, the caller's floating-point
 * environment. tests/train/ops/test_table.c checks every op's numbers. */
#include <stdlib.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tape_rig.h"

typedef struct fixture {
    gsc_tape *tape;
    gsc_tensor *m23, *m34, *v3, *half, *labels;
} fixture;

static fixture new_fixture(void)
{
    fixture f = {.tape = new_tape()};
    f.m23 = new_input(f.tape, GSC_FLOAT32, SHAPE(2, 3), NULL);
    f.m34 = new_input(f.tape, GSC_FLOAT32, SHAPE(3, 4), NULL);
    f.v3 = new_input(f.tape, GSC_FLOAT32, SHAPE(3), NULL);
    f.half = new_input(f.tape, GSC_FLOAT16, SHAPE(2, 3), NULL);
    f.labels = new_labels(f.tape, 2, (int64_t[]){0, 2});
    return f;
}

static void wrong_shapes_are_named(void **state)
{
    (void)state;
    fixture f = new_fixture();
    assert_op_fails(gsc_add(f.m23, f.m34), "gsc_add", "[2, 3]", "[3, 4]");
    assert_op_fails(gsc_mul(f.m34, f.v3), "gsc_mul", "[3, 4]", "[3]");
    assert_op_fails(gsc_matmul(f.m23, f.m23), "gsc_matmul", "a has shape [2, 3]", "b [2, 3]");
    assert_op_fails(gsc_matmul(f.m23, f.v3), "gsc_matmul", "[3]");
    assert_op_fails(gsc_linear(f.m23, f.m34, NULL), "gsc_linear", "x has shape [2, 3]", "weight [3, 4]");
    assert_op_fails(gsc_linear(f.m23, f.m23, f.v3), "gsc_linear", "bias has shape [3]", "[2]");
    assert_op_fails(gsc_mse_loss(f.m23, f.v3), "gsc_mse_loss", "x has shape [2, 3]", "target [3]");
    assert_op_fails(gsc_cross_entropy_loss(f.m34, f.labels), "gsc_cross_entropy_loss", "[3, 4]", "[2]");
    gsc_tape_free(f.tape);
}

static void wrong_dtypes_are_named(void **state)
{
    (void)state;
    fixture f = new_fixture();
    assert_op_fails(gsc_mse_loss(f.half, f.m23), "x is float16", "target is float32", "gsc_cast");
    assert_op_fails(gsc_add(f.labels, f.labels), "gsc_add", "a is int64");
    assert_op_fails(gsc_mul(f.v3, gsc_tape_input(f.tape, gsc_tensor_data(new_labels(f.tape, 3, (int64_t[]){1, 2, 3})))),
                    "gsc_mul", "b is int64");
    assert_op_fails(gsc_sum(f.labels), "gsc_sum", "x is int64");
    assert_op_fails(gsc_relu(f.labels), "gsc_relu", "x is int64");
    assert_op_fails(gsc_cast(f.labels, GSC_FLOAT32), "gsc_cast", "x is int64");
    assert_op_fails(gsc_cast(f.v3, GSC_INT64), "gsc_cast", "int64");
    assert_op_fails(gsc_cross_entropy_loss(f.m23, f.v3), "labels is float32", "int64");
    assert_op_fails(gsc_cross_entropy_loss(f.labels, f.labels), "logits is int64");
    gsc_tape_free(f.tape);
}

static void labels_out_of_range_are_named(void **state)
{
    (void)state;
    fixture f = new_fixture();
    assert_op_fails(gsc_cross_entropy_loss(f.m23, new_labels(f.tape, 2, (int64_t[]){2, 3})), "labels[1] is 3",
                    "below 3");
    assert_op_fails(gsc_cross_entropy_loss(f.m23, new_labels(f.tape, 2, (int64_t[]){-1, 0})), "labels[0] is -1");
    gsc_tape_free(f.tape);
}

static void reshape_finds_the_size_that_remains(void **state)
{
    (void)state;
    fixture f = new_fixture();
    gsc_tensor *reshaped = gsc_reshape(f.m34, SHAPE(2, -1, 3));
    assert_int_equal(gsc_tensor_data(reshaped)->ndim, 3);
    assert_int_equal(gsc_tensor_data(reshaped)->shape[1], 2);
    assert_int_equal(gsc_tensor_data(gsc_reshape(f.m34, SHAPE(-1)))->shape[0], 12);
    gsc_tensor *empty = new_input(f.tape, GSC_FLOAT32, SHAPE(0, 3), NULL);
    assert_int_equal(gsc_tensor_data(gsc_reshape(empty, SHAPE(-1, 7)))->shape[0], 0);
    assert_op_fails(gsc_reshape(empty, SHAPE(0, -1)), "[0, -1]");
    assert_op_fails(gsc_reshape(f.m34, SHAPE(5, -1)), "[3, 4]", "12 elements", "[5, -1]");
    assert_op_fails(gsc_reshape(f.m34, SHAPE(3, 5)), "[3, 5]");
    assert_op_fails(gsc_reshape(f.m34, SHAPE(-1, -1)), "shape[1] is -1");
    assert_op_fails(gsc_reshape(f.m34, SHAPE(-2, 3)), "shape[0] is -2");
    assert_op_fails(gsc_reshape(f.m34, SHAPE(INT64_MAX, INT64_MAX)), "12 elements");
    assert_op_fails(gsc_reshape(f.m34, SHAPE(INT64_C(1) << 32, (INT64_C(1) << 32) + 12)), "12 elements");
    assert_op_fails(gsc_reshape(f.m34, 9, NULL), "ndim is 9");
    assert_op_fails(gsc_reshape(f.m34, 2, NULL), "shape NULL");
    gsc_tape_free(f.tape);
}

/* Ties and their neighbours between all neighbouring halves, from float64: one rounding, not two. */
static void cast_rounds_once(void **state)
{
    (void)state;
    const DLDataType dtypes[] = {GSC_FLOAT16, GSC_BFLOAT16};
    enum { N = 0x7c00 };
    double *values = malloc(3 * N * sizeof *values);
    assert_non_null(values);
    gsc_tape *tape = new_tape();
    for (int d = 0; d < 2; d++) {
        for (uint16_t bits = 0; bits < N; bits++) {
            double low = d ? from_bf16(bits) : from_fp16(bits);
            double high = d ? from_bf16((uint16_t)(bits + 1)) : from_fp16((uint16_t)(bits + 1));
            double tie = isinf(high) ? 65520 : (low + high) / 2;
            values[3 * bits] = nextafter(tie, -INFINITY);
            values[3 * bits + 1] = -tie;
            values[3 * bits + 2] = nextafter(tie, INFINITY);
        }
        gsc_tensor *half = gsc_cast(new_input(tape, GSC_FLOAT64, SHAPE(3 * N), values), dtypes[d]);
        const uint16_t *bits = gsc_tensor_data(half)->data;
        for (size_t i = 0; i < 3 * N; i++)
            assert_int_equal(bits[i], d ? to_bf16(values[i]) : to_fp16(values[i]));
    }
    free(values);
    gsc_tape_free(tape);
}

static void special_values_pass_through(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *x = new_input(tape, GSC_FLOAT32, SHAPE(4), VALUES(NAN, INFINITY, -INFINITY, -0.0));
    gsc_tensor *relu = gsc_relu(x), *tanh_x = gsc_tanh(x), *sum = gsc_add(x, x);
    assert_true(isnan(element(relu, 0)) && element(relu, 1) == (double)INFINITY && element(relu, 2) == 0);
    assert_true(isnan(element(tanh_x, 0)) && element(tanh_x, 1) == 1 && element(tanh_x, 2) == -1);
    assert_true(isnan(element(sum, 0)) && element(sum, 2) == -(double)INFINITY);
    assert_true(isnan(gsc_tensor_item(gsc_sum(x))));
    assert_true(isinf(element(gsc_cast(new_input(tape, GSC_FLOAT32, 0, NULL, VALUES(65520)), GSC_FLOAT16), 0)));
    gsc_tape_free(tape);
}

/* exp(1000) overflows and exp(-1000) underflows; their softmax does neither. */
static void cross_entropy_is_stable(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *logits = new_parameter(GSC_FLOAT32, SHAPE(2, 2), VALUES(1000, 999, -1000, -999));
    gsc_tensor *loss = gsc_cross_entropy_loss(logits, new_labels(tape, 2, (int64_t[]){0, 0}));
    double p = 1 / (1 + exp(-1));
    assert_true(fabs(gsc_tensor_item(loss) + (log(p) + log(1 - p)) / 2) < 1e-6);
    assert_ok(gsc_tape_backward(tape, loss));
    assert_true(fabs(grad_element(logits, 0) - (p - 1) / 2) < 1e-6);
    assert_true(fabs(grad_element(logits, 2) + p / 2) < 1e-6);
    gsc_tensor_free(logits);
    gsc_tape_free(tape);
}

static gsc_scaler *new_scaler(double scale, bool enabled)
{
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = scale;
    options.enabled = enabled;
    gsc_scaler *scaler;
    assert_ok(gsc_scaler_create(&options, &scaler));
    return scaler;
}

static void scale_loss_multiplies_by_the_scale_of_the_moment(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_scaler *scaler = new_scaler(1024, true);
    gsc_tensor *w = new_parameter(GSC_FLOAT32, SHAPE(1), VALUES(3));
    gsc_tensor *scaled = gsc_scale_loss(scaler, gsc_tape_param(tape, w));
    assert_ok(gsc_scaler_update_to(scaler, 2));
    assert_true(gsc_tensor_item(scaled) == 3072);
    assert_ok(gsc_tape_backward(tape, scaled));
    assert_true(grad_element(w, 0) == 1024);
    gsc_tensor *half = new_input(tape, GSC_FLOAT16, 0, NULL, VALUES(60000));
    assert_true(gsc_tensor_item(gsc_scale_loss(scaler, half)) == 2 * from_fp16(to_fp16(60000)));
    gsc_tensor *wide = gsc_scale_loss(scaler, new_input(tape, GSC_FLOAT64, 0, NULL, VALUES(0.1)));
    assert_true(dtype_is(gsc_tensor_data(wide)->dtype, GSC_FLOAT64) && gsc_tensor_item(wide) == 0.2);
    assert_op_fails(gsc_scale_loss(NULL, half), "scaler is NULL");
    gsc_scaler_destroy(scaler);
    gsc_tensor_free(w);
    gsc_tape_free(tape);
}

static void a_disabled_scaler_returns_the_loss_itself(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_scaler *scaler = new_scaler(1024, false);
    gsc_tensor *loss = new_input(tape, GSC_FLOAT32, 0, NULL, VALUES(3));
    assert_ptr_equal(gsc_scale_loss(scaler, loss), loss);
    gsc_scaler_destroy(scaler);
    gsc_tape_free(tape);
}

/* The gradient of the hidden value is 1e-8 * scale, which float16 cannot hold when scale is 1. */
static double gradient_through_float16(double scale)
{
    gsc_tape *tape = new_tape();
    gsc_scaler *scaler = new_scaler(scale, true);
    gsc_tensor *w = new_parameter(GSC_FLOAT32, SHAPE(1, 1), VALUES(1));
    gsc_tensor *tiny = new_input(tape, GSC_FLOAT32, SHAPE(1, 1), VALUES(1e-8));
    assert_ok(gsc_autocast_begin(GSC_FLOAT16, true));
    gsc_tensor *hidden = gsc_linear(new_input(tape, GSC_FLOAT32, SHAPE(1, 1), VALUES(1)), w, NULL);
    assert_ok(gsc_autocast_end());
    gsc_tensor *loss = gsc_sum(gsc_mul(hidden, tiny)); /* float32 */
    assert_ok(gsc_tape_backward(tape, gsc_scale_loss(scaler, loss)));
    double gradient = grad_element(w, 0);
    gsc_tensor_free(w);
    gsc_scaler_destroy(scaler);
    gsc_tape_free(tape);
    return gradient;
}

static void float16_gradients_underflow_unless_scaled(void **state)
{
    (void)state;
    assert_true(gradient_through_float16(1) == 0);
    assert_true(gradient_through_float16(65536) == from_fp16(to_fp16(1e-8 * 65536)));
    assert_true(isinf(gradient_through_float16(0x1p50)));
}

#if defined(__x86_64__)
/* Everything that changes results: flush subnormals, take them for zero, round towards zero; exceptions masked. */
enum { DEFAULT_ENVIRONMENT = 0x1f80, FLUSHING_ENVIRONMENT = 0xffc0 };

/* Gradients of a chain that is full of subnormals, with the ops called in that environment. */
static void subnormal_gradients(unsigned environment, float gradients[4])
{
    gsc_tape *tape = new_tape();
    gsc_tensor *w = new_parameter(GSC_FLOAT32, SHAPE(2, 2), VALUES(0x1p-140, 0x1p-149, 3, 0.125));
    gsc_tensor *x = new_input(tape, GSC_FLOAT16, SHAPE(2, 2), VALUES(0x1p-24, 0x1p-20, 0.125, 2));
    gsc_tensor *tiny = new_input(tape, GSC_FLOAT32, 0, NULL, VALUES(0x1.8p-130));
    _mm_setcsr(environment);
    gsc_tensor *half = gsc_mul(x, gsc_cast(gsc_tape_param(tape, w), GSC_FLOAT16));
    gsc_tensor *sum = gsc_add(gsc_mul(gsc_tape_param(tape, w), w), gsc_linear(gsc_cast(half, GSC_FLOAT32), w, NULL));
    gsc_status status = gsc_tape_backward(tape, gsc_mul(gsc_sum(sum), tiny));
    unsigned after = _mm_getcsr();
    _mm_setcsr(DEFAULT_ENVIRONMENT);
    assert_ok(status);
    assert_int_equal(after & FLUSHING_ENVIRONMENT, environment);
    memcpy(gradients, gsc_tensor_grad(w)->data, 4 * sizeof *gradients);
    gsc_tensor_free(w);
    gsc_tape_free(tape);
}

static void the_callers_floating_point_environment_does_not_matter(void **state)
{
    (void)state;
    float expected[4], found[4];
    subnormal_gradients(DEFAULT_ENVIRONMENT, expected);
    subnormal_gradients(FLUSHING_ENVIRONMENT, found);
    assert_memory_equal(found, expected, sizeof expected);
    assert_true(expected[2] > 0 && expected[2] < 0x1p-126f);
}
#endif

/* trial T31 */
static void a_failed_bias_is_not_taken_for_none(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *x = new_input(tape, GSC_FLOAT32, SHAPE(2, 3), NULL),
               *weight = new_input(tape, GSC_FLOAT32, SHAPE(4, 3), NULL);
    gsc_tensor *free_bias = new_tensor(GSC_FLOAT32, SHAPE(4), NULL);
    assert_non_null(gsc_linear(x, weight, NULL));
    assert_op_fails(gsc_linear(x, weight, gsc_add(x, weight)), "gsc_add");
    /* The op that follows the failed one changes nothing: which argument is evaluated first is up to the compiler. */
    assert_non_null(gsc_relu(x));
    assert_null(gsc_linear(x, weight, NULL)); /* and the message stays */
    assert_message("gsc_add");
    assert_status(gsc_tape_backward(tape, NULL), GSC_ERR_VALUE);
    assert_non_null(gsc_linear(x, weight, NULL));

    assert_op_fails(gsc_linear(x, weight, gsc_relu(free_bias)), "gsc_relu", "on a tape"); /* fails without a tape */
    gsc_tape_clear(tape);
    x = new_input(tape, GSC_FLOAT32, SHAPE(2, 3), NULL);
    weight = new_input(tape, GSC_FLOAT32, SHAPE(4, 3), NULL);
    assert_non_null(gsc_linear(x, weight, NULL));
    assert_op_fails(gsc_linear(x, weight, gsc_cast(x, GSC_INT64)), "gsc_cast");
    assert_non_null(gsc_linear(x, weight, free_bias)); /* a bias that is there */
    gsc_tensor_free(free_bias);
    gsc_tape_free(tape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_shapes_are_named),
        cmocka_unit_test(a_failed_bias_is_not_taken_for_none),
        cmocka_unit_test(wrong_dtypes_are_named),
        cmocka_unit_test(labels_out_of_range_are_named),
        cmocka_unit_test(reshape_finds_the_size_that_remains),
        cmocka_unit_test(cast_rounds_once),
        cmocka_unit_test(special_values_pass_through),
        cmocka_unit_test(cross_entropy_is_stable),
        cmocka_unit_test(scale_loss_multiplies_by_the_scale_of_the_moment),
        cmocka_unit_test(a_disabled_scaler_returns_the_loss_itself),
        cmocka_unit_test(float16_gradients_underflow_unless_scaled),
#if defined(__x86_64__)
        cmocka_unit_test(the_callers_floating_point_environment_does_not_matter),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
