/* SPDX-License-Identifier: Apache-2.0 */
/* optim_rules.h: one of each kind of optimizer, parameters of several sizes and numbers for them. */
#ifndef GSC_TESTS_OPTIM_RULES_H
#define GSC_TESTS_OPTIM_RULES_H

#include <math.h>

#include "param.h"

typedef gsc_status create_function(const gsc_param_group *groups, size_t n, gsc_optim **out);

typedef struct rule_case {
    create_function *create;
    gsc_param_group group;
} rule_case;

static const rule_case rule_cases[] = {
    {gsc_optim_create_sgd, {.lr = 0.1}},
    {gsc_optim_create_sgd, {.lr = 0.1, .weight_decay = 0.05}},
    {gsc_optim_create_sgd, {.lr = 0.05, .momentum = 0.9}},
    {gsc_optim_create_sgd, {.lr = 0.05, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.01}},
    {gsc_optim_create_sgd, {.lr = 0.05, .momentum = 0.8, .nesterov = true}},
    {gsc_optim_create_sgd, {.lr = 0.05, .momentum = 0.8, .nesterov = true, .weight_decay = 0.1}},
    {gsc_optim_create_adam, {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}},
    {gsc_optim_create_adam, {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-3, .weight_decay = 0.1}},
    {gsc_optim_create_adam, {.lr = 0.01, .beta1 = 0.3, .beta2 = 0.5, .eps = 1e-8}}, /* the other form of lerp */
    {gsc_optim_create_adam, {.lr = 0.01, .beta1 = 0, .beta2 = 0, .eps = 1e-2}},
    {gsc_optim_create_adamw, {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}},
    {gsc_optim_create_adamw, {.lr = 0.01, .beta1 = 0.95, .beta2 = 0.98, .eps = 1e-8, .weight_decay = 0.2}},
};

enum { PARAMS = 3, LONGEST = 67 };
static const size_t param_sizes[PARAMS] = {1, 17, LONGEST};

static inline double sample(size_t step, size_t param, size_t i)
{
    return sin(0.7 * (double)step + (double)(31 * param + i));
}

static inline size_t bytes_of(const gsc_tensor *tensor, const DLTensor *data)
{
    return gsc_tensor_count(tensor) * data->dtype.bits / 8;
}

#endif
