/* SPDX-License-Identifier: Apache-2.0 */
/* Every function that creates something or allocates temporarily: each of its allocations fails once. The function
 * reports it, returns nothing, leaves its arguments unchanged, and the same call succeeds afterwards. */
#include "failing.h"

#include <math.h>

#include "asserts.h"
#include "gradscaler/train.h"

enum { COUNT = 4096 };

static float numbers[COUNT];

/* The arguments of the functions; the same before each call. */
typedef struct given {
    gsc_random random;
    gsc_module *children[2]; /* linear, ReLU */
    gsc_tensor *params[2];
    gsc_dataset *dataset;
    gsc_tensor *named;
} given;

static void make_given(given *g)
{
    *g = (given){.random = gsc_random_init(1, 0)};
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)(i % 11);
    assert_ok(gsc_module_linear(3, 2, true, &g->random, &g->children[0]));
    assert_ok(gsc_module_relu(&g->children[1]));
    for (int i = 0; i < 2; i++) {
        assert_ok(gsc_tensor_create(GSC_FLOAT32, 1, (int64_t[]){3}, &g->params[i]));
        assert_ok(gsc_tensor_set_requires_grad(g->params[i], true));
    }
    assert_ok(gsc_dataset_regression(numbers, numbers, 4, 3, 2, &g->dataset));
    assert_ok(gsc_tensor_create(GSC_FLOAT32, 0, NULL, &g->named));
    assert_ok(gsc_tensor_set_name(g->named, "old"));
}

static void free_given(given *g)
{
    gsc_module_free(g->children[0]);
    gsc_module_free(g->children[1]);
    gsc_tensor_free(g->params[0]);
    gsc_tensor_free(g->params[1]);
    gsc_dataset_free(g->dataset);
    gsc_tensor_free(g->named);
}

static void check_given(given *g)
{
    for (int i = 0; i < COUNT; i++)
        assert_true(numbers[i] == (float)(i % 11));
    assert_int_equal(g->random.counter, 8); /* the linear layer's draws */
    assert_string_equal(gsc_tensor_get_name(gsc_module_param(g->children[0], 0)), "weight");
    assert_string_equal(gsc_tensor_get_name(g->named), "old");
}

static gsc_status do_nothing(void *ctx)
{
    (void)ctx;
    return GSC_OK;
}

static gsc_status make_scaler(given *g, void **out)
{
    (void)g;
    return gsc_scaler_create(NULL, (gsc_scaler **)out);
}

static gsc_status make_scaler_with_window(given *g, void **out)
{
    (void)g;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.skip_window = 100;
    options.max_skip_share = 0.5;
    return gsc_scaler_create(&options, (gsc_scaler **)out);
}

static gsc_status make_optimizer(given *g, void **out)
{
    (void)g;
    const gsc_buffer buffer = {.data = numbers, .count = COUNT, .dtype = GSC_FLOAT32, .name = "numbers"};
    return gsc_optimizer_from_buffers(&buffer, 1, do_nothing, NULL, (gsc_optimizer **)out);
}

static gsc_status make_tensor(given *g, void **out)
{
    (void)g;
    return gsc_tensor_create(GSC_FLOAT16, 2, (int64_t[]){2, 3}, (gsc_tensor **)out);
}

static gsc_status make_tape(given *g, void **out)
{
    (void)g;
    return gsc_tape_create((gsc_tape **)out);
}

static gsc_status make_linear(given *g, void **out)
{
    return gsc_module_linear(3, 2, true, &g->random, (gsc_module **)out);
}

static gsc_status make_tanh(given *g, void **out)
{
    (void)g;
    return gsc_module_tanh((gsc_module **)out);
}

static gsc_status make_sequential(given *g, void **out)
{
    gsc_status status = gsc_module_sequential(g->children, 2, (gsc_module **)out);
    if (status == GSC_OK)
        g->children[0] = g->children[1] = NULL; /* the sequence owns them now */
    return status;
}

