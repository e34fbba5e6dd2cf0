/* SPDX-License-Identifier: Apache-2.0 */
/* SGD, Adam and AdamW against a reference in double, against PyTorch's numbers worked out by hand, and through a
 * scaler. */
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim_rules.h"

static void *copy_of(const gsc_tensor *tensor, const DLTensor *data)
{
    void *copy = malloc(bytes_of(tensor, data) + 1);
    assert_non_null(copy);
    memcpy(copy, data->data, bytes_of(tensor, data));
    return copy;
}

/* --- The formulas of torch.optim, in double --- */

typedef struct reference {
    double p, m, v;
    int64_t t;
} reference;

static void reference_sgd(reference *r, double g, const gsc_param_group *group)
{
    r->t++;
    g += group->weight_decay * r->p;
    if (group->momentum != 0) {
        r->m = r->t == 1 ? g : group->momentum * r->m + (1 - group->dampening) * g;
        g = group->nesterov ? g + group->momentum * r->m : r->m;
    }
    r->p -= group->lr * g;
}

static void reference_adam(reference *r, double g, const gsc_param_group *group, bool decoupled)
{
    r->t++;
    if (decoupled)
        r->p *= 1 - group->lr * group->weight_decay;
    else
        g += group->weight_decay * r->p;
    r->m = group->beta1 * r->m + (1 - group->beta1) * g;
    r->v = group->beta2 * r->v + (1 - group->beta2) * g * g;
    double m_hat = r->m / (1 - pow(group->beta1, (double)r->t));
    double v_hat = r->v / (1 - pow(group->beta2, (double)r->t));
    r->p -= group->lr * m_hat / (sqrt(v_hat) + group->eps);
}

enum { STEPS = 20 };

/* Parameters 0 and 1 in the first group, 2 in a second one that learns three times as fast. */
static void follow_reference(const rule_case *rule, DLDataType dtype, double tolerance)
{
    gsc_tensor *params[PARAMS];
    reference expected[PARAMS][LONGEST] = {{{0}}};
    for (size_t k = 0; k < PARAMS; k++) {
        params[k] = new_param(dtype, param_sizes[k], "w");
        add_grad(params[k]);
        for (size_t i = 0; i < param_sizes[k]; i++) {
            element_set(gsc_tensor_data(params[k]), i, sample(100, k, i));
            expected[k][i].p = element_get(gsc_tensor_data(params[k]), i);
        }
    }
    gsc_param_group groups[2] = {rule->group, rule->group};
    groups[0].params = params;
    groups[0].count = 2;
    groups[1].params = params + 2;
    groups[1].count = 1;
    groups[1].lr *= 3;
    gsc_optim *optim;
    assert_ok(rule->create(groups, 2, &optim));
    for (size_t step = 0; step < STEPS; step++) {
        for (size_t k = 0; k < PARAMS; k++)
            for (size_t i = 0; i < param_sizes[k]; i++) {
                element_set(gsc_tensor_grad(params[k]), i, sample(step, k, i));
                double g = element_get(gsc_tensor_grad(params[k]), i);
                if (rule->create == gsc_optim_create_sgd)
                    reference_sgd(&expected[k][i], g, &groups[k / 2]);
                else
                    reference_adam(&expected[k][i], g, &groups[k / 2], rule->create == gsc_optim_create_adamw);
            }
        assert_ok(gsc_optim_step(optim));
    }
    for (size_t k = 0; k < PARAMS; k++) {
        assert_int_equal(gsc_optim_get_step_count(optim, k), STEPS);
        for (size_t i = 0; i < param_sizes[k]; i++) {
            double error = fabs(element_get(gsc_tensor_data(params[k]), i) - expected[k][i].p);
            if (!(error <= tolerance))
                fail_msg("rule %d, parameter %zu, element %zu: off by %g", (int)(rule - rule_cases), k, i, error);
        }
    }
    gsc_optim_free(optim);
    for (size_t k = 0; k < PARAMS; k++)
        gsc_tensor_free(params[k]);
}

/* section 6.1 */
static void steps_follow_the_formulas(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rule_cases / sizeof rule_cases[0]; i++) {
        follow_reference(&rule_cases[i], GSC_FLOAT32, 3e-6);
        follow_reference(&rule_cases[i], GSC_FLOAT64, 2e-14);
    }
}

/* --- Numbers worked out by hand --- */

