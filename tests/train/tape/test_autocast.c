/* SPDX-License-Identifier: Apache-2.0 */
/* autocast: which op computes in which dtype, nesting, and that parameters and their gradients stay float32. */
#include <pthread.h>

#include "tape_rig.h"

static void assert_dtype(gsc_tensor *tensor, DLDataType dtype)
{
    if (!tensor)
        fail_msg("an op failed: %s", gsc_last_error());
    DLDataType found = gsc_tensor_data(tensor)->dtype;
    if (!dtype_is(found, dtype))
        fail_msg("dtype is (%d, %d), expected (%d, %d)", found.code, found.bits, dtype.code, dtype.bits);
}

static void begin(DLDataType dtype) { assert_ok(gsc_autocast_begin(dtype, true)); }
static void end(void) { assert_ok(gsc_autocast_end()); }

static void regions_nest_and_can_be_off_inside_on(void **state)
{
    (void)state;
    DLDataType dtype = GSC_FLOAT64;
    assert_false(gsc_autocast_enabled(&dtype));
    assert_true(dtype_is(dtype, GSC_FLOAT64));
    begin(GSC_FLOAT16);
    assert_true(gsc_autocast_enabled(&dtype) && dtype_is(dtype, GSC_FLOAT16));
    begin(GSC_BFLOAT16);
    assert_true(gsc_autocast_enabled(&dtype) && dtype_is(dtype, GSC_BFLOAT16));
    assert_ok(gsc_autocast_begin(GSC_FLOAT64, false)); /* dtype is not read */
    assert_false(gsc_autocast_enabled(NULL));
    end();
    assert_true(gsc_autocast_enabled(&dtype) && dtype_is(dtype, GSC_BFLOAT16));
    end();
    assert_true(gsc_autocast_enabled(&dtype) && dtype_is(dtype, GSC_FLOAT16));
    end();
    assert_false(gsc_autocast_enabled(NULL));
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    assert_fails(GSC_ERR_STATE, gsc_autocast_end(), "no region");
    assert_fails(GSC_ERR_VALUE, gsc_autocast_begin(GSC_FLOAT32, true), "float32", "GSC_FLOAT16");
    assert_false(gsc_autocast_enabled(NULL));
    for (int i = 0; i < 64; i++)
        begin(GSC_FLOAT16);
    assert_fails(GSC_ERR_STATE, gsc_autocast_begin(GSC_FLOAT16, true), "64");
    for (int i = 0; i < 64; i++)
        end();
    assert_fails(GSC_ERR_STATE, gsc_autocast_end(), "no region");
}

static void *look_from_other_thread(void *enabled)
{
    *(bool *)enabled = gsc_autocast_enabled(NULL);
    return NULL;
}

