/* SPDX-License-Identifier: Apache-2.0 */
/* The tape: inputs, handles, chains, accumulation, what gets a gradient and what does not, reuse of memory, threads. */
#include <pthread.h>

#include "tape_rig.h"

static void inputs_are_copies(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *values = new_tensor(GSC_FLOAT32, SHAPE(3), VALUES(1, 2, 3));
    gsc_tensor *input = gsc_tape_input(tape, gsc_tensor_data(values));
    element_set(gsc_tensor_data(values), 1, 9);
    assert_true(element(input, 1) == 2);
    gsc_tensor_free(input); /* a tape's tensor is left alone */
    assert_true(element(input, 2) == 3);
    gsc_tensor_free(values);
    gsc_tape_free(tape);
}

static void strided_inputs_become_compact(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    float memory[13];
    for (int i = 0; i < 13; i++)
        memory[i] = (float)i;
    int64_t shape[] = {3, 2}, transposed[] = {1, 3}, backwards[] = {-4, 1}, repeated[] = {0, 1};
    DLTensor view = {.data = memory,
                     .device = {kDLCPU, 0},
                     .ndim = 2,
                     .dtype = GSC_FLOAT32,
                     .shape = shape,
                     .strides = transposed,
                     .byte_offset = sizeof(float)};
    const double expected[3][6] = {{1, 4, 2, 5, 3, 6}, {9, 10, 5, 6, 1, 2}, {1, 2, 1, 2, 1, 2}};
    for (int v = 0; v < 3; v++) {
        view.strides = v == 0 ? transposed : v == 1 ? backwards : repeated;
        view.byte_offset = v == 1 ? 9 * sizeof(float) : sizeof(float);
        gsc_tensor *input = gsc_tape_input(tape, &view);
        for (size_t i = 0; i < 6; i++)
            assert_true(element(input, i) == expected[v][i]);
        assert_null(gsc_tensor_data(input)->strides);
    }
    gsc_tape_free(tape);
}

static void bad_inputs_are_refused(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    float x = 0;
    int64_t shape[] = {1};
    const DLTensor good = {.data = &x, .device = {kDLCPU, 0}, .ndim = 1, .dtype = GSC_FLOAT32, .shape = shape};
    assert_non_null(gsc_tape_input(tape, &good));
    assert_op_fails(gsc_tape_input(NULL, &good), "tape is NULL");
    assert_op_fails(gsc_tape_input(tape, NULL), "values is NULL");
    DLTensor bad = good;
    bad.dtype.code = kDLComplex;
    assert_op_fails(gsc_tape_input(tape, &bad), "dtype is complex32;");
    bad = good;
    bad.device.device_type = kDLCUDA;
    assert_op_fails(gsc_tape_input(tape, &bad), "values is on CUDA device 0, only the CPU");
    bad = good;
    bad.data = NULL;
    assert_op_fails(gsc_tape_input(tape, &bad), "data is NULL");
    bad = good;
    bad.ndim = 9;
    assert_op_fails(gsc_tape_input(tape, &bad), "ndim is 9");
    shape[0] = -2;
    assert_op_fails(gsc_tape_input(tape, &good), "shape[0] is -2");
    assert_fails(GSC_ERR_VALUE, gsc_tape_create(NULL), "out is NULL");
    gsc_tape_free(tape);
    gsc_tape_free(NULL);
    gsc_tape_clear(NULL);
}

