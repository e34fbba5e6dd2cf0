/* SPDX-License-Identifier: Apache-2.0 */
/* optim_check.c: what an optimizer may be created from. */
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/optim/optim.h"
#include "train/tensor/tensor.h"

gsc__optim_name_text gsc__optim_name(const gsc_tensor *tensor)
{
    gsc__optim_name_text out = {""};
    const char *name = gsc_tensor_get_name(tensor);
    if (name)
        snprintf(out.text, sizeof out.text, " (\"%s\")", name);
    return out;
}

/* A number in [0, max], which `allowed` says in words. */
typedef struct setting {
    const char *name;
    double value, max;
    const char *allowed;
} setting;

#define NOT_NEGATIVE FLT_MAX, "a number in [0, FLT_MAX]" /* so that float32 parameters can take it */
#define BELOW_ONE (1 - DBL_EPSILON / 2), "a number in [0, 1)"
#define UNREAD 0, "0: this kind of optimizer does not read it"

static gsc_status check_settings(const char *function, size_t group, const setting *settings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!(settings[i].value >= 0 && settings[i].value <= settings[i].max))
            return gsc_fail(GSC_ERR_VALUE, "%s: groups[%zu].%s is %g, allowed is %s", function, group, settings[i].name,
                            settings[i].value, settings[i].allowed);
    return GSC_OK;
}

gsc_status gsc__optim_check_lr(const char *function, size_t group, double lr)
{
    const setting settings[] = {{"lr", lr, NOT_NEGATIVE}};
    return check_settings(function, group, settings, 1);
}

/* Far beyond any run, and far from where counting on would overflow. */
#define MAX_STEP_COUNT (INT64_C(1) << 62)

gsc_status gsc__optim_check_step_count(const char *function, size_t param, int64_t count)
{
    if (count >= 0 && count <= MAX_STEP_COUNT)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: the step count of parameter %zu is %" PRId64 ", allowed are 0 to 2^62",
                    function, param, count);
}

static gsc_status check_sgd(const char *function, size_t index, const gsc_param_group *group)
{
    const setting settings[] = {{"lr", group->lr, NOT_NEGATIVE},
                                {"weight_decay", group->weight_decay, NOT_NEGATIVE},
                                {"momentum", group->momentum, NOT_NEGATIVE},
                                {"dampening", group->dampening, 1, "a number in [0, 1]"},
                                {"beta1", group->beta1, UNREAD},
                                {"beta2", group->beta2, UNREAD},
                                {"eps", group->eps, UNREAD}};
    gsc_status status = check_settings(function, index, settings, sizeof settings / sizeof settings[0]);
    if (!status && group->nesterov && (group->momentum == 0 || group->dampening != 0))
        status =
            gsc_fail(GSC_ERR_VALUE,
                     "%s: groups[%zu].nesterov is set with momentum %g and dampening %g; it needs momentum > 0 and "
                     "dampening 0",
                     function, index, group->momentum, group->dampening);
    return status;
}

static gsc_status check_adam(const char *function, size_t index, const gsc_param_group *group)
{
    const setting settings[] = {
        {"lr", group->lr, NOT_NEGATIVE},         {"weight_decay", group->weight_decay, NOT_NEGATIVE},
        {"beta1", group->beta1, BELOW_ONE},      {"beta2", group->beta2, BELOW_ONE},
        {"eps", group->eps, NOT_NEGATIVE},       {"momentum", group->momentum, UNREAD},
        {"dampening", group->dampening, UNREAD}, {"nesterov", group->nesterov, UNREAD}};
    return check_settings(function, index, settings, sizeof settings / sizeof settings[0]);
}

static gsc_status check_param(const char *function, size_t group, size_t index, const gsc_tensor *tensor)
{
    if (!tensor)
        return gsc_fail(GSC_ERR_VALUE, "%s: groups[%zu].params[%zu] is NULL", function, group, index);
    if (tensor->tape)
        return gsc_fail(GSC_ERR_VALUE, "%s: groups[%zu].params[%zu] belongs to a tape; give the parameter itself",
                        function, group, index);
    if (tensor->kind == GSC_F32 || tensor->kind == GSC_F64)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: groups[%zu].params[%zu]%s is %s; parameters must be float32 or float64%s",
                    function, group, index, gsc__optim_name(tensor).text, gsc__kind_name(tensor->kind),
                    gsc__kind_is_float(tensor->kind)
                        ? ": keep float32 master parameters and let autocast compute in half precision"
                        : "");
}

static gsc_status check_group(gsc__optim_kind kind, const char *function, size_t index, const gsc_param_group *group)
{
    gsc_status status = kind == GSC_OPTIM_SGD ? check_sgd(function, index, group) : check_adam(function, index, group);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof group->reserved / sizeof group->reserved[0]; i++)
        if (group->reserved[i])
            return gsc_fail(GSC_ERR_VALUE,
                            "%s: groups[%zu].reserved[%zu] is not zero; start from gsc_param_group_default_sgd or "
                            "gsc_param_group_default_adam",
                            function, index, i);
    if (group->count > 0 && !group->params)
        return gsc_fail(GSC_ERR_VALUE, "%s: groups[%zu].params is NULL with count %zu", function, index, group->count);
    for (size_t i = 0; i < group->count && !status; i++)
        status = check_param(function, index, i, group->params[i]);
    return status;
}

typedef struct listing {
    const gsc_tensor *tensor;
    size_t group, index;
} listing;

static int compare(const void *a, const void *b)
{
    const listing *x = a, *y = b;
    if (x->tensor != y->tensor)
        return (uintptr_t)x->tensor < (uintptr_t)y->tensor ? -1 : 1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static gsc_status check_distinct(const char *function, const gsc_param_group *groups, size_t n, size_t param_count)
{
    listing *listings = calloc(param_count + 1, sizeof *listings);
    if (!listings)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for %zu parameters", function, param_count);
    size_t count = 0;
    for (size_t g = 0; g < n; g++)
        for (size_t i = 0; i < groups[g].count; i++)
            listings[count++] = (listing){groups[g].params[i], g, i};
    qsort(listings, count, sizeof *listings, compare);
    gsc_status status = GSC_OK;
    for (size_t i = 1; i < count && !status; i++) {
        const listing *a = &listings[i - 1], *b = &listings[i];
        if (a->tensor == b->tensor)
            status =
                gsc_fail(GSC_ERR_VALUE,
                         "%s: groups[%zu].params[%zu]%s is groups[%zu].params[%zu] again; list each parameter once",
                         function, b->group, b->index, gsc__optim_name(b->tensor).text, a->group, a->index);
    }
    free(listings);
    return status;
}

gsc_status gsc__optim_check_groups(gsc__optim_kind kind, const char *function, const gsc_param_group *groups, size_t n,
                                   size_t *param_count)
{
    if (!groups || n == 0)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s; give at least one group", function,
                        groups ? "n is 0" : "groups is NULL");
    *param_count = 0;
    for (size_t g = 0; g < n; g++) {
        gsc_status status = check_group(kind, function, g, &groups[g]);
        if (status)
            return status;
        *param_count += groups[g].count;
    }
    return check_distinct(function, groups, n, *param_count);
}