static void a_region_belongs_to_its_thread(void **state)
{
    (void)state;
    begin(GSC_FLOAT16);
    pthread_t thread;
    bool enabled = true;
    assert_int_equal(pthread_create(&thread, NULL, look_from_other_thread, &enabled), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(enabled);
    end();
}

/* Policies of every op, for float32 inputs in a region of `dtype`. */
static void check_policies(DLDataType dtype)
{
    gsc_tape *tape = new_tape();
    gsc_tensor *x = new_input(tape, GSC_FLOAT32, SHAPE(2, 2), VALUES(1, 2, 3, 4));
    gsc_tensor *bias = new_input(tape, GSC_FLOAT32, SHAPE(2), VALUES(1, 2));
    gsc_tensor *labels = new_labels(tape, 2, (int64_t[]){0, 1});
    begin(dtype);
    gsc_tensor *half = gsc_matmul(x, x);
    assert_dtype(half, dtype);
    assert_dtype(gsc_linear(x, x, bias), dtype);
    assert_dtype(gsc_linear(half, x, NULL), dtype);
    assert_dtype(gsc_add(half, half), dtype);
    assert_dtype(gsc_add(half, x), GSC_FLOAT32);
    assert_dtype(gsc_mul(x, half), GSC_FLOAT32);
    assert_dtype(gsc_relu(half), dtype);
    assert_dtype(gsc_relu(x), GSC_FLOAT32);
    assert_dtype(gsc_tanh(half), dtype);
    assert_dtype(gsc_reshape(half, SHAPE(4)), dtype);
    assert_dtype(gsc_sum(half), GSC_FLOAT32);
    assert_dtype(gsc_mean(half), GSC_FLOAT32);
    assert_dtype(gsc_mse_loss(half, x), GSC_FLOAT32);
    assert_dtype(gsc_cross_entropy_loss(half, labels), GSC_FLOAT32);
    assert_dtype(gsc_cast(half, GSC_FLOAT32), GSC_FLOAT32);
    end();
    assert_dtype(gsc_sum(half), dtype); /* outside, dtypes stay */
    gsc_tape_free(tape);
}

static void each_op_follows_its_policy(void **state)
{
    (void)state;
    check_policies(GSC_FLOAT16);
    check_policies(GSC_BFLOAT16);
}

static void an_inner_region_that_is_off_casts_nothing(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *x = new_input(tape, GSC_FLOAT32, SHAPE(2, 2), NULL);
    begin(GSC_FLOAT16);
    gsc_tensor *half = gsc_matmul(x, x);
    assert_ok(gsc_autocast_begin(GSC_FLOAT16, false));
    assert_dtype(gsc_matmul(x, x), GSC_FLOAT32);
    assert_dtype(gsc_mean(half), GSC_FLOAT16);
    assert_op_fails(gsc_matmul(half, x), "gsc_matmul", "a is float16", "b is float32");
    end();
    assert_dtype(gsc_matmul(half, x), GSC_FLOAT16);
    end();
    gsc_tape_free(tape);
}

static void float64_and_int64_are_never_cast(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *x = new_input(tape, GSC_FLOAT64, SHAPE(2, 2), VALUES(1, 2, 3, 4));
    gsc_tensor *labels = new_labels(tape, 2, (int64_t[]){0, 1});
    begin(GSC_FLOAT16);
    assert_dtype(gsc_matmul(x, x), GSC_FLOAT64);
    assert_dtype(gsc_linear(x, x, NULL), GSC_FLOAT64);
    assert_dtype(gsc_sum(x), GSC_FLOAT64);
    assert_dtype(gsc_cross_entropy_loss(x, labels), GSC_FLOAT64);
    assert_dtype(gsc_reshape(labels, SHAPE(2, 1)), GSC_INT64);
    end();
    gsc_tape_free(tape);
}

/* Outside of regions too. */
static void mixed_dtypes_give_the_widest(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *f16 = new_input(tape, GSC_FLOAT16, SHAPE(1), VALUES(0.1));
    gsc_tensor *bf16 = new_input(tape, GSC_BFLOAT16, SHAPE(1), VALUES(0.1));
    gsc_tensor *f32 = new_input(tape, GSC_FLOAT32, SHAPE(1), VALUES(0.1));
    gsc_tensor *f64 = new_input(tape, GSC_FLOAT64, SHAPE(1), VALUES(0.1));
    assert_dtype(gsc_add(f16, bf16), GSC_FLOAT32);
    assert_dtype(gsc_add(f16, f32), GSC_FLOAT32);
    assert_dtype(gsc_mul(f32, f64), GSC_FLOAT64);
    assert_dtype(gsc_mul(f64, bf16), GSC_FLOAT64);
    assert_true(element(gsc_add(f16, bf16), 0) == (float)(element(f16, 0) + element(bf16, 0)));
    gsc_tape_free(tape);
}

static void gradients_of_float32_parameters_are_float32(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *weight = new_parameter(GSC_FLOAT32, SHAPE(1, 2), VALUES(1, 0.1));
    gsc_tensor *x = new_input(tape, GSC_FLOAT32, SHAPE(1, 2), VALUES(0.2, 0.3));
    begin(GSC_FLOAT16);
    gsc_tensor *y = gsc_linear(x, weight, NULL);
    gsc_tensor *loss = gsc_sum(y);
    end();
    assert_ok(gsc_tape_backward(tape, loss));
    assert_true(dtype_is(gsc_tensor_grad(weight)->dtype, GSC_FLOAT32));
    assert_true(dtype_is(gsc_tensor_grad(y)->dtype, GSC_FLOAT16));
    assert_true(grad_element(weight, 0) == from_fp16(to_fp16(0.2)));
    assert_true(grad_element(weight, 1) == from_fp16(to_fp16(0.3)));
    assert_true(element(y, 0) ==
                from_fp16(to_fp16(from_fp16(to_fp16(0.2)) + from_fp16(to_fp16(0.1)) * from_fp16(to_fp16(0.3)))));
    gsc_tensor_free(weight);
    gsc_tape_free(tape);
}

/* A parameter's cast is made once per outermost region: a change in between is seen by the next region only. */
static void a_parameter_is_cast_once_per_region(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *weight = new_parameter(GSC_FLOAT32, SHAPE(1, 1), VALUES(2));
    gsc_tensor *x = new_input(tape, GSC_FLOAT32, SHAPE(1, 1), VALUES(3));
    begin(GSC_FLOAT16);
    gsc_tensor *first = gsc_linear(x, weight, NULL);
    element_set(gsc_tensor_data(weight), 0, 5);
    gsc_tensor *second = gsc_matmul(x, gsc_tape_param(tape, weight)); /* the handle is the parameter */
    begin(GSC_BFLOAT16);
    gsc_tensor *other_dtype = gsc_linear(x, weight, NULL);
    end();
    end();
    begin(GSC_FLOAT16);
    gsc_tensor *next_region = gsc_linear(x, weight, NULL);
    end();
    assert_true(gsc_tensor_item(first) == 6);
    assert_true(gsc_tensor_item(second) == 6);
    assert_true(gsc_tensor_item(other_dtype) == 15);
    assert_true(gsc_tensor_item(next_region) == 15);
    assert_ok(gsc_tape_backward(tape, gsc_sum(gsc_add(first, second))));
    assert_true(grad_element(weight, 0) == 6);
    gsc_tensor_free(weight);
    gsc_tape_free(tape);
}

/* A parameter's cast is of that parameter alone, also when another one gets its address. */
static void test_a_cast_does_not_outlive_its_parameter(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    assert_ok(gsc_autocast_begin(GSC_BFLOAT16, true));
    for (int i = 1; i <= 8; i++) {
        gsc_tensor *p = new_parameter(GSC_FLOAT32, SHAPE(1, 1), VALUES(i));
        gsc_tensor *x = new_input(tape, GSC_FLOAT32, SHAPE(1, 1), VALUES(1));
        assert_true(gsc_tensor_item(gsc_matmul(x, p)) == i);
        gsc_tensor_free(p);
    }
    assert_ok(gsc_autocast_end());
    gsc_tape_free(tape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_nest_and_can_be_off_inside_on),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(a_region_belongs_to_its_thread),
        cmocka_unit_test(each_op_follows_its_policy),
        cmocka_unit_test(an_inner_region_that_is_off_casts_nothing),
        cmocka_unit_test(float64_and_int64_are_never_cast),
        cmocka_unit_test(mixed_dtypes_give_the_widest),
        cmocka_unit_test(gradients_of_float32_parameters_are_float32),
        cmocka_unit_test(a_parameter_is_cast_once_per_region),
        cmocka_unit_test(test_a_cast_does_not_outlive_its_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