static void assert_steps(create_function *create, gsc_param_group group, double grad, double first, double second)
{
    gsc_tensor *param = new_scalar(1, grad);
    group.params = &param;
    group.count = 1;
    gsc_optim *optim;
    assert_ok(create(&group, 1, &optim));
    assert_ok(gsc_optim_step(optim));
    assert_float_equal(element_get(gsc_tensor_data(param), 0), first, 1e-7);
    assert_ok(gsc_optim_step(optim));
    assert_float_equal(element_get(gsc_tensor_data(param), 0), second, 2e-7);
    gsc_optim_free(optim);
    gsc_tensor_free(param);
}

/* section 6.1 */
static void known_numbers(void **state)
{
    (void)state;
    assert_steps(gsc_optim_create_sgd, (gsc_param_group){.lr = 0.1}, 1, 0.9, 0.8);
    assert_steps(gsc_optim_create_sgd, (gsc_param_group){.lr = 0.1, .weight_decay = 0.1}, 1, 0.89, 0.7811);
    /* buf = 1, then 0.9 + 1 */
    assert_steps(gsc_optim_create_sgd, (gsc_param_group){.lr = 0.1, .momentum = 0.9}, 1, 0.9, 0.71);
    /* The first step is not dampened: buf = 1, then 0.9 + 0.5 */
    assert_steps(gsc_optim_create_sgd, (gsc_param_group){.lr = 0.1, .momentum = 0.9, .dampening = 0.5}, 1, 0.9, 0.76);
    /* 1 + 0.9 * 1, then 1 + 0.9 * 1.9 */
    assert_steps(gsc_optim_create_sgd, (gsc_param_group){.lr = 0.1, .momentum = 0.9, .nesterov = true}, 1, 0.81, 0.539);
    /* A constant gradient: m_hat / sqrt(v_hat) is 1, so each step is lr long. */
    gsc_param_group adam = gsc_param_group_default_adam(NULL, 0, 0.1);
    assert_steps(gsc_optim_create_adam, adam, 0.5, 0.9, 0.8);
    adam.weight_decay = 0.1; /* only decoupled decay shows beside a gradient of one sign */
    assert_steps(gsc_optim_create_adamw, adam, 0.5, 0.89, 0.7811);
}

/* section 6.1 */
static void groups_have_pytorchs_defaults(void **state)
{
    (void)state;
    gsc_param_group groups[2] = {gsc_param_group_default_sgd(NULL, 7, 0.5), gsc_param_group_default_adam(NULL, 7, 0.5)};
    for (int i = 0; i < 2; i++) {
        assert_null(groups[i].params);
        assert_int_equal(groups[i].count, 7);
        assert_true(groups[i].lr == 0.5 && groups[i].weight_decay == 0);
        assert_true(groups[i].momentum == 0 && groups[i].dampening == 0 && !groups[i].nesterov);
    }
    assert_true(groups[0].beta1 == 0 && groups[0].beta2 == 0 && groups[0].eps == 0);
    assert_true(groups[1].beta1 == 0.9 && groups[1].beta2 == 0.999 && groups[1].eps == 1e-8);
}

/* --- State --- */

/* section 6.1 */
static void state_is_lent(void **state)
{
    (void)state;
    gsc_tensor *params[2] = {new_scalar(1, 2), new_scalar(1, 2)};
    gsc_param_group groups[2] = {gsc_param_group_default_sgd(&params[0], 1, 0.1),
                                 gsc_param_group_default_sgd(&params[1], 1, 0.2)};
    groups[1].momentum = 0.9;
    gsc_optim *sgd, *adam;
    assert_ok(gsc_optim_create_sgd(groups, 2, &sgd));
    gsc_param_group adam_group = gsc_param_group_default_adam(params, 2, 0.1);
    assert_ok(gsc_optim_create_adam(&adam_group, 1, &adam));
    assert_ok(gsc_optim_step(sgd));
    assert_ok(gsc_optim_step(adam));

    assert_null(gsc_optim_state(sgd, 0, "momentum_buffer"));
    assert_float_equal(element_get(gsc_optim_state(sgd, 1, "momentum_buffer"), 0), 2, 0);
    assert_null(gsc_optim_state(sgd, 1, "exp_avg"));
    assert_null(gsc_optim_state(sgd, 1, ""));
    assert_null(gsc_optim_state(sgd, 2, "momentum_buffer"));
    DLTensor *exp_avg = gsc_optim_state(adam, 1, "exp_avg"), *exp_avg_sq = gsc_optim_state(adam, 1, "exp_avg_sq");
    assert_int_equal(exp_avg->ndim, 1);
    assert_int_equal(exp_avg->shape[0], 1);
    assert_float_equal(element_get(exp_avg, 0), 0.2, 1e-7);
    assert_float_equal(element_get(exp_avg_sq, 0), 0.004, 1e-7);
    assert_null(gsc_optim_state(adam, 0, "momentum_buffer"));
    assert_null(gsc_optim_state(adam, 0, NULL));
    assert_null(gsc_optim_state(NULL, 0, "exp_avg"));

    assert_int_equal(gsc_optim_group_count(sgd), 2);
    assert_int_equal(gsc_optim_param_count(sgd), 2);
    assert_float_equal(gsc_optim_get_lr(sgd, 1), 0.2, 0);
    assert_ok(gsc_optim_set_lr(sgd, 1, 0.5));
    assert_float_equal(gsc_optim_get_lr(sgd, 0), 0.1, 0);
    assert_float_equal(gsc_optim_get_lr(sgd, 1), 0.5, 0);
    gsc_optim_free(sgd);
    gsc_optim_free(adam);
    gsc_tensor_free(params[0]);
    gsc_tensor_free(params[1]);
}