static void a_failed_chain_keeps_its_first_message(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *x = new_input(tape, GSC_FLOAT32, SHAPE(2, 3), NULL);
    gsc_tensor *labels = new_labels(tape, 2, (int64_t[]){0, 0});
    gsc_scaler *scaler;
    assert_ok(gsc_scaler_create(NULL, &scaler));
    gsc_tensor *bad = gsc_matmul(x, x);
    assert_null(bad);
    char first[512];
    strcpy(first, gsc_last_error());
    assert_non_null(strstr(first, "gsc_matmul"));
    gsc_tensor *results[] = {gsc_add(bad, x),
                             gsc_add(x, bad),
                             gsc_mul(bad, bad),
                             gsc_matmul(bad, x),
                             gsc_linear(bad, x, NULL),
                             gsc_linear(x, bad, x),
                             gsc_relu(bad),
                             gsc_tanh(bad),
                             gsc_cast(bad, (DLDataType){9, 9, 9}),
                             gsc_sum(bad),
                             gsc_mean(bad),
                             gsc_reshape(bad, -1, NULL),
                             gsc_mse_loss(x, bad),
                             gsc_cross_entropy_loss(bad, labels),
                             gsc_scale_loss(NULL, bad),
                             gsc_scale_loss(scaler, bad),
                             gsc_tape_param(NULL, bad)};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        assert_null(results[i]);
    assert_status(gsc_tape_backward(tape, bad), GSC_ERR_VALUE);
    assert_string_equal(gsc_last_error(), first);
    gsc_scaler_destroy(scaler);
    gsc_tape_free(tape);
}

static void tapes_are_found_and_not_mixed(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape(), *other = new_tape();
    gsc_tensor *param = new_parameter(GSC_FLOAT32, SHAPE(2), VALUES(1, 2));
    gsc_tensor *here = new_input(tape, GSC_FLOAT32, SHAPE(2), NULL);
    gsc_tensor *there = new_input(other, GSC_FLOAT32, SHAPE(2), NULL);
    assert_op_fails(gsc_add(here, there), "gsc_add", "a and b", "different tapes");
    assert_op_fails(gsc_relu(param), "gsc_relu", "no operand is on a tape");
    assert_op_fails(gsc_tape_param(tape, there), "another tape");
    assert_op_fails(gsc_tape_param(NULL, param), "tape is NULL");
    assert_ptr_equal(gsc_tape_param(tape, here), here);
    assert_non_null(gsc_mul(param, gsc_tape_param(tape, param)));
    gsc_tensor_free(param);
    gsc_tape_free(tape);
    gsc_tape_free(other);
}

static void a_handle_is_the_parameter(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *param = new_parameter(GSC_FLOAT32, SHAPE(1), VALUES(3));
    assert_ok(gsc_tensor_set_name(param, "w"));
    gsc_tensor *handle = gsc_tape_param(tape, param);
    assert_ptr_equal(gsc_tensor_data(handle), gsc_tensor_data(param));
    assert_string_equal(gsc_tensor_get_name(handle), "w");
    assert_true(gsc_tensor_get_requires_grad(handle));
    assert_true(gsc_tensor_item(handle) == 3);
    assert_ok(gsc_tape_backward(tape, handle)); /* d w / d w */
    assert_true(grad_element(param, 0) == 1);
    assert_ptr_equal(gsc_tensor_grad(handle), gsc_tensor_grad(param));
    gsc_tape_free(tape);
    gsc_tensor_free(param);
}

/* (w * x).sum() has the gradient x. */
static gsc_tensor *weighted(gsc_tape *tape, gsc_tensor *w, double x)
{
    return gsc_sum(gsc_mul(w, new_input(tape, GSC_FLOAT32, SHAPE(2), VALUES(x, 2 * x))));
}

static void backward_passes_accumulate(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *w = new_parameter(GSC_FLOAT32, SHAPE(2), NULL);
    for (int pass = 1; pass <= 3; pass++) {
        assert_ok(gsc_tape_backward(tape, weighted(tape, w, pass)));
        gsc_tape_clear(tape);
    }
    assert_true(grad_element(w, 0) == 1 + 2 + 3);
    assert_true(grad_element(w, 1) == 2 * (1 + 2 + 3));
    gsc_tensor_free(w);
    gsc_tape_free(tape);
}

