/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors outside a tape: creation, refusals, names, the lifetime of gradients. */
#include "skipped.h"
#include "tape_rig.h"

#if defined(__has_feature)
#define SANITIZED                                                                                                      \
    (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static void a_new_tensor_is_zero_and_has_no_gradient(void **state)
{
    (void)state;
    const DLDataType dtypes[] = {GSC_FLOAT32, GSC_FLOAT64, GSC_FLOAT16, GSC_BFLOAT16, GSC_INT64};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        gsc_tensor *tensor = new_tensor(dtypes[d], SHAPE(2, 3), NULL);
        const DLTensor *data = gsc_tensor_data(tensor);
        assert_true(dtype_is(data->dtype, dtypes[d]));
        assert_int_equal(data->device.device_type, kDLCPU);
        assert_int_equal(data->ndim, 2);
        assert_int_equal(data->shape[0], 2);
        assert_int_equal(data->shape[1], 3);
        assert_null(data->strides);
        assert_int_equal(data->byte_offset, 0);
        assert_int_equal(gsc_tensor_count(tensor), 6);
        for (size_t i = 0; i < 6u * dtypes[d].bits / 8; i++)
            assert_int_equal(((const char *)data->data)[i], 0);
        assert_null(gsc_tensor_grad(tensor));
        assert_false(gsc_tensor_get_requires_grad(tensor));
        assert_null(gsc_tensor_get_name(tensor));
        gsc_tensor_free(tensor);
    }
}

static void zero_dimensions_and_empty_shapes_are_fine(void **state)
{
    (void)state;
    gsc_tensor *scalar = new_tensor(GSC_FLOAT32, 0, NULL, VALUES(2.5));
    assert_int_equal(gsc_tensor_count(scalar), 1);
    assert_true(gsc_tensor_item(scalar) == 2.5);
    gsc_tensor_free(scalar);
    gsc_tensor *empty = new_tensor(GSC_FLOAT32, SHAPE(INT64_MAX, 0, INT64_MAX), NULL);
    assert_int_equal(gsc_tensor_count(empty), 0);
    gsc_tensor_free(empty);
    gsc_tensor *deep = new_tensor(GSC_FLOAT32, SHAPE(1, 1, 1, 1, 1, 1, 1, 2), NULL);
    assert_int_equal(gsc_tensor_count(deep), 2);
    gsc_tensor_free(deep);
}