/* section 6.1 */
static void a_parameter_without_gradient_is_passed_over(void **state)
{
    (void)state;
    gsc_tensor *params[2] = {new_scalar(1, 0.5), new_scalar(1, 0.5)};
    gsc_param_group group = gsc_param_group_default_adam(params, 2, 0.1);
    gsc_optim *optim;
    assert_ok(gsc_optim_create_adam(&group, 1, &optim));
    const gsc_optimizer *interface = gsc_optim_optimizer(optim);
    assert_ok(gsc_optim_step(optim));
    double p = element_get(gsc_tensor_data(params[0]), 0), m = element_get(gsc_optim_state(optim, 0, "exp_avg"), 0),
           v = element_get(gsc_optim_state(optim, 0, "exp_avg_sq"), 0);
    gsc_tensor_zero_grad(params[0]);
    assert_null(interface->grad(interface->self, 0));
    assert_ok(gsc_optim_step(optim));
    double value = 0;
    bool has_value = false;
    gsc_grad_scaling scaling = {.multiplier = 0.5};
    assert_ok(interface->step_scaled(interface->self, &(gsc_step_args){0}, &scaling, &value, &has_value));
    assert_false(has_value);
    assert_true(element_get(gsc_tensor_data(params[0]), 0) == p);
    assert_true(element_get(gsc_optim_state(optim, 0, "exp_avg"), 0) == m);
    assert_true(element_get(gsc_optim_state(optim, 0, "exp_avg_sq"), 0) == v);
    assert_int_equal(gsc_optim_get_step_count(optim, 0), 1);
    assert_int_equal(gsc_optim_get_step_count(optim, 1), 3);
    gsc_optim_zero_grad(optim);
    assert_null(gsc_tensor_grad(params[1]));
    assert_ok(gsc_optim_step(optim));
    assert_int_equal(gsc_optim_get_step_count(optim, 1), 3);

    /* From here on both step again, each with the bias corrections of its own step count. */
    reference expected[2] = {{.p = 1}, {.p = 1}};
    static const double seen[2][4] = {{0.5, 0.25}, {0.5, 0.5, 0.25, 0.25}};
    for (size_t k = 0; k < 2; k++) {
        add_grad(params[k]);
        element_set(gsc_tensor_grad(params[k]), 0, 0.25);
        for (size_t i = 0; i < 4 && seen[k][i] != 0; i++)
            reference_adam(&expected[k], seen[k][i], &group, false);
    }
    assert_ok(gsc_optim_step(optim));
    for (size_t k = 0; k < 2; k++)
        assert_float_equal(element_get(gsc_tensor_data(params[k]), 0), expected[k].p, 2e-7);
    gsc_optim_free(optim);
    gsc_tensor_free(params[0]);
    gsc_tensor_free(params[1]);
}

