/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: what an optimizer may be created from. */
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/reserved.h"
#include "base/try.h"
#include "train/optim/check.h"
#include "train/tensor/tensor.h"

gsc__optim_name_text gsc__optim_name(const gsc_tensor *tensor)
{
    gsc__optim_name_text out = {""};
    const char *name = gsc_tensor_get_name(tensor);
    if (name)
        snprintf(out.text, sizeof out.text, " (\"%s\")", name);
    return out;
}

/* A number that must be in [0, max]; `allowed` is that in words. */
typedef struct setting {
    const char *name;
    double value, max;
    const char *allowed;
} setting;

#define NOT_NEGATIVE FLT_MAX, "a number in [0, FLT_MAX]" /* the range of float32 parameters */
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

/* No run gets there, and counting on from there does not overflow. */
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
    GSC_TRY(check_settings(function, index, settings, sizeof settings / sizeof settings[0]));
    if (group->nesterov && (group->momentum == 0 || group->dampening != 0))
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: groups[%zu].nesterov is set with momentum %g and dampening %g; it needs momentum > 0 and "
                        "dampening 0",
                        function, index, group->momentum, group->dampening);
    return GSC_OK;
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
    GSC_TRY(kind == GSC_OPTIM_SGD ? check_sgd(function, index, group) : check_adam(function, index, group));
    char name[32];
    snprintf(name, sizeof name, "groups[%zu]", index);
    GSC_TRY(GSC_CHECK_RESERVED(group, function, name));
    if (group->count > 0 && !group->params)
        return gsc_fail(GSC_ERR_VALUE, "%s: groups[%zu].params is NULL with count %zu", function, index, group->count);
    for (size_t i = 0; i < group->count; i++)
        GSC_TRY(check_param(function, index, i, group->params[i]));
    return GSC_OK;
}

/* Where a tensor is listed. Sorted by tensor, those of one that is listed twice are neighbours. */
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

static gsc_status check_neighbours(const char *function, const listing *listings, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const listing *a = &listings[i - 1], *b = &listings[i];
        if (a->tensor == b->tensor)
            return gsc_fail(GSC_ERR_VALUE,
                            "%s: groups[%zu].params[%zu]%s is groups[%zu].params[%zu] again; list each parameter once",
                            function, b->group, b->index, gsc__optim_name(b->tensor).text, a->group, a->index);
    }
    return GSC_OK;
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
    gsc_status status = check_neighbours(function, listings, count);
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
        GSC_TRY(check_group(kind, function, g, &groups[g]));
        *param_count += groups[g].count;
    }
    return check_distinct(function, groups, n, *param_count);
}
