/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer's state can be read and set in another optimizer, which then makes the same steps to the last bit. */
#include "optim_rules.h"

#include <stdlib.h>

#include "asserts.h"

enum { STEPS = 5 };

static void step(gsc_optim *optim, gsc_tensor *const *params, size_t begin, size_t end)
{
    for (size_t s = begin; s < end; s++) {
        for (size_t k = 0; k < PARAMS; k++)
            for (size_t i = 0; i < param_sizes[k]; i++)
                element_set(gsc_tensor_grad(params[k]), i, sample(s, k, i));
        assert_ok(gsc_optim_step(optim));
    }
}

static void create(const rule_case *rule, gsc_tensor **params, gsc_optim **optim)
{
    const char *const names[PARAMS] = {"a", NULL, "c"};
    for (size_t k = 0; k < PARAMS; k++) {
        params[k] = new_param(GSC_FLOAT32, param_sizes[k], names[k]);
        add_grad(params[k]);
    }
    gsc_param_group group = rule->group;
    group.params = params;
    group.count = PARAMS;
    assert_ok(rule->create(&group, 1, optim));
}

static void release(gsc_tensor **params, gsc_optim *optim)
{
    gsc_optim_free(optim);
    for (size_t k = 0; k < PARAMS; k++)
        gsc_tensor_free(params[k]);
}

static void copy_state(gsc_optim *from, gsc_tensor *const *from_params, gsc_optim *to, gsc_tensor *const *to_params)
{
    for (size_t k = 0; k < PARAMS; k++) {
        const DLTensor *data = gsc_tensor_data(from_params[k]);
        memcpy(gsc_tensor_data(to_params[k])->data, data->data, bytes_of(from_params[k], data));
        assert_ok(gsc_optim_set_step_count(to, k, gsc_optim_get_step_count(from, k)));
        const char *name;
        for (size_t s = 0; (name = gsc_optim_state_name(from, k, s)); s++)
            memcpy(gsc_optim_state(to, k, name)->data, gsc_optim_state(from, k, name)->data,
                   bytes_of(from_params[k], data));
    }
}

static void a_copied_state_goes_on_bit_for_bit(void **state)
{
    (void)state;
    for (size_t c = 0; c < sizeof rule_cases / sizeof rule_cases[0]; c++) {
        gsc_tensor *a_params[PARAMS], *b_params[PARAMS];
        gsc_optim *a, *b;
        create(&rule_cases[c], a_params, &a);
        create(&rule_cases[c], b_params, &b);
        step(a, a_params, 0, STEPS);
        copy_state(a, a_params, b, b_params);
        step(a, a_params, STEPS, 2 * STEPS);
        step(b, b_params, STEPS, 2 * STEPS);
        for (size_t k = 0; k < PARAMS; k++) {
            const DLTensor *data = gsc_tensor_data(a_params[k]);
            assert_int_equal(gsc_optim_get_step_count(b, k), 2 * STEPS);
            assert_memory_equal(data->data, gsc_tensor_data(b_params[k])->data, bytes_of(a_params[k], data));
        }
        release(a_params, a);
        release(b_params, b);
    }
}

static const rule_case *case_of(create_function *of, bool momentum)
{
    for (size_t c = 0; c < sizeof rule_cases / sizeof rule_cases[0]; c++)
        if (rule_cases[c].create == of && (rule_cases[c].group.momentum != 0) == momentum)
            return &rule_cases[c];
    fail();
    return NULL;
}

static void kinds_and_states_have_names(void **state)
{
    (void)state;
    const struct {
        const rule_case *rule;
        const char *kind, *states[3];
    } expected[] = {{case_of(gsc_optim_create_sgd, false), "sgd", {NULL}},
                    {case_of(gsc_optim_create_sgd, true), "sgd", {"momentum_buffer", NULL}},
                    {case_of(gsc_optim_create_adam, false), "adam", {"exp_avg", "exp_avg_sq", NULL}},
                    {case_of(gsc_optim_create_adamw, false), "adamw", {"exp_avg", "exp_avg_sq", NULL}}};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        gsc_tensor *params[PARAMS];
        gsc_optim *optim;
        create(expected[i].rule, params, &optim);
        assert_string_equal(gsc_optim_kind_name(optim), expected[i].kind);
        for (size_t s = 0; s == 0 || expected[i].states[s - 1]; s++) {
            const char *name = gsc_optim_state_name(optim, 1, s);
            if (!expected[i].states[s]) {
                assert_null(name);
                break;
            }
            assert_string_equal(name, expected[i].states[s]);
            assert_non_null(gsc_optim_state(optim, 1, name));
        }
        assert_null(gsc_optim_state_name(optim, PARAMS, 0));
        release(params, optim);
    }
    assert_null(gsc_optim_kind_name(NULL));
    assert_null(gsc_optim_state_name(NULL, 0, 0));
}

static void parameters_are_found_by_name(void **state)
{
    (void)state;
    gsc_tensor *params[PARAMS];
    gsc_optim *optim;
    create(&rule_cases[0], params, &optim);
    assert_string_equal(gsc_optim_param_name(optim, 2), "c");
    assert_null(gsc_optim_param_name(optim, 1));
    assert_null(gsc_optim_param_name(optim, PARAMS));
    assert_null(gsc_optim_param_name(NULL, 0));
    assert_int_equal(gsc_optim_find_param(optim, "a"), 0);
    assert_int_equal(gsc_optim_find_param(optim, "c"), 2);
    assert_true(gsc_optim_find_param(optim, "b") == SIZE_MAX);
    assert_true(gsc_optim_find_param(optim, NULL) == SIZE_MAX);
    assert_true(gsc_optim_find_param(NULL, "a") == SIZE_MAX);
    release(params, optim);
}

static void step_counts_out_of_range_are_refused(void **state)
{
    (void)state;
    const int64_t most = INT64_C(1) << 62;
    gsc_tensor *params[PARAMS];
    gsc_optim *optim;
    create(&rule_cases[6], params, &optim);
    assert_ok(gsc_optim_set_step_count(optim, 1, most));
    assert_fails(GSC_ERR_VALUE, gsc_optim_set_step_count(optim, 1, most + 1), "parameter 1", "4611686018427387905",
                 "0 to 2^62");
    assert_fails(GSC_ERR_VALUE, gsc_optim_set_step_count(optim, 1, -1), "is -1");
    assert_fails(GSC_ERR_VALUE, gsc_optim_set_step_count(optim, PARAMS, 1), "has 3 parameters");
    assert_fails(GSC_ERR_VALUE, gsc_optim_set_step_count(NULL, 0, 1), "optim is NULL");
    assert_true(gsc_optim_get_step_count(optim, 1) == most);
    step(optim, params, 0, 1);
    assert_true(gsc_optim_get_step_count(optim, 1) == most + 1);
    release(params, optim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copied_state_goes_on_bit_for_bit),
        cmocka_unit_test(kinds_and_states_have_names),
        cmocka_unit_test(parameters_are_found_by_name),
        cmocka_unit_test(step_counts_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