/* section 6.1 */
static void empty_parameters_and_groups_are_fine(void **state)
{
    (void)state;
    gsc_tensor *params[3] = {new_param(GSC_FLOAT32, 0, "none"), new_scalar(1, 1), new_param(GSC_FLOAT32, 0, "end")};
    gsc_param_group groups[2] = {gsc_param_group_default_sgd(NULL, 0, 0.1),
                                 gsc_param_group_default_sgd(params, 3, 0.5)};
    add_grad(params[0]);
    add_grad(params[2]);
    gsc_optim *optim;
    assert_ok(gsc_optim_create_sgd(groups, 2, &optim));
    assert_ok(gsc_optim_step(optim));
    assert_float_equal(element_get(gsc_tensor_data(params[1]), 0), 0.5, 0);
    assert_int_equal(gsc_optim_get_step_count(optim, 2), 1);
    gsc_optim_free(optim);
    for (size_t k = 0; k < 3; k++)
        gsc_tensor_free(params[k]);
}

/* --- Scaled gradients --- */

/* Trains two equal parameters, one with gradients that are unscaled first, one that unscales on the fly. */
static void compare_scaled(const rule_case *rule, DLDataType dtype, double scale)
{
    enum { COUNT = 1037 };
    gsc_tensor *plain = new_param(dtype, COUNT, "plain"), *scaled = new_param(dtype, COUNT, "scaled");
    gsc_tensor *both[2] = {plain, scaled};
    gsc_optim *optims[2];
    for (size_t k = 0; k < 2; k++) {
        add_grad(both[k]);
        for (size_t i = 0; i < COUNT; i++)
            element_set(gsc_tensor_data(both[k]), i, sample(1, 0, i));
        gsc_param_group group = rule->group;
        group.params = &both[k];
        group.count = 1;
        assert_ok(rule->create(&group, 1, &optims[k]));
    }
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = scale;
    gsc_scaler *scaler;
    assert_ok(gsc_scaler_create(&options, &scaler));
    for (size_t step = 0; step < 5; step++) {
        for (size_t k = 0; k < 2; k++)
            for (size_t i = 0; i < COUNT; i++)
                element_set(gsc_tensor_grad(both[k]), i, sample(step, 1, i) * scale);
        void *grads = copy_of(scaled, gsc_tensor_grad(scaled));
        gsc_step_result result;
        assert_ok(gsc_scaler_unscale(scaler, gsc_optim_optimizer(optims[0])));
        assert_ok(gsc_scaler_step(scaler, gsc_optim_optimizer(optims[0]), NULL, NULL));
        assert_ok(gsc_scaler_step(scaler, gsc_optim_optimizer(optims[1]), NULL, &result));
        assert_int_equal(result.outcome, GSC_STEPPED);
        assert_ok(gsc_scaler_update(scaler));
        assert_memory_equal(gsc_tensor_grad(scaled)->data, grads, bytes_of(scaled, gsc_tensor_grad(scaled)));
        free(grads);
    }
    assert_memory_equal(gsc_tensor_data(plain)->data, gsc_tensor_data(scaled)->data,
                        bytes_of(plain, gsc_tensor_data(plain)));
    gsc_scaler_destroy(scaler);
    for (size_t k = 0; k < 2; k++) {
        gsc_optim_free(optims[k]);
        gsc_tensor_free(both[k]);
    }
}

/* rule 7.6 */
static void scaled_steps_equal_plain_ones_and_leave_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rule_cases / sizeof rule_cases[0]; i++) {
        compare_scaled(&rule_cases[i], GSC_FLOAT32, 65536);
        compare_scaled(&rule_cases[i], GSC_FLOAT32, 3000);
        compare_scaled(&rule_cases[i], GSC_FLOAT64, 3000);
    }
}

/* section 6.1 */
static void a_nan_poisons_without_a_scaler_only(void **state)
{
    (void)state;
    gsc_tensor *param = new_scalar(1, NAN);
    gsc_param_group group = gsc_param_group_default_adam(&param, 1, 0.1);
    gsc_optim *optim;
    assert_ok(gsc_optim_create_adam(&group, 1, &optim));
    gsc_scaler *scaler;
    assert_ok(gsc_scaler_create(NULL, &scaler));
    gsc_step_result result;
    assert_ok(gsc_scaler_step(scaler, gsc_optim_optimizer(optim), NULL, &result));
    assert_int_equal(result.outcome, GSC_SKIPPED_OVERFLOW);
    assert_true(element_get(gsc_tensor_data(param), 0) == 1);
    assert_int_equal(gsc_optim_get_step_count(optim, 0), 0);
    gsc_overflow overflow;
    assert_int_equal(gsc_scaler_overflows(scaler, gsc_optim_optimizer(optim), &overflow, 1), 1);
    assert_string_equal(overflow.name, "w");
    assert_ok(gsc_optim_step(optim));
    assert_true(isnan(element_get(gsc_tensor_data(param), 0)));
    gsc_scaler_destroy(scaler);
    gsc_optim_free(optim);
    gsc_tensor_free(param);
}