static void bad_tensors_are_refused(void **state)
{
    (void)state;
    gsc_tensor *out = NULL;
    const DLDataType int32 = {kDLInt, 32, 1}, pairs = {kDLFloat, 32, 2};
    assert_fails(GSC_ERR_VALUE, gsc_tensor_create(GSC_FLOAT32, 0, NULL, NULL), "out is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_tensor_create(int32, 0, NULL, &out), "dtype is int32;", "float32");
    assert_fails(GSC_ERR_VALUE, gsc_tensor_create(pairs, 0, NULL, &out), "float32, 2 lanes");
    assert_fails(GSC_ERR_VALUE, gsc_tensor_create(GSC_FLOAT32, -1, NULL, &out), "ndim is -1", "0 to 8");
    assert_fails(GSC_ERR_VALUE, gsc_tensor_create(GSC_FLOAT32, SHAPE(1, 1, 1, 1, 1, 1, 1, 1, 1), &out), "ndim is 9");
    assert_fails(GSC_ERR_VALUE, gsc_tensor_create(GSC_FLOAT32, 1, NULL, &out), "shape is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_tensor_create(GSC_FLOAT32, SHAPE(2, -3), &out), "shape[1] is -3");
    assert_fails(GSC_ERR_VALUE, gsc_tensor_create(GSC_FLOAT32, SHAPE(INT64_MAX, 3), &out), "[9223372036854775807, 3]");
    assert_null(out);
}

static void memory_that_is_not_there_is_reported(void **state)
{
    (void)state;
    if (SANITIZED)
        SKIP_BECAUSE("sanitizers end the process instead of returning NULL");
    gsc_tensor *out = NULL;
    assert_fails(GSC_ERR_MEMORY, gsc_tensor_create(GSC_FLOAT64, SHAPE(INT64_C(1) << 56), &out), "float64",
                 "[72057594037927936]");
    assert_null(out);
}

static void item_reads_every_dtype(void **state)
{
    (void)state;
    const DLDataType dtypes[] = {GSC_FLOAT32, GSC_FLOAT64, GSC_FLOAT16, GSC_BFLOAT16};
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        gsc_tensor *tensor = new_tensor(dtypes[d], SHAPE(1, 1), VALUES(-1.5));
        assert_true(gsc_tensor_item(tensor) == -1.5);
        gsc_tensor_free(tensor);
    }
    gsc_tensor *label = new_tensor(GSC_INT64, 0, NULL, NULL);
    *(int64_t *)gsc_tensor_data(label)->data = -7;
    assert_true(gsc_tensor_item(label) == -7);
    gsc_tensor_free(label);
}

static void item_of_no_or_many_elements_is_nan(void **state)
{
    (void)state;
    gsc_tensor *pair = new_tensor(GSC_FLOAT32, SHAPE(2), NULL);
    assert_true(isnan(gsc_tensor_item(pair)));
    assert_message("[2]");
    gsc_fail(GSC_ERR_VALUE, "why the chain failed");
    assert_true(isnan(gsc_tensor_item(NULL)));
    assert_string_equal(gsc_last_error(), "why the chain failed");
    gsc_tensor_free(pair);
}

static void names_are_copied(void **state)
{
    (void)state;
    gsc_tensor *tensor = new_tensor(GSC_FLOAT32, 0, NULL, NULL);
    char name[] = "weight";
    assert_ok(gsc_tensor_set_name(tensor, name));
    name[0] = 'h';
    assert_string_equal(gsc_tensor_get_name(tensor), "weight");
    assert_ok(gsc_tensor_set_name(tensor, gsc_tensor_get_name(tensor)));
    assert_string_equal(gsc_tensor_get_name(tensor), "weight");
    assert_ok(gsc_tensor_set_name(tensor, NULL));
    assert_null(gsc_tensor_get_name(tensor));
    assert_fails(GSC_ERR_VALUE, gsc_tensor_set_name(NULL, "x"), "tensor is NULL");
    gsc_tensor_free(tensor);
}

static void requires_grad_is_for_floating_point_leaves(void **state)
{
    (void)state;
    gsc_tensor *labels = new_tensor(GSC_INT64, SHAPE(3), NULL);
    assert_fails(GSC_ERR_VALUE, gsc_tensor_set_requires_grad(labels, true), "int64");
    assert_ok(gsc_tensor_set_requires_grad(labels, false));
    gsc_tensor_free(labels);
    assert_fails(GSC_ERR_VALUE, gsc_tensor_set_requires_grad(NULL, true), "tensor is NULL");
    gsc_tensor *param = new_parameter(GSC_FLOAT32, SHAPE(2), NULL);
    gsc_tape *tape = new_tape();
    gsc_tensor *sum = gsc_sum(gsc_tape_param(tape, param));
    assert_true(gsc_tensor_get_requires_grad(sum));
    assert_fails(GSC_ERR_VALUE, gsc_tensor_set_requires_grad(sum, false), "result of an op");
    gsc_tape_free(tape);
    gsc_tensor_free(param);
}

static void zero_grad_makes_the_gradient_absent(void **state)
{
    (void)state;
    gsc_tensor *param = new_parameter(GSC_FLOAT32, SHAPE(2), NULL);
    gsc_tape *tape = new_tape();
    assert_ok(gsc_tape_backward(tape, gsc_sum(gsc_tape_param(tape, param))));
    const DLTensor *grad = gsc_tensor_grad(param);
    assert_non_null(grad);
    assert_true(dtype_is(grad->dtype, GSC_FLOAT32));
    assert_int_equal(grad->ndim, 1);
    assert_int_equal(grad->shape[0], 2);
    gsc_tensor_zero_grad(param);
    assert_null(gsc_tensor_grad(param));
    gsc_tape_clear(tape);
    assert_ok(gsc_tape_backward(tape, gsc_sum(gsc_tape_param(tape, param))));
    assert_true(grad_element(param, 0) == 1); /* and not 2 */
    gsc_tape_free(tape);
    gsc_tensor_free(param);
}

static void null_is_harmless(void **state)
{
    (void)state;
    gsc_tensor_free(NULL);
    gsc_tensor_zero_grad(NULL);
    assert_null(gsc_tensor_data(NULL));
    assert_null(gsc_tensor_grad(NULL));
    assert_null(gsc_tensor_get_name(NULL));
    assert_int_equal(gsc_tensor_count(NULL), 0);
    assert_false(gsc_tensor_get_requires_grad(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_tensor_is_zero_and_has_no_gradient),
        cmocka_unit_test(zero_dimensions_and_empty_shapes_are_fine),
        cmocka_unit_test(bad_tensors_are_refused),
        cmocka_unit_test(memory_that_is_not_there_is_reported),
        cmocka_unit_test(item_reads_every_dtype),
        cmocka_unit_test(item_of_no_or_many_elements_is_nan),
        cmocka_unit_test(names_are_copied),
        cmocka_unit_test(requires_grad_is_for_floating_point_leaves),
        cmocka_unit_test(zero_grad_makes_the_gradient_absent),
        cmocka_unit_test(null_is_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
