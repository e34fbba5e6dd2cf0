/* SPDX-License-Identifier: Apache-2.0 */
/* Layers: initialisation, names, ownership, refusals, and a network that learns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "param.h"

static gsc_module *new_linear(int64_t in, int64_t out, bool bias, gsc_random *random)
{
    gsc_module *module;
    assert_ok(gsc_module_linear(in, out, bias, random, &module));
    return module;
}

static gsc_module *new_relu(void)
{
    gsc_module *module;
    assert_ok(gsc_module_relu(&module));
    return module;
}

static gsc_module *new_sequential(gsc_module *const *children, size_t n)
{
    gsc_module *module;
    assert_ok(gsc_module_sequential(children, n, &module));
    return module;
}

static void assert_param(gsc_module *module, size_t index, const char *name, int32_t ndim, const int64_t *shape)
{
    gsc_tensor *param = gsc_module_param(module, index);
    assert_non_null(param);
    assert_string_equal(gsc_tensor_get_name(param), name);
    assert_true(gsc_tensor_get_requires_grad(param));
    assert_null(gsc_tensor_grad(param));
    const DLTensor *data = gsc_tensor_data(param);
    assert_memory_equal(&data->dtype, &GSC_FLOAT32, sizeof GSC_FLOAT32);
    assert_int_equal(data->ndim, ndim);
    assert_memory_equal(data->shape, shape, (size_t)ndim * sizeof *shape);
}

static void linear_is_initialised_as_in_pytorch(void **state)
{
    (void)state;
    gsc_random random = gsc_random_init(3, 0);
    gsc_module *linear = new_linear(200, 300, true, &random);
    assert_int_equal(gsc_module_param_count(linear), 2);
    assert_param(linear, 0, "weight", 2, (int64_t[]){300, 200});
    assert_param(linear, 1, "bias", 1, (int64_t[]){300});
    assert_null(gsc_module_param(linear, 2));
    double bound = 1 / sqrt(200);
    for (size_t k = 0; k < 2; k++) {
        gsc_tensor *param = gsc_module_param(linear, k);
        double n = (double)gsc_tensor_count(param), sum = 0, squares = 0, largest = 0;
        for (size_t i = 0; i < gsc_tensor_count(param); i++) {
            double value = element_get(gsc_tensor_data(param), i);
            sum += value;
            squares += value * value;
            largest = fmax(largest, fabs(value));
        }
        assert_true(largest <= (double)(float)bound);
        assert_true(largest > (1 - 20 / n) * bound);
        /* Within five standard deviations of what a uniform distribution has. */
        assert_true(fabs(sum / n) < 5 * bound / sqrt(3 * n));
        assert_true(fabs(squares / n / (bound * bound / 3) - 1) < 5 * sqrt(0.8 / n));
    }
    gsc_module_free(linear);

    gsc_module *bare = new_linear(4, 2, false, &random);
    assert_int_equal(gsc_module_param_count(bare), 1);
    gsc_module_free(bare);
}

static void a_seed_fixes_the_weights_for_every_thread_count(void **state)
{
    (void)state;
    gsc_module *mlps[3];
    gsc_random ends[3];
    for (int i = 0; i < 3; i++) {
        gsc_set_num_threads(i + 1);
        ends[i] = gsc_random_init(5, 1);
        assert_ok(gsc_module_mlp((int64_t[]){300, 100, 7}, 3, GSC_ACTIVATION_RELU, &ends[i], &mlps[i]));
    }
    gsc_set_num_threads(0);
    for (size_t k = 0; k < gsc_module_param_count(mlps[0]); k++) {
        gsc_tensor *first = gsc_module_param(mlps[0], k);
        for (int i = 1; i < 3; i++)
            assert_memory_equal(gsc_tensor_data(first)->data, gsc_tensor_data(gsc_module_param(mlps[i], k))->data,
                                gsc_tensor_count(first) * sizeof(float));
    }
    /* Layers start with different weights, and the generator has advanced. */
    assert_true(element_get(gsc_tensor_data(gsc_module_param(mlps[0], 0)), 0) !=
                element_get(gsc_tensor_data(gsc_module_param(mlps[0], 2)), 0));
    assert_true(ends[0].counter > 0 && ends[0].counter == ends[2].counter);
    gsc_random other_seed = gsc_random_init(6, 1);
    gsc_module *other = new_linear(300, 100, true, &other_seed);
    assert_true(element_get(gsc_tensor_data(gsc_module_param(mlps[0], 0)), 0) !=
                element_get(gsc_tensor_data(gsc_module_param(other, 0)), 0));
    gsc_module_free(other);
    for (int i = 0; i < 3; i++)
        gsc_module_free(mlps[i]);
}

