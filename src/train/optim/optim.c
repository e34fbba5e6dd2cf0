/* SPDX-License-Identifier: Apache-2.0 */
/* optim.c: creating optimizers, and their properties. */
#include "train/optim/check.h"
#include "train/optim/step.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fpenv.h"
#include "base/try.h"

gsc_param_group gsc_param_group_default_sgd(gsc_tensor *const *params, size_t count, double lr)
{
    return (gsc_param_group){.params = params, .count = count, .lr = lr};
}

gsc_param_group gsc_param_group_default_adam(gsc_tensor *const *params, size_t count, double lr)
{
    return (gsc_param_group){.params = params, .count = count, .lr = lr, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
}

static size_t state_count(const gsc_optim *optim, const gsc__optim_param *param)
{
    return gsc__optim_state_count(optim->kind, &optim->groups[param->group]);
}

static gsc__optim_param make_param(gsc_tensor *tensor, size_t group)
{
    const DLTensor *data = gsc_tensor_data(tensor);
    gsc__optim_param param = {.tensor = tensor,
                              .group = group,
                              .kind = gsc__kind_of(data->dtype),
                              .elements = gsc_tensor_count(tensor),
                              .ndim = data->ndim};
    for (int32_t d = 0; d < data->ndim; d++)
        param.shape[d] = data->shape[d];
    return param;
}

static void copy_groups(gsc_optim *optim, const gsc_param_group *groups)
{
    size_t index = 0;
    for (size_t g = 0; g < optim->group_count; g++) {
        for (size_t i = 0; i < groups[g].count; i++)
            optim->params[index++] = make_param(groups[g].params[i], g);
        optim->groups[g] = GSC_OPTIM_SETTINGS_OF(&groups[g]);
    }
}

enum { STATE_ALIGNMENT = 64 };

/* Bytes of one state, rounded up so that each starts on a cache line. Cannot overflow: the parameter is in memory. */
static size_t state_size(const gsc__optim_param *param)
{
    size_t bytes = param->elements * gsc__kind_size(param->kind);
    return (bytes / STATE_ALIGNMENT + 1) * STATE_ALIGNMENT;
}

static gsc_status create_states(gsc_optim *optim, const char *function)
{
    size_t total = STATE_ALIGNMENT;
    for (size_t i = 0; i < optim->param_count; i++)
        for (size_t s = 0; s < state_count(optim, &optim->params[i]); s++) {
            size_t size = state_size(&optim->params[i]);
            total = size > SIZE_MAX - total ? SIZE_MAX : total + size;
        }
    optim->states = total == SIZE_MAX ? NULL : aligned_alloc(STATE_ALIGNMENT, total);
    if (!optim->states)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for %zu bytes of optimizer state", function, total);
    memset(optim->states, 0, total);
    char *next = optim->states;
    for (size_t i = 0; i < optim->param_count; i++) {
        gsc__optim_param *param = &optim->params[i];
        for (size_t s = 0; s < state_count(optim, param); s++, next += state_size(param))
            param->state[s] = (DLTensor){.data = next,
                                         .device = {kDLCPU, 0},
                                         .ndim = param->ndim,
                                         .dtype = gsc__kind_dtype(param->kind),
                                         .shape = param->shape};
    }
    return GSC_OK;
}

static size_t interface_count(void *self) { return ((gsc_optim *)self)->param_count; }

static DLTensor *interface_grad(void *self, size_t index)
{
    return gsc_tensor_grad(((gsc_optim *)self)->params[index].tensor);
}

static const char *interface_name(void *self, size_t index)
{
    return gsc_tensor_get_name(((gsc_optim *)self)->params[index].tensor);
}

static gsc_status fill(gsc_optim *optim, const char *function, const gsc_param_group *groups)
{
    optim->groups = calloc(optim->group_count, sizeof *optim->groups);
    optim->params = calloc(optim->param_count + 1, sizeof *optim->params);
    optim->work = calloc(optim->param_count + 1, sizeof *optim->work);
    if (!optim->groups || !optim->params || !optim->work)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for %zu parameters", function, optim->param_count);
    copy_groups(optim, groups);
    return create_states(optim, function);
}

static gsc_status create(gsc__optim_kind kind, const char *function, const gsc_param_group *groups, size_t n,
                         gsc_optim **out)
{
    if (!out)
        return gsc_fail(GSC_ERR_VALUE, "%s: out is NULL", function);
    size_t param_count;
    GSC_TRY(gsc__optim_check_groups(kind, function, groups, n, &param_count));
    gsc_optim *optim = calloc(1, sizeof *optim);
    if (!optim)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for the optimizer", function);
    optim->kind = kind;
    optim->group_count = n;
    optim->param_count = param_count;
    optim->interface = (gsc_optimizer){.self = optim,
                                       .grad_count = interface_count,
                                       .grad = interface_grad,
                                       .name = interface_name,
                                       .step = gsc__optim_step_plain,
                                       .step_scaled = gsc__optim_step_scaled};
    gsc_status status = fill(optim, function, groups);
    if (status == GSC_OK)
        *out = optim;
    else
        gsc_optim_free(optim);
    return status;
}

static gsc_status create_in_default_fpenv(gsc__optim_kind kind, const char *function, const gsc_param_group *groups,
                                          size_t n, gsc_optim **out)
{
    gsc__fpenv caller = gsc__fpenv_enter();
    gsc_status status = create(kind, function, groups, n, out);
    gsc__fpenv_leave(caller);
    return status;
}

gsc_status gsc_optim_create_sgd(const gsc_param_group *groups, size_t n, gsc_optim **out)
{
    return create_in_default_fpenv(GSC_OPTIM_SGD, __func__, groups, n, out);
}

gsc_status gsc_optim_create_adam(const gsc_param_group *groups, size_t n, gsc_optim **out)
{
    return create_in_default_fpenv(GSC_OPTIM_ADAM, __func__, groups, n, out);
}

gsc_status gsc_optim_create_adamw(const gsc_param_group *groups, size_t n, gsc_optim **out)
{
    return create_in_default_fpenv(GSC_OPTIM_ADAMW, __func__, groups, n, out);
}

void gsc_optim_free(gsc_optim *optim)
{
    if (!optim)
        return;
    free(optim->groups);
    free(optim->params);
    free(optim->work);
    free(optim->states);
    free(optim);
}

const gsc_optimizer *gsc_optim_optimizer(gsc_optim *optim) { return optim ? &optim->interface : NULL; }

void gsc_optim_zero_grad(gsc_optim *optim)
{
    for (size_t i = 0; optim && i < optim->param_count; i++)
        gsc_tensor_zero_grad(optim->params[i].tensor);
}

size_t gsc_optim_group_count(const gsc_optim *optim) { return optim ? optim->group_count : 0; }

static gsc_status check_group_index(const char *function, const gsc_optim *optim, size_t group)
{
    if (!optim)
        return gsc_fail(GSC_ERR_VALUE, "%s: optim is NULL", function);
    if (group >= optim->group_count)
        return gsc_fail(GSC_ERR_VALUE, "%s: group is %zu, but the optimizer has %zu groups", function, group,
                        optim->group_count);
    return GSC_OK;
}

static gsc_status set_lr(const char *function, gsc_optim *optim, size_t group, double lr)
{
    GSC_TRY(check_group_index(function, optim, group));
    GSC_TRY(gsc__optim_check_lr(function, group, lr));
    optim->groups[group].lr = lr;
    return GSC_OK;
}

gsc_status gsc_optim_set_lr(gsc_optim *optim, size_t group, double lr)
{
    gsc__fpenv caller = gsc__fpenv_enter();
    gsc_status status = set_lr(__func__, optim, group, lr);
    gsc__fpenv_leave(caller);
    return status;
}

double gsc_optim_get_lr(const gsc_optim *optim, size_t group)
{
    return check_group_index(__func__, optim, group) == GSC_OK ? optim->groups[group].lr : (double)NAN;
}

size_t gsc_optim_param_count(const gsc_optim *optim) { return optim ? optim->param_count : 0; }

const char *gsc_optim_param_name(const gsc_optim *optim, size_t param)
{
    return optim && param < optim->param_count ? gsc_tensor_get_name(optim->params[param].tensor) : NULL;
}

size_t gsc_optim_find_param(const gsc_optim *optim, const char *name)
{
    for (size_t i = 0; optim && name && i < optim->param_count; i++) {
        const char *param_name = gsc_optim_param_name(optim, i);
        if (param_name && strcmp(param_name, name) == 0)
            return i;
    }
    return SIZE_MAX;
}

int64_t gsc_optim_get_step_count(const gsc_optim *optim, size_t param)
{
    return optim && param < optim->param_count ? optim->params[param].step_count : 0;
}

gsc_status gsc_optim_set_step_count(gsc_optim *optim, size_t param, int64_t count)
{
    if (!optim)
        return gsc_fail(GSC_ERR_VALUE, "%s: optim is NULL", __func__);
    if (param >= optim->param_count)
        return gsc_fail(GSC_ERR_VALUE, "%s: param is %zu, but the optimizer has %zu parameters", __func__, param,
                        optim->param_count);
    GSC_TRY(gsc__optim_check_step_count(__func__, param, count));
    optim->params[param].step_count = count;
    return GSC_OK;
}

const char *gsc_optim_kind_name(const gsc_optim *optim) { return optim ? gsc__optim_kind_name(optim->kind) : NULL; }

const char *gsc_optim_state_name(const gsc_optim *optim, size_t param, size_t index)
{
    if (!optim || param >= optim->param_count || index >= state_count(optim, &optim->params[param]))
        return NULL;
    return gsc__optim_state_name(optim->kind, index);
}

DLTensor *gsc_optim_state(gsc_optim *optim, size_t param, const char *name)
{
    const char *state_name;
    for (size_t s = 0; name && (state_name = gsc_optim_state_name(optim, param, s)); s++)
        if (strcmp(name, state_name) == 0)
            return &optim->params[param].state[s];
    return NULL;
}