static void a_tensor_used_twice_gets_both_gradients(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *w = new_parameter(GSC_FLOAT32, SHAPE(2, 2), VALUES(1, 2, 3, 4));
    gsc_tensor *x = gsc_tape_param(tape, w);
    gsc_tensor *hidden = gsc_tanh(gsc_add(x, x));
    /* sum(x * x) + sum(x @ x) + sum(hidden) * 0 + sum(hidden) */
    gsc_tensor *total = gsc_add(gsc_sum(gsc_mul(x, x)), gsc_sum(gsc_matmul(x, x)));
    total = gsc_add(total, gsc_mul(gsc_sum(hidden), new_input(tape, GSC_FLOAT32, 0, NULL, VALUES(0))));
    total = gsc_add(total, gsc_sum(hidden));
    assert_ok(gsc_tape_backward(tape, total));
    const double v[2][2] = {{1, 2}, {3, 4}};
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 2; j++) {
            double square = 2 * v[i][j], product = v[j][0] + v[j][1] + v[0][i] + v[1][i];
            double slope = 2 * (1 - pow(tanh(2 * v[i][j]), 2));
            assert_true(fabs(grad_element(w, 2 * i + j) - (square + product + slope)) < 1e-5);
        }
    gsc_tensor_free(w);
    gsc_tape_free(tape);
}

static void only_what_requires_a_gradient_gets_one(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *frozen = new_tensor(GSC_FLOAT32, SHAPE(2), VALUES(1, 2));
    gsc_tensor *trained = new_parameter(GSC_FLOAT32, SHAPE(2), VALUES(3, 4));
    gsc_tensor *unused = new_parameter(GSC_FLOAT32, SHAPE(2), VALUES(3, 4));
    gsc_tensor *watched = new_input(tape, GSC_FLOAT32, SHAPE(2), VALUES(5, 6));
    assert_ok(gsc_tensor_set_requires_grad(watched, true));
    gsc_tensor *constant = gsc_relu(gsc_mul(frozen, new_input(tape, GSC_FLOAT32, SHAPE(2), VALUES(5, 6))));
    gsc_tensor *aside = gsc_sum(gsc_mul(gsc_tape_param(tape, unused), constant));
    gsc_tensor *loss = gsc_sum(gsc_mul(gsc_add(trained, watched), constant));
    assert_false(gsc_tensor_get_requires_grad(constant));
    assert_true(gsc_tensor_get_requires_grad(loss));
    assert_ok(gsc_tape_backward(tape, loss));
    assert_true(grad_element(trained, 0) == 5 && grad_element(trained, 1) == 12);
    assert_true(grad_element(watched, 0) == 5 && grad_element(watched, 1) == 12);
    assert_null(gsc_tensor_grad(frozen));
    assert_null(gsc_tensor_grad(unused));
    assert_null(gsc_tensor_grad(constant));
    assert_null(gsc_tensor_grad(aside));
    gsc_tensor_free(frozen);
    gsc_tensor_free(trained);
    gsc_tensor_free(unused);
    gsc_tape_free(tape);
}

