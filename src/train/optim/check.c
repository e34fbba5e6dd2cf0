/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: what an optimizer may be created from. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/optim_settings.h"
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
    const gsc__optim_settings settings = GSC_OPTIM_SETTINGS_OF(group);
    GSC_TRY(gsc__optim_check_settings(kind, function, index, &settings));
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
