/* SPDX-License-Identifier: Apache-2.0 */
/* What the fused optimizers refuse, in words, and that nothing has changed then. */
#include <float.h>

#include "optim_rig.h"

typedef struct refusal {
    cuda_create_function *create;
    gsc_cuda_param_group group;
    const char *message;
} refusal;

#define SGD gsc_cuda_optim_create_sgd
#define ADAM gsc_cuda_optim_create_adam
#define ADAMW gsc_cuda_optim_create_adamw

static void settings_are_checked(void **state)
{
    (void)state;
    static const refusal refusals[] = {
        {SGD, {.lr = -1}, "gsc_cuda_optim_create_sgd: groups[1].lr is -1, allowed is a number in [0, FLT_MAX]"},
        {SGD, {.lr = NAN}, "groups[1].lr is nan"},
        {SGD, {.lr = 1e39}, "groups[1].lr is 1e+39"},
        {SGD, {.weight_decay = -0.5}, "groups[1].weight_decay is -0.5"},
        {SGD, {.momentum = INFINITY}, "groups[1].momentum is inf"},
        {SGD, {.momentum = 0.9, .dampening = 1.5}, "groups[1].dampening is 1.5"},
        {SGD, {.nesterov = true}, "groups[1].nesterov is set with momentum 0"},
        {SGD, {.beta1 = 0.9}, "groups[1].beta1 is 0.9, allowed is 0: this kind of optimizer does not read"},
        {ADAM, {.beta1 = 1}, "gsc_cuda_optim_create_adam: groups[1].beta1 is 1, allowed is a number in [0, 1)"},
        {ADAM, {.beta2 = NAN}, "groups[1].beta2 is nan"},
        {ADAMW, {.eps = -1}, "gsc_cuda_optim_create_adamw: groups[1].eps is -1"},
        {ADAMW, {.momentum = 0.9}, "groups[1].momentum is 0.9, allowed is 0"},
        {ADAMW, {.nesterov = true}, "groups[1].nesterov"},
        {ADAMW, {.reserved = {0, 1}}, "groups[1].reserved[1] is not zero"},
        {ADAMW, {.count = 1}, "groups[1].params is NULL with count 1"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const gsc_cuda_param_group groups[2] = {{.lr = 1}, refusals[i].group};
        gsc_cuda_optim *out = (gsc_cuda_optim *)&out;
        assert_fails(GSC_ERR_VALUE, refusals[i].create(groups, 2, &out), refusals[i].message);
        assert_ptr_equal(out, &out);
    }
}

/* One group of two parameters, the second of which a test spoils. */
typedef struct pair {
    int64_t shapes[2][2], strides[2];
    DLTensor params[2], grads[2], *param_at[3], *grad_at[3];
    const char *names[3];
    gsc_cuda_param_group group;
    char *memory;
} pair;

static void pair_make(pair *p)
{
    *p = (pair){.shapes = {{2, 3}, {2, 3}}, .strides = {3, 1}, .names = {NULL, "bias"}};
    p->memory = standin_alloc(0, 1024);
    for (int k = 0; k < 2; k++) {
        p->params[k] = tensor_on_device(0, p->memory + 256 * k, GSC_FLOAT32, p->shapes[k], 0);
        p->grads[k] = tensor_on_device(0, p->memory + 512 + 256 * k, GSC_FLOAT32, p->shapes[k], 0);
        p->params[k].ndim = p->grads[k].ndim = 2;
        p->param_at[k] = &p->params[k];
        p->grad_at[k] = &p->grads[k];
    }
    p->group = gsc_cuda_param_group_default_adam(p->param_at, p->grad_at, 2, 0.1);
    p->group.names = p->names;
}

static void refuses(pair *p, gsc_status status, const char *message)
{
    gsc_cuda_optim *out = NULL;
    assert_fails(status, ADAM(&p->group, 1, &out), "gsc_cuda_optim_create_adam: ", message);
    assert_null(out);
    standin_free(p->memory);
    pair_make(p);
}

static void parameters_are_checked(void **state)
{
    (void)state;
    pair p;
    gsc_cuda_optim *out = NULL;
    pair_make(&p);
    assert_fails(GSC_ERR_VALUE, ADAM(&p.group, 1, NULL), "out is NULL");
    assert_fails(GSC_ERR_VALUE, ADAM(NULL, 1, &out), "groups is NULL; give at least one group");
    assert_fails(GSC_ERR_VALUE, ADAM(&p.group, 0, &out), "n is 0; give at least one group");
    p.group.count = 0;
    refuses(&p, GSC_ERR_VALUE, "no group has a parameter");
    p.group.grads = NULL;
    refuses(&p, GSC_ERR_VALUE, "groups[0].grads is NULL with count 2");
    p.param_at[1] = NULL;
    refuses(&p, GSC_ERR_VALUE, "groups[0].params[1] (\"bias\") is NULL");
    p.params[1].dtype = GSC_BFLOAT16;
    refuses(&p, GSC_ERR_VALUE,
            "groups[0].params[1] (\"bias\") is bfloat16; parameters must be float32 or float64: keep float32 master");
    p.params[1].dtype = (DLDataType){kDLInt, 32, 1};
    refuses(&p, GSC_ERR_VALUE, "(\"bias\") is int32; parameters must be float32 or float64");
    p.params[1].ndim = -1;
    refuses(&p, GSC_ERR_VALUE, "(\"bias\") has ndim -1");
    p.params[1].shape = NULL;
    refuses(&p, GSC_ERR_VALUE, "(\"bias\") has ndim 2 and no shape");
    p.shapes[1][0] = -2;
    refuses(&p, GSC_ERR_VALUE, "(\"bias\") has shape [-2, 3]");
    p.shapes[1][0] = INT64_MAX / 8;
    refuses(&p, GSC_ERR_VALUE, "less than 2^63 bytes");
    p.params[1].device = (DLDevice){kDLCPU, 0};
    refuses(&p, GSC_ERR_DEVICE, "(\"bias\") is on the CPU; parameters must be on a CUDA device");
    p.params[1].device.device_id = 1;
    refuses(&p, GSC_ERR_DEVICE,
            "(\"bias\") is on CUDA device 1, groups[0].params[0] on CUDA device 0; make an optimizer for each");
    p.params[0].device.device_id = p.params[1].device.device_id = 99;
    refuses(&p, GSC_ERR_DEVICE, "99");
    p.params[1].strides = (int64_t[]){1, 2};
    refuses(&p, GSC_ERR_VALUE, "(\"bias\") is not compact (row-major without gaps)");
    p.params[1].data = NULL;
    refuses(&p, GSC_ERR_VALUE, "(\"bias\") has no data");
    p.params[1].byte_offset = 2;
    refuses(&p, GSC_ERR_VALUE, "(\"bias\") is not aligned to its elements");
    p.param_at[1] = p.param_at[0];
    refuses(&p, GSC_ERR_VALUE, "groups[0].params[1] (\"bias\") shares memory with groups[0].params[0]; list each");
    p.param_at[2] = p.param_at[1];
    p.names[2] = "again";
    p.group.count = 3;
    refuses(&p, GSC_ERR_VALUE, "groups[0].params[2] (\"again\") shares memory with groups[0].params[1]");
    p.params[1].data = p.memory + 20; /* the last of six elements */
    refuses(&p, GSC_ERR_VALUE, "shares memory with groups[0].params[0]");
    p.shapes[1][0] = INT64_C(1) << 45;
    refuses(&p, GSC_ERR_VALUE, "2^42 elements or more; make several optimizers");
    p.shapes[1][0] = INT64_C(1) << 38;
    refuses(&p, GSC_ERR_MEMORY, "bytes of optimizer state on CUDA device 0: CUDA: could not allocate");
    standin_free(p.memory);
}

/* Neighbours, strides of size 1 and empty parameters are fine. */
static void what_is_allowed(void **state)
{
    (void)state;
    pair p;
    gsc_cuda_optim *out;
    pair_make(&p);
    p.params[1].data = p.memory + 24;
    p.params[1].strides = p.strides;
    assert_ok(ADAM(&p.group, 1, &out));
    assert_string_equal(gsc_cuda_optim_param_name(out, 1), "bias");
    p.names[1] = NULL; /* they were copied */
    assert_int_equal(gsc_cuda_optim_find_param(out, "bias"), 1);
    gsc_cuda_optim_free(out);
    p.shapes[1][0] = 1;
    p.params[1].strides = (int64_t[]){-77, 1};
    assert_ok(ADAM(&p.group, 1, &out));
    gsc_cuda_optim_free(out);
    p.shapes[1][0] = 0;
    p.params[1].data = NULL;
    p.params[1].strides = (int64_t[]){0, 0};
    assert_ok(ADAM(&p.group, 1, &out));
    gsc_cuda_optim_free(out);
    standin_free(p.memory);
}

static void step_refuses(gsc_cuda_optim *optim, DLTensor *tensor, DLTensor spoilt, gsc_status status,
                         const char *message)
{
    const DLTensor before = *tensor;
    *tensor = spoilt;
    standin_reset_counts();
    assert_fails(status, gsc_cuda_optim_step(optim), "optimizer step: the ", message);
    assert_int_equal(standin_calls(), 0);
    *tensor = before;
}

static void tensors_are_checked_at_each_step(void **state)
{
    (void)state;
    pair p;
    gsc_cuda_optim *optim;
    pair_make(&p);
    assert_ok(ADAM(&p.group, 1, &optim));
    DLTensor spoilt = p.grads[1];
    spoilt.dtype = GSC_FLOAT64;
    step_refuses(optim, &p.grads[1], spoilt, GSC_ERR_VALUE,
                 "gradient of parameter 1 (\"bias\") is float64 with ndim 2 and shape [2, 3]; expected is a compact "
                 "float32, bfloat16 or float16 of shape [2, 3], as when the optimizer was created");
    spoilt = p.grads[1];
    spoilt.ndim = 1;
    step_refuses(optim, &p.grads[1], spoilt, GSC_ERR_VALUE, "with ndim 1 and shape [2]; expected");
    spoilt = p.grads[1];
    spoilt.shape = (int64_t[]){3, 2};
    step_refuses(optim, &p.grads[1], spoilt, GSC_ERR_VALUE, "shape [3, 2]; expected");
    spoilt = p.grads[1];
    spoilt.device.device_id = 1;
    step_refuses(optim, &p.grads[1], spoilt, GSC_ERR_DEVICE,
                 "gradient of parameter 1 (\"bias\") is on CUDA device 1; the optimizer is on CUDA device 0");
    spoilt = p.grads[1];
    spoilt.data = NULL;
    step_refuses(optim, &p.grads[1], spoilt, GSC_ERR_VALUE, "has no data");
    spoilt = p.grads[1];
    spoilt.byte_offset = 1;
    step_refuses(optim, &p.grads[1], spoilt, GSC_ERR_VALUE, "is not aligned to its elements");
    spoilt = p.grads[1];
    spoilt.strides = (int64_t[]){1, 2};
    step_refuses(optim, &p.grads[1], spoilt, GSC_ERR_VALUE, "is not compact");
    spoilt = p.params[1];
    spoilt.dtype = GSC_BFLOAT16;
    step_refuses(optim, &p.params[1], spoilt, GSC_ERR_VALUE,
                 "data of parameter 1 (\"bias\") is bfloat16 with ndim 2 and shape [2, 3]; expected is a compact "
                 "float32 of");
    gsc_cuda_optim_free(optim);
    standin_free(p.memory);
}

static double forbidden(void *calls)
{
    ++*(int *)calls;
    return 0;
}

static void scaling_is_checked(void **state)
{
    (void)state;
    pair p;
    gsc_cuda_optim *optim;
    pair_make(&p);
    assert_ok(ADAM(&p.group, 1, &optim));
    const gsc_optimizer *interface = gsc_cuda_optim_optimizer(optim);
    double value;
    bool has_value;
    int calls = 0;
    gsc_step_args args = {.reserved = {1}};
    gsc_grad_scaling scaling = {.multiplier = 1};
    standin_reset_counts();
    assert_fails(GSC_ERR_VALUE, interface->step(optim, &args, &value, &has_value), "args.reserved[0]");
    assert_fails(GSC_ERR_VALUE, interface->step_scaled(optim, &args, &scaling, &value, &has_value), "args.reserved[0]");
    args = (gsc_step_args){.closure = forbidden, .closure_ctx = &calls};
    assert_fails(GSC_ERR_STATE, interface->step_scaled(optim, &args, &scaling, &value, &has_value), "closure");
    assert_int_equal(calls, 0);
    static const double multipliers[] = {-1, 1e39, NAN};
    for (size_t i = 0; i < 3; i++)
        assert_fails(GSC_ERR_VALUE, step_scaled(interface, &(gsc_grad_scaling){.multiplier = multipliers[i]}),
                     "scaling->multiplier");
    scaling.reserved[2] = 1;
    assert_fails(GSC_ERR_VALUE, step_scaled(interface, &scaling), "scaling.reserved[2]");

    int64_t one = 1, two = 2;
    DLTensor number = tensor_on_device(0, p.memory, GSC_FLOAT32, &one, 0);
    const DLTensor number64 = tensor_on_device(0, p.memory, GSC_FLOAT64, &one, 0);
    assert_fails(GSC_ERR_VALUE, step_scaled(interface, &(gsc_grad_scaling){.multiplier_dev = &number64}),
                 "scaling->multiplier_dev is not one float32");
    assert_fails(GSC_ERR_VALUE, step_scaled(interface, &(gsc_grad_scaling){.multiplier64_dev = &number}),
                 "scaling->multiplier64_dev is not one float64");
    number.shape = &two;
    assert_fails(GSC_ERR_VALUE, step_scaled(interface, &(gsc_grad_scaling){.found_inf_dev = &number}),
                 "scaling->found_inf_dev is not one float32");
    number.shape = &one;
    number.device = (DLDevice){kDLCPU, 0};
    assert_fails(GSC_ERR_DEVICE, step_scaled(interface, &(gsc_grad_scaling){.found_inf_dev = &number}),
                 "scaling->found_inf_dev is on the CPU; the optimizer is on CUDA device 0");
    assert_int_equal(standin_calls(), 0);
    gsc_cuda_optim_free(optim);
    standin_free(p.memory);
}

static void setters_and_getters(void **state)
{
    (void)state;
    pair p;
    gsc_cuda_optim *optim;
    pair_make(&p);
    assert_ok(ADAM(&p.group, 1, &optim));
    standin_reset_counts();
    assert_fails(GSC_ERR_VALUE, gsc_cuda_optim_set_lr(optim, 0, -1), "gsc_cuda_optim_set_lr: groups[0].lr is -1");
    assert_fails(GSC_ERR_VALUE, gsc_cuda_optim_set_lr(optim, 1, 1), "group is 1, but the optimizer has 1 groups");
    assert_fails(GSC_ERR_VALUE, gsc_cuda_optim_set_lr(NULL, 0, 1), "optim is NULL");
    assert_true(gsc_cuda_optim_get_lr(optim, 0) == 0.1);
    assert_true(isnan(gsc_cuda_optim_get_lr(optim, 1)));
    const int64_t counts[] = {1, -1}, too_many[] = {(INT64_C(1) << 62) + 1, 0};
    assert_fails(GSC_ERR_VALUE, gsc_cuda_optim_set_step_counts(optim, counts),
                 "gsc_cuda_optim_set_step_counts: the step count of parameter 1 is -1");
    assert_fails(GSC_ERR_VALUE, gsc_cuda_optim_set_step_counts(optim, too_many), "parameter 0 is 46116860184273879");
    assert_fails(GSC_ERR_VALUE, gsc_cuda_optim_set_step_counts(optim, NULL), "counts is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_cuda_optim_set_step_counts(NULL, counts), "optim is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_cuda_optim_get_step_counts(optim, NULL), "counts is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_cuda_optim_get_step_counts(NULL, NULL), "optim is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_cuda_optim_set_stream(NULL, NULL), "optim is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_cuda_optim_step(NULL), "optim is NULL");
    assert_int_equal(standin_calls(), 0);
    assert_int_equal(gsc_cuda_optim_group_count(optim), 1);
    assert_int_equal(gsc_cuda_optim_param_count(optim), 2);
    assert_null(gsc_cuda_optim_param_name(optim, 0));
    assert_null(gsc_cuda_optim_param_name(optim, 2));
    assert_true(gsc_cuda_optim_find_param(optim, "weight") == SIZE_MAX);
    assert_true(gsc_cuda_optim_find_param(optim, NULL) == SIZE_MAX);
    assert_string_equal(gsc_cuda_optim_kind_name(optim), "adam");
    assert_null(gsc_cuda_optim_state_name(optim, 0, 2));
    assert_null(gsc_cuda_optim_state_name(optim, 2, 0));
    assert_null(gsc_cuda_optim_state(optim, 0, "momentum_buffer"));
    assert_null(gsc_cuda_optim_state(optim, 0, NULL));
    const DLTensor *moment = gsc_cuda_optim_state(optim, 1, "exp_avg_sq");
    assert_true(moment->device.device_type == kDLCUDA && moment->ndim == 2 && moment->shape[1] == 3);
    assert_int_equal((uintptr_t)moment->data % 128, 0);
    gsc_cuda_optim_free(optim);
    standin_free(p.memory);

    assert_int_equal(gsc_cuda_optim_group_count(NULL), 0);
    assert_int_equal(gsc_cuda_optim_param_count(NULL), 0);
    assert_null(gsc_cuda_optim_param_name(NULL, 0));
    assert_true(gsc_cuda_optim_find_param(NULL, "x") == SIZE_MAX);
    assert_null(gsc_cuda_optim_kind_name(NULL));
    assert_null(gsc_cuda_optim_state_name(NULL, 0, 0));
    assert_null(gsc_cuda_optim_state(NULL, 0, "exp_avg"));
    assert_null(gsc_cuda_optim_optimizer(NULL));
    assert_true(isnan(gsc_cuda_optim_get_lr(NULL, 0)));
    gsc_cuda_optim_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_are_checked), cmocka_unit_test(parameters_are_checked),
        cmocka_unit_test(what_is_allowed),      cmocka_unit_test(tensors_are_checked_at_each_step),
        cmocka_unit_test(scaling_is_checked),   cmocka_unit_test(setters_and_getters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