/* --- Closures and the floating-point environment --- */

typedef struct closure_call {
    gsc_tensor *param;
    int calls, rounding;
    double param_seen;
} closure_call;

static double closure(void *ctx)
{
    closure_call *call = ctx;
    call->calls++;
    call->rounding = fegetround();
    call->param_seen = element_get(gsc_tensor_data(call->param), 0);
    element_set(gsc_tensor_grad(call->param), 0, 1.0 / 3);
    return 42;
}

/* section 6.1 */
static void a_closure_runs_once_before_the_step_in_the_callers_environment(void **state)
{
    (void)state;
    gsc_tensor *params[2];
    gsc_optim *optims[2];
    for (size_t k = 0; k < 2; k++) {
        params[k] = new_param(GSC_FLOAT64, 1, "w");
        add_grad(params[k]);
        element_set(gsc_tensor_data(params[k]), 0, 1);
        element_set(gsc_tensor_grad(params[k]), 0, 1.0 / 3);
        gsc_param_group group = gsc_param_group_default_adam(&params[k], 1, 0.1);
        assert_ok(gsc_optim_create_adamw(&group, 1, &optims[k]));
    }
    assert_ok(gsc_optim_step(optims[1]));

    closure_call call = {.param = params[0]};
    gsc_step_args args = {.closure = closure, .closure_ctx = &call, .clip_norm = 1e-3};
    const gsc_optimizer *interface = gsc_optim_optimizer(optims[0]);
    double value = 0;
    bool has_value = false;
    fesetround(FE_UPWARD);
    gsc_status status = interface->step(interface->self, &args, &value, &has_value);
    int after = fegetround();
    fesetround(FE_TONEAREST);
    assert_ok(status);
    assert_int_equal(after, FE_UPWARD);
    assert_int_equal(call.calls, 1);
    assert_int_equal(call.rounding, FE_UPWARD);
    assert_true(call.param_seen == 1);
    assert_true(has_value && value == 42);
    assert_true(element_get(gsc_tensor_data(params[0]), 0) == element_get(gsc_tensor_data(params[1]), 0));
    for (size_t k = 0; k < 2; k++) {
        gsc_optim_free(optims[k]);
        gsc_tensor_free(params[k]);
    }
}

/* A great scale and a hard clip make a factor that float32 can hardly hold, or not at all: the step is right all the
 * same. */
/* rule 7.5 */
static void tiny_multipliers_keep_their_precision(void **state)
{
    (void)state;
    static const double multipliers[] = {0x1.fffffep-128, 1e-39, 3e-42, 1e-46, 0x1.234567p-200, 0x1.fedcbap-250};
    for (size_t i = 0; i < sizeof multipliers / sizeof *multipliers; i++) {
        const double grad = 0x1.5p125, g = grad * multipliers[i];
        gsc_tensor *param = new_scalar(0, grad);
        gsc_param_group group = gsc_param_group_default_sgd(&param, 1, 1);
        gsc_optim *optim;
        assert_ok(gsc_optim_create_sgd(&group, 1, &optim));
        const gsc_optimizer *optimizer = gsc_optim_optimizer(optim);
        const gsc_step_args args = {0};
        const gsc_grad_scaling scaling = {.multiplier = multipliers[i]};
        double value = 0;
        bool has_value = false;
        assert_ok(optimizer->step_scaled(optimizer->self, &args, &scaling, &value, &has_value));
        const double error = fabs(-element_get(gsc_tensor_data(param), 0) - g);
        assert_true(error <= 4 * (double)FLT_EPSILON * g);
        gsc_optim_free(optim);
        gsc_tensor_free(param);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_follow_the_formulas),
        cmocka_unit_test(known_numbers),
        cmocka_unit_test(groups_have_pytorchs_defaults),
        cmocka_unit_test(state_is_lent),
        cmocka_unit_test(a_parameter_without_gradient_is_passed_over),
        cmocka_unit_test(empty_parameters_and_groups_are_fine),
        cmocka_unit_test(scaled_steps_equal_plain_ones_and_leave_gradients),
        cmocka_unit_test(a_nan_poisons_without_a_scaler_only),
        cmocka_unit_test(a_closure_runs_once_before_the_step_in_the_callers_environment),
        cmocka_unit_test(tiny_multipliers_keep_their_precision),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
