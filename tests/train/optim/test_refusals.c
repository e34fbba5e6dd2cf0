/* SPDX-License-Identifier: Apache-2.0 */
/* What optimizers refuse: the message says what is wrong and where, and nothing has changed. */
#include <math.h>
#include <string.h>

#include "param.h"

typedef gsc_status create_function(const gsc_param_group *groups, size_t n, gsc_optim **out);

/* Counts its calls: there must be none. */
static double forbidden_closure(void *ctx)
{
    ++*(int *)ctx;
    return 0;
}

/* section 6.2 */
static void bad_settings_are_refused(void **state)
{
    (void)state;
    static const struct {
        create_function *create;
        gsc_param_group group;
        const char *message;
    } cases[] = {
        {gsc_optim_create_sgd,
         {.lr = -1},
         "gsc_optim_create_sgd: groups[1].lr is -1, allowed is a number in [0, FLT_MAX]"},
        {gsc_optim_create_sgd, {.lr = NAN}, "groups[1].lr is nan"},
        {gsc_optim_create_sgd, {.lr = INFINITY}, "groups[1].lr is inf"},
        {gsc_optim_create_sgd, {.lr = 1e39}, "groups[1].lr is 1e+39"},
        {gsc_optim_create_sgd, {.weight_decay = -0.5}, "groups[1].weight_decay is -0.5"},
        {gsc_optim_create_sgd, {.weight_decay = NAN}, "groups[1].weight_decay is nan"},
        {gsc_optim_create_sgd, {.momentum = -0.1}, "groups[1].momentum is -0.1"},
        {gsc_optim_create_sgd, {.momentum = 0.9, .dampening = NAN}, "groups[1].dampening is nan"},
        {gsc_optim_create_sgd, {.momentum = 0.9, .dampening = 1.5}, "groups[1].dampening is 1.5"},
        {gsc_optim_create_sgd, {.nesterov = true}, "needs momentum > 0 and dampening 0"},
        {gsc_optim_create_sgd,
         {.nesterov = true, .momentum = 0.9, .dampening = 0.1},
         "needs momentum > 0 and dampening 0"},
        {gsc_optim_create_sgd,
         {.beta1 = 0.9},
         "groups[1].beta1 is 0.9, allowed is 0: this kind of optimizer does not read"},
        {gsc_optim_create_sgd, {.beta2 = 0.9}, "groups[1].beta2"},
        {gsc_optim_create_sgd, {.eps = 1e-8}, "groups[1].eps"},
        {gsc_optim_create_sgd, {.reserved = {0, 1}}, "groups[1].reserved[1] is not zero"},
        {gsc_optim_create_sgd, {.count = 1}, "groups[1].params is NULL with count 1"},
        {gsc_optim_create_adam, {.lr = -1}, "gsc_optim_create_adam: groups[1].lr is -1"},
        {gsc_optim_create_adam, {.beta1 = 1}, "groups[1].beta1 is 1, allowed is a number in [0, 1)"},
        {gsc_optim_create_adam, {.beta1 = -0.1}, "groups[1].beta1"},
        {gsc_optim_create_adam, {.beta2 = NAN}, "groups[1].beta2 is nan"},
        {gsc_optim_create_adam, {.eps = -1e-8}, "groups[1].eps is -1e-08"},
        {gsc_optim_create_adam, {.eps = INFINITY}, "groups[1].eps is inf"},
        {gsc_optim_create_adamw, {.weight_decay = -1}, "gsc_optim_create_adamw: groups[1].weight_decay"},
        {gsc_optim_create_adamw, {.momentum = 0.9}, "groups[1].momentum"},
        {gsc_optim_create_adamw, {.dampening = 0.9}, "groups[1].dampening"},
        {gsc_optim_create_adamw, {.nesterov = true}, "groups[1].nesterov is 1"},
        {gsc_optim_create_adamw, {.reserved = {1}}, "groups[1].reserved[0] is not zero"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        gsc_param_group groups[2] = {{0}, cases[i].group};
        gsc_optim *optim = NULL;
        assert_fails(GSC_ERR_VALUE, cases[i].create(groups, 2, &optim), cases[i].message);
        assert_null(optim);
    }
}

/* section 6.2 */
static void bad_parameters_are_refused(void **state)
{
    (void)state;
    gsc_tensor *w = new_param(GSC_FLOAT32, 3, "w"), *half = new_param(GSC_FLOAT16, 3, "h"), *labels;
    assert_ok(gsc_tensor_create(GSC_INT64, 0, NULL, &labels));
    gsc_tape *tape;
    assert_ok(gsc_tape_create(&tape));
    gsc_tensor *handle = gsc_tape_param(tape, w);
    gsc_optim *optim = NULL;
    gsc_param_group groups[2] = {gsc_param_group_default_sgd(&w, 1, 0.1),
                                 gsc_param_group_default_sgd((gsc_tensor *[]){half, w}, 2, 0.1)};
    assert_fails(GSC_ERR_VALUE, gsc_optim_create_sgd(groups, 2, &optim),
                 "groups[1].params[0] (\"h\") is float16; parameters must be float32 or float64: keep float32 master");
    groups[1] = gsc_param_group_default_sgd((gsc_tensor *[]){labels}, 1, 0.1);
    assert_fails(GSC_ERR_VALUE, gsc_optim_create_sgd(groups, 2, &optim),
                 "groups[1].params[0] is int64; parameters must be");
    groups[1] = gsc_param_group_default_sgd((gsc_tensor *[]){NULL}, 1, 0.1);
    assert_fails(GSC_ERR_VALUE, gsc_optim_create_sgd(groups, 2, &optim), "groups[1].params[0] is NULL");
    groups[1] = gsc_param_group_default_sgd(&handle, 1, 0.1);
    assert_fails(GSC_ERR_VALUE, gsc_optim_create_sgd(groups, 2, &optim), "groups[1].params[0] belongs to a tape");
    groups[1] = gsc_param_group_default_sgd(&w, 1, 0.1);
    assert_fails(GSC_ERR_VALUE, gsc_optim_create_sgd(groups, 2, &optim),
                 "groups[1].params[0] (\"w\") is groups[0].params[0] again; list each parameter once");
    assert_fails(GSC_ERR_VALUE, gsc_optim_create_sgd(groups, 0, &optim), "n is 0");
    assert_fails(GSC_ERR_VALUE, gsc_optim_create_sgd(NULL, 1, &optim), "groups is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_optim_create_sgd(groups, 1, NULL), "out is NULL");
    assert_null(optim);

    assert_ok(gsc_optim_create_sgd(groups, 1, &optim));
    assert_fails(GSC_ERR_VALUE, gsc_optim_set_lr(optim, 1, 0.1), "group is 1, but the optimizer has 1 groups");
    assert_fails(GSC_ERR_VALUE, gsc_optim_set_lr(optim, 0, NAN), "gsc_optim_set_lr: groups[0].lr is nan");
    assert_fails(GSC_ERR_VALUE, gsc_optim_set_lr(NULL, 0, 0.1), "optim is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_optim_step(NULL), "optim is NULL");
    assert_float_equal(gsc_optim_get_lr(optim, 0), 0.1, 0);
    assert_true(isnan(gsc_optim_get_lr(optim, 5)));
    gsc_optim_free(optim);
    gsc_optim_free(NULL);
    gsc_optim_zero_grad(NULL);
    gsc_tape_free(tape);
    gsc_tensor_free(w);
    gsc_tensor_free(half);
    gsc_tensor_free(labels);
}

/* section 6.2 */
static void bad_steps_change_nothing(void **state)
{
    (void)state;
    gsc_tensor *params[2] = {new_scalar(1, 1), new_scalar(1, 1)};
    gsc_param_group group = gsc_param_group_default_sgd(params, 2, 0.1);
    gsc_optim *optim;
    assert_ok(gsc_optim_create_sgd(&group, 1, &optim));
    const gsc_optimizer *interface = gsc_optim_optimizer(optim);
    double value;
    bool has_value;
    int calls = 0;
    gsc_step_args args = {.closure = forbidden_closure, .closure_ctx = &calls, .reserved = {1}};
    gsc_grad_scaling scaling = {.multiplier = 1};

    assert_fails(GSC_ERR_VALUE, interface->step(optim, &args, &value, &has_value), "args.reserved[0]");
    args.reserved[0] = 0;
    assert_fails(GSC_ERR_STATE, interface->step_scaled(optim, &args, &scaling, &value, &has_value), "closure");
    assert_int_equal(calls, 0);
    args.closure = NULL;
    scaling.multiplier_dev = gsc_tensor_data(params[0]);
    assert_fails(GSC_ERR_DEVICE, interface->step_scaled(optim, &args, &scaling, &value, &has_value), "on the CPU");
    scaling = (gsc_grad_scaling){.multiplier = 1, .multiplier64_dev = gsc_tensor_data(params[0])};
    assert_fails(GSC_ERR_DEVICE, interface->step_scaled(optim, &args, &scaling, &value, &has_value), "on the CPU");
    static const double multipliers[] = {-1, 1e39};
    for (size_t i = 0; i < 2; i++) {
        scaling = (gsc_grad_scaling){.multiplier = multipliers[i]};
        assert_fails(GSC_ERR_VALUE, interface->step_scaled(optim, &args, &scaling, &value, &has_value),
                     "scaling->multiplier");
    }
    scaling = (gsc_grad_scaling){.multiplier = 1, .reserved = {0, 0, 3}};
    assert_fails(GSC_ERR_VALUE, interface->step_scaled(optim, &args, &scaling, &value, &has_value),
                 "scaling.reserved[2]");

    DLTensor *grad = gsc_tensor_grad(params[1]), before = *grad;
    grad->dtype = GSC_FLOAT16;
    assert_fails(GSC_ERR_VALUE, gsc_optim_step(optim), "the gradient of parameter 1 (\"w\") is float16 with ndim 1");
    *grad = before;
    grad->ndim = 0;
    assert_fails(GSC_ERR_VALUE, gsc_optim_step(optim), "with ndim 0 and shape []; expected is a compact float32 of");
    *grad = before;
    grad->data = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_optim_step(optim), "the gradient of parameter 1");
    *grad = before;
    grad->shape = (int64_t[]){2};
    assert_fails(GSC_ERR_VALUE, gsc_optim_step(optim), "shape [2]; expected is a compact float32 of shape [1]");
    *grad = before;
    assert_true(element_get(gsc_tensor_data(params[0]), 0) == 1);
    assert_int_equal(gsc_optim_get_step_count(optim, 0), 0);
    assert_ok(gsc_optim_step(optim));
    assert_int_equal(gsc_optim_get_step_count(optim, 0), 1);
    gsc_optim_free(optim);
    gsc_tensor_free(params[0]);
    gsc_tensor_free(params[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(bad_parameters_are_refused),
        cmocka_unit_test(bad_steps_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