static void parameters_are_named_by_their_place(void **state)
{
    (void)state;
    gsc_random random = gsc_random_init(1, 0);
    gsc_module *inner = new_sequential((gsc_module *[]){new_linear(3, 4, true, &random), new_relu()}, 2);
    gsc_module *empty = new_sequential(NULL, 0);
    gsc_module *outer = new_sequential((gsc_module *[]){new_relu(), inner, empty, new_linear(4, 5, false, &random)}, 4);
    assert_int_equal(gsc_module_param_count(outer), 3);
    assert_param(outer, 0, "1.0.weight", 2, (int64_t[]){4, 3});
    assert_param(outer, 1, "1.0.bias", 1, (int64_t[]){4});
    assert_param(outer, 2, "3.weight", 2, (int64_t[]){5, 4});
    gsc_module_free(inner); /* belongs to outer: left alone */
    assert_string_equal(gsc_tensor_get_name(gsc_module_param(outer, 0)), "1.0.weight");
    gsc_module_free(outer);

    gsc_module *mlp;
    assert_ok(gsc_module_mlp((int64_t[]){6, 5, 4, 3}, 4, GSC_ACTIVATION_TANH, &random, &mlp));
    assert_int_equal(gsc_module_param_count(mlp), 6);
    assert_param(mlp, 0, "0.weight", 2, (int64_t[]){5, 6});
    assert_param(mlp, 3, "2.bias", 1, (int64_t[]){4});
    assert_param(mlp, 4, "4.weight", 2, (int64_t[]){3, 4});
    gsc_module_free(mlp);
}

/* x W^T + b with small integers, through relu and tanh. */
static void forward_applies_the_layers_in_order(void **state)
{
    (void)state;
    gsc_random random = gsc_random_init(1, 0);
    gsc_module *tanh_layer;
    assert_ok(gsc_module_tanh(&tanh_layer));
    gsc_module *model = new_sequential((gsc_module *[]){new_linear(2, 2, true, &random), new_relu(), tanh_layer}, 3);
    static const float weight[] = {1, 2, -3, 1}, bias[] = {0.5f, -1};
    memcpy(gsc_tensor_data(gsc_module_param(model, 0))->data, weight, sizeof weight);
    memcpy(gsc_tensor_data(gsc_module_param(model, 1))->data, bias, sizeof bias);
    float values[] = {0.25f, 0.5f};
    DLTensor input = {
        .data = values, .device = {kDLCPU, 0}, .ndim = 2, .dtype = GSC_FLOAT32, .shape = (int64_t[]){1, 2}};
    gsc_tape *tape;
    assert_ok(gsc_tape_create(&tape));
    gsc_tensor *x = gsc_tape_input(tape, &input), *y = gsc_module_forward(model, x);
    assert_non_null(y);
    assert_int_equal(gsc_tensor_count(y), 2);
    assert_float_equal(element_get(gsc_tensor_data(y), 0), tanh(1.75), 1e-6);
    assert_float_equal(element_get(gsc_tensor_data(y), 1), 0, 0);
    gsc_module *identity = new_sequential(NULL, 0);
    assert_ptr_equal(gsc_module_forward(identity, x), x);
    assert_null(gsc_module_forward(model, NULL));
    assert_null(gsc_module_forward(NULL, x));
    assert_message("gsc_module_forward: module is NULL");
    gsc_tape_free(tape);
    gsc_module_free(model);
    gsc_module_free(identity);
}

