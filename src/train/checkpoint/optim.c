/* SPDX-License-Identifier: Apache-2.0 */
/* optim.c: optimizers as tensors: "lr" (float64, one for each group), and for each parameter "0.weight.step" (int64)
 * and its states, e.g. "0.weight.exp_avg". A parameter without a name has its index instead. With an optimizer's name,
 * each key begins with "name/". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "train/checkpoint/optim.h"
#include "train/optim/check.h"

typedef struct totals {
    size_t groups, params, states;
} totals;

static totals count_all(const gsc_named_optim *optims, size_t n)
{
    totals sum = {0, 0, 0};
    for (size_t o = 0; o < n; o++) {
        const gsc_optim *optim = optims[o].optim;
        sum.groups += gsc_optim_group_count(optim);
        sum.params += gsc_optim_param_count(optim);
        for (size_t p = 0; p < gsc_optim_param_count(optim); p++)
            for (size_t s = 0; gsc_optim_state_name(optim, p, s); s++)
                sum.states++;
    }
    return sum;
}

/* "name/param.what"; without "name/" if name is NULL, without "param." if param is "". NULL: no memory. */
static char *make_key(const char *name, const char *param, const char *what)
{
    const char *slash = name ? "/" : "", *dot = param[0] ? "." : "";
    name = name ? name : "";
    size_t size = strlen(name) + strlen(param) + strlen(what) + sizeof "/.";
    char *key = malloc(size);
    if (key)
        snprintf(key, size, "%s%s%s%s%s", name, slash, param, dot, what);
    return key;
}

static char *make_param_key(const gsc_named_optim *named, size_t param, const char *what)
{
    char index[24];
    snprintf(index, sizeof index, "%zu", param);
    const char *name = gsc_optim_param_name(named->optim, param);
    return make_key(named->name, name && name[0] ? name : index, what);
}

/* Takes the key over. false: it is NULL. */
static bool add(gsc__optim_tensors *out, char *key, DLTensor *tensor)
{
    if (key)
        out->tensors[out->count++] = (gsc_named_tensor){key, tensor};
    return key != NULL;
}

static bool add_scalar(gsc__optim_tensors *out, char *key, DLTensor scalar)
{
    DLTensor *tensor = &out->scalars[out->scalar_count++];
    *tensor = scalar;
    return add(out, key, tensor);
}

static bool add_scalars(gsc__optim_tensors *out, const gsc_named_optim *named, double *rates, int64_t *group_count,
                        int64_t *steps)
{
    const DLDevice cpu = {kDLCPU, 0};
    const gsc_optim *optim = named->optim;
    *group_count = (int64_t)gsc_optim_group_count(optim);
    for (size_t g = 0; g < gsc_optim_group_count(optim); g++)
        rates[g] = gsc_optim_get_lr(optim, g);
    const DLTensor lr = {.data = rates, .device = cpu, .ndim = 1, .dtype = GSC_FLOAT64, .shape = group_count};
    bool done = add_scalar(out, make_key(named->name, "", "lr"), lr);
    for (size_t p = 0; done && p < gsc_optim_param_count(optim); p++) {
        steps[p] = gsc_optim_get_step_count(optim, p);
        const DLTensor step = {.data = &steps[p], .device = cpu, .dtype = GSC_INT64};
        done = add_scalar(out, make_param_key(named, p, "step"), step);
    }
    return done;
}

static bool add_states(gsc__optim_tensors *out, const gsc_named_optim *named)
{
    bool done = true;
    const char *state;
    for (size_t p = 0; p < gsc_optim_param_count(named->optim); p++)
        for (size_t s = 0; done && (state = gsc_optim_state_name(named->optim, p, s)); s++)
            done = add(out, make_param_key(named, p, state), gsc_optim_state(named->optim, p, state));
    return done;
}

static bool add_kind(gsc__optim_tensors *out, const gsc_named_optim *named)
{
    char *key = make_key(named->name, "", "optimizer");
    if (key)
        out->kinds[out->kind_count++] = (gsc_metadata){key, gsc_optim_kind_name(named->optim)};
    return key != NULL;
}

static bool allocate(gsc__optim_tensors *out, size_t n, totals sum)
{
    out->tensors = calloc(n + sum.params + sum.states + 1, sizeof *out->tensors);
    out->kinds = calloc(n + 1, sizeof *out->kinds);
    out->scalars = calloc(n + sum.params + 1, sizeof *out->scalars);
    out->rates = calloc(sum.groups + 1, sizeof *out->rates);
    out->steps = calloc(sum.params + 1, sizeof *out->steps);
    out->group_counts = calloc(n + 1, sizeof *out->group_counts);
    return out->tensors && out->kinds && out->scalars && out->rates && out->steps && out->group_counts;
}

gsc_status gsc__optim_tensors_create(const char *who, const gsc_named_optim *optims, size_t n, gsc__optim_tensors *out)
{
    gsc__optim_tensors made = {0};
    bool done = allocate(&made, n, count_all(optims, n));
    double *rates = made.rates;
    int64_t *steps = made.steps;
    for (size_t o = 0; done && o < n; o++) {
        done = add_kind(&made, &optims[o]) && add_scalars(&made, &optims[o], rates, &made.group_counts[o], steps);
        rates += gsc_optim_group_count(optims[o].optim);
        steps += gsc_optim_param_count(optims[o].optim);
    }
    for (size_t o = 0; done && o < n; o++)
        done = add_states(&made, &optims[o]);
    if (!done) {
        gsc__optim_tensors_free(&made);
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", who);
    }
    *out = made;
    return GSC_OK;
}

void gsc__optim_tensors_free(gsc__optim_tensors *tensors)
{
    for (size_t i = 0; i < tensors->count; i++)
        free((void *)(uintptr_t)tensors->tensors[i].name);
    for (size_t i = 0; i < tensors->kind_count; i++)
        free((void *)(uintptr_t)tensors->kinds[i].key);
    free(tensors->tensors);
    free(tensors->kinds);
    free(tensors->scalars);
    free(tensors->rates);
    free(tensors->steps);
    free(tensors->group_counts);
    *tensors = (gsc__optim_tensors){0};
}

gsc_status gsc__optim_tensors_check(const char *who, const gsc__optim_tensors *tensors, const gsc_named_optim *optims,
                                    size_t n)
{
    const double *rate = tensors->rates;
    const int64_t *step = tensors->steps;
    for (size_t o = 0; o < n; o++) {
        for (size_t g = 0; g < gsc_optim_group_count(optims[o].optim); g++)
            GSC_TRY(gsc__optim_check_lr(who, g, *rate++));
        for (size_t p = 0; p < gsc_optim_param_count(optims[o].optim); p++)
            GSC_TRY(gsc__optim_check_step_count(who, p, *step++));
    }
    return GSC_OK;
}

void gsc__optim_tensors_apply(const gsc__optim_tensors *tensors, const gsc_named_optim *optims, size_t n)
{
    const double *rate = tensors->rates;
    const int64_t *step = tensors->steps;
    for (size_t o = 0; o < n; o++) {
        for (size_t g = 0; g < gsc_optim_group_count(optims[o].optim); g++)
            gsc_optim_set_lr(optims[o].optim, g, *rate++);
        for (size_t p = 0; p < gsc_optim_param_count(optims[o].optim); p++)
            gsc_optim_set_step_count(optims[o].optim, p, *step++);
    }
}