static void wrong_backward_calls_are_refused(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape(), *other = new_tape();
    gsc_tensor *w = new_parameter(GSC_FLOAT32, SHAPE(2), VALUES(1, 2));
    gsc_tensor *x = gsc_tape_param(tape, w);
    gsc_tensor *loss = gsc_sum(x);
    assert_fails(GSC_ERR_VALUE, gsc_tape_backward(NULL, loss), "tape is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_tape_backward(other, loss), "not on this tape");
    assert_fails(GSC_ERR_VALUE, gsc_tape_backward(tape, w), "not on this tape");
    assert_fails(GSC_ERR_VALUE, gsc_tape_backward(tape, x), "shape [2]");
    assert_fails(GSC_ERR_VALUE, gsc_tape_backward(tape, new_input(tape, GSC_FLOAT32, SHAPE(1), NULL)),
                 "no tensor that requires a gradient");
    assert_null(gsc_tensor_grad(w));
    assert_ok(gsc_tape_backward(tape, loss));
    assert_fails(GSC_ERR_STATE, gsc_tape_backward(tape, loss), "gsc_tape_clear");
    assert_true(grad_element(w, 0) == 1);
    gsc_tape_clear(tape);
    assert_ok(gsc_tape_backward(tape, gsc_sum(gsc_tape_param(tape, w))));
    assert_true(grad_element(w, 0) == 2);
    gsc_tensor_free(w);
    gsc_tape_free(tape);
    gsc_tape_free(other);
}

static void half_parameters_have_half_gradients(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *w = new_parameter(GSC_FLOAT16, SHAPE(1), VALUES(1));
    for (int pass = 0; pass < 2; pass++) {
        gsc_tensor *x = new_input(tape, GSC_FLOAT16, SHAPE(1), VALUES(2048));
        assert_ok(gsc_tape_backward(tape, gsc_sum(gsc_add(gsc_mul(w, x), w))));
        gsc_tape_clear(tape);
    }
    /* Each pass: 2048 + 1, a tie in float16, is 2048. */
    assert_true(dtype_is(gsc_tensor_grad(w)->dtype, GSC_FLOAT16));
    assert_true(grad_element(w, 0) == 4096);
    gsc_tensor_free(w);
    gsc_tape_free(tape);
}

typedef struct network {
    gsc_tape *tape;
    gsc_tensor *weight, *bias;
} network;

static network new_network(void)
{
    network net = {.tape = new_tape(), .weight = new_parameter(GSC_FLOAT32, SHAPE(3, 4), NULL)};
    net.bias = new_parameter(GSC_FLOAT32, SHAPE(3), VALUES(0.1, -0.2, 0.3));
    for (size_t i = 0; i < 12; i++)
        element_set(gsc_tensor_data(net.weight), i, 0.25 * ((double)(i * 5 % 7) - 3));
    return net;
}

static double train_step(network *net, int64_t rows)
{
    double x[64], y[64];
    for (int i = 0; i < 64; i++) {
        x[i] = (i * 7 % 11) / 11.0;
        y[i] = (i * 3 % 5) / 5.0;
    }
    gsc_tape_clear(net->tape);
    assert_ok(gsc_autocast_begin(GSC_FLOAT16, true));
    gsc_tensor *out = gsc_linear(new_input(net->tape, GSC_FLOAT32, SHAPE(rows, 4), x), net->weight, net->bias);
    gsc_tensor *loss = gsc_mse_loss(gsc_tanh(out), new_input(net->tape, GSC_FLOAT32, SHAPE(rows, 3), y));
    assert_ok(gsc_autocast_end());
    assert_ok(gsc_tape_backward(net->tape, loss));
    for (size_t i = 0; i < 12; i++)
        element_set(gsc_tensor_data(net->weight), i, element(net->weight, i) - 0.5 * grad_element(net->weight, i));
    gsc_tensor_zero_grad(net->weight);
    gsc_tensor_zero_grad(net->bias);
    return gsc_tensor_item(loss);
}

static void free_network(network *net)
{
    gsc_tensor_free(net->weight);
    gsc_tensor_free(net->bias);
    gsc_tape_free(net->tape);
}

/* Also where the last batch of an epoch is smaller. */
static void a_steady_loop_reuses_its_memory(void **state)
{
    (void)state;
    network net = new_network();
    double first = train_step(&net, 16), last = 0;
    train_step(&net, 16);
    gsc_tape_clear(net.tape);
    const void *before = gsc_tensor_data(new_input(net.tape, GSC_FLOAT32, SHAPE(1), NULL))->data;
    for (int step = 0; step < 50; step++)
        last = train_step(&net, step % 2 ? 16 : 7);
    gsc_tape_clear(net.tape);
    assert_ptr_equal(gsc_tensor_data(new_input(net.tape, GSC_FLOAT32, SHAPE(1), NULL))->data, before);
    assert_true(last < first);
    free_network(&net);
}

/* As many different products as oneDNN's cache does not hold. */
static void many_shapes_work(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *weight = new_tensor(GSC_FLOAT32, SHAPE(1, 2), VALUES(3, 4));
    for (int round = 0; round < 2; round++)
        for (int64_t rows = 1; rows <= 100; rows++) {
            gsc_tensor *x = gsc_add(new_input(tape, GSC_FLOAT32, SHAPE(rows, 2), NULL),
                                    new_input(tape, GSC_FLOAT32, SHAPE(2), VALUES(1, 2)));
            gsc_tensor *y = gsc_linear(x, weight, NULL);
            assert_true(element(y, 0) == 11 && element(y, (size_t)rows - 1) == 11);
            gsc_tape_clear(tape);
        }
    gsc_tensor_free(weight);
    gsc_tape_free(tape);
}

static void *train_alone(void *loss)
{
    network net = new_network();
    for (int step = 0; step < 20; step++)
        *(double *)loss = train_step(&net, 16);
    free_network(&net);
    return NULL;
}

static void two_threads_have_a_tape_each(void **state)
{
    (void)state;
    pthread_t threads[2];
    double losses[2] = {1, 2};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, train_alone, &losses[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(losses[0] == losses[1]);
}

/* A leaf that is frozen after the forward pass gets no gradient from any op. */
static void test_a_leaf_frozen_before_backward(void **state)
{
    (void)state;
    gsc_tape *tape = new_tape();
    gsc_tensor *p = new_parameter(GSC_FLOAT32, SHAPE(2, 2), VALUES(1, 2, 3, 4));
    for (int op = 0; op < 9; op++) {
        gsc_tensor *on_tape = gsc_tape_param(tape, p), *x = NULL;
        const int64_t labels[] = {0, 1};
        switch (op) {
        case 0: x = gsc_relu(on_tape); break;
        case 1: x = gsc_tanh(on_tape); break;
        case 2: x = gsc_cast(on_tape, GSC_FLOAT16); break;
        case 3: x = gsc_mean(on_tape); break;
        case 4: x = gsc_reshape(on_tape, SHAPE(4)); break;
        case 5: x = gsc_add(on_tape, on_tape); break;
        case 6: x = gsc_matmul(on_tape, on_tape); break;
        case 7: x = gsc_cross_entropy_loss(on_tape, new_labels(tape, 2, labels)); break;
        default: x = gsc_linear(on_tape, p, NULL); break;
        }
        gsc_tensor *root = gsc_sum(x);
        assert_non_null(root);
        assert_ok(gsc_tensor_set_requires_grad(p, false));
        assert_ok(gsc_tape_backward(tape, root));
        assert_null(gsc_tensor_grad(p));
        assert_ok(gsc_tensor_set_requires_grad(p, true));
        gsc_tape_clear(tape);
    }
    gsc_tensor_free(p);
    gsc_tape_free(tape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_are_copies),
        cmocka_unit_test(strided_inputs_become_compact),
        cmocka_unit_test(bad_inputs_are_refused),
        cmocka_unit_test(a_failed_chain_keeps_its_first_message),
        cmocka_unit_test(tapes_are_found_and_not_mixed),
        cmocka_unit_test(a_handle_is_the_parameter),
        cmocka_unit_test(backward_passes_accumulate),
        cmocka_unit_test(a_tensor_used_twice_gets_both_gradients),
        cmocka_unit_test(only_what_requires_a_gradient_gets_one),
        cmocka_unit_test(wrong_backward_calls_are_refused),
        cmocka_unit_test(half_parameters_have_half_gradients),
        cmocka_unit_test(a_steady_loop_reuses_its_memory),
        cmocka_unit_test(many_shapes_work),
        cmocka_unit_test(two_threads_have_a_tape_each),
        cmocka_unit_test(test_a_leaf_frozen_before_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