static gsc_status make_mlp(given *g, void **out)
{
    return gsc_module_mlp((int64_t[]){3, 5, 4, 2}, 4, GSC_ACTIVATION_TANH, &g->random, (gsc_module **)out);
}

static gsc_status make_sgd(given *g, void **out)
{
    gsc_param_group group = gsc_param_group_default_sgd(g->params, 2, 0.1);
    group.momentum = 0.9;
    return gsc_optim_create_sgd(&group, 1, (gsc_optim **)out);
}

static gsc_status make_adam(given *g, void **out)
{
    const gsc_param_group groups[] = {gsc_param_group_default_adam(g->params, 1, 0.1),
                                      gsc_param_group_default_adam(g->params + 1, 1, 0.2)};
    return gsc_optim_create_adam(groups, 2, (gsc_optim **)out);
}

static gsc_status make_adamw(given *g, void **out)
{
    const gsc_param_group group = gsc_param_group_default_adam(g->params, 2, 0.1);
    return gsc_optim_create_adamw(&group, 1, (gsc_optim **)out);
}

static gsc_status make_dataset(given *g, void **out)
{
    (void)g;
    return gsc_dataset_regression(numbers, numbers, 4, 3, 2, (gsc_dataset **)out);
}

static gsc_status make_classification(given *g, void **out)
{
    static const int64_t labels[4] = {0, 1, 2, 1};
    (void)g;
    return gsc_dataset_classification(numbers, labels, 4, 3, 3, (gsc_dataset **)out);
}

static gsc_status make_loader(given *g, void **out)
{
    return gsc_loader_create(g->dataset, 3, true, 5, (gsc_loader **)out);
}

static void free_scaler(void *made) { gsc_scaler_destroy(made); }
static void free_optimizer(void *made) { gsc_optimizer_free(made); }
static void free_tensor(void *made) { gsc_tensor_free(made); }
static void free_tape(void *made) { gsc_tape_free(made); }
static void free_module(void *made) { gsc_module_free(made); }
static void free_optim(void *made) { gsc_optim_free(made); }
static void free_dataset(void *made) { gsc_dataset_free(made); }
static void free_loader(void *made) { gsc_loader_free(made); }

typedef struct maker {
    const char *name;
    gsc_status (*make)(given *g, void **out);
    void (*free)(void *made);
    int least; /* allocations */
} maker;

static const maker makers[] = {
    {"gsc_scaler_create", make_scaler, free_scaler, 1},
    {"gsc_scaler_create with a skip_window", make_scaler_with_window, free_scaler, 2},
    {"gsc_optimizer_from_buffers", make_optimizer, free_optimizer, 1},
    {"gsc_tensor_create", make_tensor, free_tensor, 2},
    {"gsc_tape_create", make_tape, free_tape, 2},
    {"gsc_module_linear", make_linear, free_module, 7},
    {"gsc_module_tanh", make_tanh, free_module, 1},
    {"gsc_module_sequential", make_sequential, free_module, 4},
    {"gsc_module_mlp", make_mlp, free_module, 20},
    {"gsc_optim_create_sgd", make_sgd, free_optim, 5},
    {"gsc_optim_create_adam", make_adam, free_optim, 5},
    {"gsc_optim_create_adamw", make_adamw, free_optim, 5},
    {"gsc_dataset_regression", make_dataset, free_dataset, 3},
    {"gsc_dataset_classification", make_classification, free_dataset, 3},
    {"gsc_loader_create", make_loader, free_loader, 3},
};

/* Whether the n-th allocation was reached. */
static bool make_failing(const maker *m, int n)
{
    given g;
    static char sentinel;
    void *made = &sentinel;
    make_given(&g);
    failing_start(n);
    gsc_status status = m->make(&g, &made);
    bool failed = failing_stop();
    assert_int_equal(failed, status != GSC_OK);
    if (failed) {
        assert_out_of_memory(status);
        assert_ptr_equal(made, &sentinel);
        check_given(&g);
        assert_ok(m->make(&g, &made));
    }
    m->free(made);
    free_given(&g);
    return failed;
}