static void bad_layers_are_refused(void **state)
{
    (void)state;
    gsc_random random = gsc_random_init(1, 0);
    gsc_module *out = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_module_linear(0, 3, true, &random, &out), "gsc_module_linear: in_features is 0");
    assert_fails(GSC_ERR_VALUE, gsc_module_linear(3, -1, true, &random, &out), "out_features is -1");
    assert_fails(GSC_ERR_VALUE, gsc_module_linear(INT64_MAX, INT64_MAX, true, &random, &out), "does not fit");
    assert_fails(GSC_ERR_VALUE, gsc_module_linear(3, 3, true, NULL, &out), "random is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_module_linear(3, 3, true, &random, NULL), "out is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_module_relu(NULL), "gsc_module_relu: out is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_module_tanh(NULL), "gsc_module_tanh: out is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_module_mlp((int64_t[]){3}, 1, GSC_ACTIVATION_RELU, &random, &out), "n is 1");
    assert_fails(GSC_ERR_VALUE, gsc_module_mlp((int64_t[]){3, 0}, 2, GSC_ACTIVATION_RELU, &random, &out),
                 "gsc_module_mlp: sizes[1] is 0");
    assert_fails(GSC_ERR_VALUE, gsc_module_mlp((int64_t[]){3, 2}, 2, (gsc_activation)2, &random, &out),
                 "activation is 2");
    assert_fails(GSC_ERR_VALUE, gsc_module_mlp(NULL, 2, GSC_ACTIVATION_RELU, &random, &out), "sizes is NULL");
    assert_fails(GSC_ERR_VALUE,
                 gsc_module_mlp((int64_t[]){INT64_MAX, 2, INT64_MAX}, 3, GSC_ACTIVATION_RELU, &random, &out),
                 "does not fit");
    assert_null(out);
    assert_int_equal(random.counter, 0);
    assert_null(gsc_module_param(NULL, 0));
    assert_int_equal(gsc_module_param_count(NULL), 0);
    gsc_module_free(NULL);
}

static void bad_sequences_leave_their_children(void **state)
{
    (void)state;
    gsc_random random = gsc_random_init(1, 0);
    gsc_module *linear = new_linear(2, 2, true, &random), *relu = new_relu(), *out = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_module_sequential((gsc_module *[]){linear, NULL}, 2, &out), "children[1] is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_module_sequential((gsc_module *[]){linear, relu, linear}, 3, &out),
                 "children[2] is children[0] again");
    assert_fails(GSC_ERR_VALUE, gsc_module_sequential(NULL, 2, &out), "children is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_module_sequential(&linear, 1, NULL), "out is NULL");
    assert_null(out);
    assert_string_equal(gsc_tensor_get_name(gsc_module_param(linear, 0)), "weight");
    gsc_module *owner = new_sequential(&linear, 1);
    assert_fails(GSC_ERR_VALUE, gsc_module_sequential(&linear, 1, &out), "children[0] belongs to another sequence");
    gsc_module_free(owner);
    gsc_module_free(relu);
}

static void a_network_learns(void **state)
{
    (void)state;
    enum { POINTS = 64, STEPS = 400 };
    float x[POINTS], y[POINTS];
    for (int i = 0; i < POINTS; i++) {
        x[i] = (float)i / (POINTS / 2) - 1;
        y[i] = (float)sin(3 * (double)x[i]);
    }
    DLTensor inputs = {
        .data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = GSC_FLOAT32, .shape = (int64_t[]){POINTS, 1}};
    DLTensor targets = inputs;
    targets.data = y;
    gsc_random random = gsc_random_init(0, 0);
    gsc_module *model;
    assert_ok(gsc_module_mlp((int64_t[]){1, 16, 16, 1}, 4, GSC_ACTIVATION_TANH, &random, &model));
    gsc_tensor *params[6];
    for (size_t i = 0; i < 6; i++)
        params[i] = gsc_module_param(model, i);
    gsc_param_group group = gsc_param_group_default_adam(params, 6, 0.01);
    gsc_optim *optim;
    assert_ok(gsc_optim_create_adamw(&group, 1, &optim));
    gsc_tape *tape;
    assert_ok(gsc_tape_create(&tape));
    double first = 0, last = 0;
    for (int step = 0; step < STEPS; step++) {
        gsc_tensor *loss =
            gsc_mse_loss(gsc_module_forward(model, gsc_tape_input(tape, &inputs)), gsc_tape_input(tape, &targets));
        assert_ok(gsc_tape_backward(tape, loss));
        last = gsc_tensor_item(loss);
        first = step == 0 ? last : first;
        assert_ok(gsc_optim_step(optim));
        gsc_optim_zero_grad(optim);
        gsc_tape_clear(tape);
    }
    assert_true(first > 0.1);
    assert_true(last < 1e-3);
    gsc_tape_free(tape);
    gsc_optim_free(optim);
    gsc_module_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_is_initialised_as_in_pytorch),
        cmocka_unit_test(a_seed_fixes_the_weights_for_every_thread_count),
        cmocka_unit_test(parameters_are_named_by_their_place),
        cmocka_unit_test(forward_applies_the_layers_in_order),
        cmocka_unit_test(bad_layers_are_refused),
        cmocka_unit_test(bad_sequences_leave_their_children),
        cmocka_unit_test(a_network_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