/* trial T41 */
static void test_each_allocation_of_a_create_function(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof makers / sizeof makers[0]; i++) {
        int n = 0;
        while (make_failing(&makers[i], n))
            n++;
        print_message("%s: %d allocations failed, one at a time\n", makers[i].name, n);
        assert_true(n >= makers[i].least);
    }
}

static void test_a_name_that_cannot_be_copied(void **state)
{
    (void)state;
    given g;
    make_given(&g);
    failing_start(0);
    gsc_status status = gsc_tensor_set_name(g.named, "new");
    assert_true(failing_stop());
    assert_out_of_memory(status);
    check_given(&g);
    assert_ok(gsc_tensor_set_name(g.named, "new"));
    assert_string_equal(gsc_tensor_get_name(g.named), "new");
    free_given(&g);
}

/* gradients.h: lists that are too long for the stack. */
enum { TENSORS = 200 };
static DLTensor tensors[TENSORS];
static DLTensor *list[TENSORS];
static int64_t sizes[] = {COUNT / TENSORS};

static void fill_list(void)
{
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)(i % 11);
    for (int i = 0; i < TENSORS; i++) {
        tensors[i] = (DLTensor){
            .data = numbers + i * sizes[0], .device = {kDLCPU, 0}, .ndim = 1, .dtype = GSC_FLOAT32, .shape = sizes};
        list[i] = &tensors[i];
    }
}

static gsc_status unscale_list(double *answer)
{
    bool found_inf = true;
    gsc_status status = gsc_unscale_grads(list, TENSORS, 2, &found_inf);
    *answer = status == GSC_OK ? (double)found_inf : -1;
    return status;
}

static gsc_status check_list(double *answer)
{
    bool found_inf = true;
    gsc_status status = gsc_check_grads(list, TENSORS, &found_inf);
    *answer = status == GSC_OK ? (double)found_inf : -1;
    return status;
}

static gsc_status norm_of_list(double *answer) { return gsc_grad_norm(list, TENSORS, 3, answer); }
static gsc_status clip_list(double *answer) { return gsc_clip_grad_norm(list, TENSORS, 1, 2, answer); }

static gsc_status clamp_list(double *answer)
{
    *answer = 0;
    return gsc_clip_grad_value(list, TENSORS, 4);
}

static gsc_status scale_list(double *answer)
{
    static gsc_scaler *scaler;
    gsc_status status = scaler ? GSC_OK : gsc_scaler_create(NULL, &scaler);
    *answer = 0;
    if (status == GSC_OK)
        status = gsc_scaler_scale_list(scaler, list, list, TENSORS);
    if (status == GSC_OK) {
        gsc_scaler_destroy(scaler);
        scaler = NULL;
    }
    return status;
}

/* The n-th allocation of `call` fails; whether there was one. *answer and the numbers are what success leaves. */
static bool call_failing(gsc_status (*call)(double *answer), int n, double *answer)
{
    fill_list();
    *answer = -77;
    failing_start(n);
    gsc_status status = call(answer);
    bool failed = failing_stop();
    assert_int_equal(failed, status != GSC_OK);
    if (failed) {
        assert_out_of_memory(status);
        for (int i = 0; i < COUNT; i++)
            assert_true(numbers[i] == (float)(i % 11));
        assert_ok(call(answer));
    }
    return failed;
}

static void test_lists_of_gradients(void **state)
{
    (void)state;
    gsc_status (*const calls[])(double *) = {unscale_list, check_list, norm_of_list, clip_list, clamp_list, scale_list};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        static float expected[COUNT];
        double answer, expected_answer;
        call_failing(calls[i], -1, &expected_answer);
        memcpy(expected, numbers, sizeof expected);
        int n = 0;
        while (call_failing(calls[i], n, &answer)) {
            assert_memory_equal(numbers, expected, sizeof expected);
            assert_true(answer == expected_answer);
            n++;
        }
        assert_true(n > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_allocation_of_a_create_function),
        cmocka_unit_test(test_a_name_that_cannot_be_copied),
        cmocka_unit_test(test_lists_of_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
