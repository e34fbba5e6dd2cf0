/* SPDX-License-Identifier: Apache-2.0 */
#include "train/checkpoint/checkpoint.h"

#include <stdio.h>
#include <string.h>

const char *const gsc__checkpoint_files[GSC_FILES] = {"model.safetensors", "optimizer.safetensors", "scaler.json",
                                                      "run.json"};

/* One list of named things, whatever they are. */
typedef struct named_list {
    const char *field;
    const void *items;
    size_t count;
    const char *(*name)(const void *items, size_t index);
    const void *(*object)(const void *items, size_t index);
} named_list;

static const char *optim_name(const void *items, size_t index) { return ((const gsc_named_optim *)items)[index].name; }

static const void *optim_object(const void *items, size_t index)
{
    return ((const gsc_named_optim *)items)[index].optim;
}

static const char *scaler_name(const void *items, size_t index)
{
    return ((const gsc_named_scaler *)items)[index].name;
}

static const void *scaler_object(const void *items, size_t index)
{
    return ((const gsc_named_scaler *)items)[index].scaler;
}

static gsc_status check_name(const char *function, const named_list *list, size_t index)
{
    const char *name = list->name(list->items, index);
    if (!name && list->count == 1)
        return GSC_OK;
    char what[64];
    snprintf(what, sizeof what, "%s[%zu].name", list->field, index);
    gsc_status status = gsc__json_check_text(function, what, name);
    if (name && name[0] == '\0')
        status = gsc_fail(GSC_ERR_VALUE, "%s: %s is empty", function, what);
    for (size_t other = 0; name && other < index && status == GSC_OK; other++) /* the check has refused NULL */
        if (strcmp(name, list->name(list->items, other)) == 0)
            status = gsc_fail(GSC_ERR_VALUE, "%s: %s is \"%s\", as is %s[%zu].name; give each another", function, what,
                              name, list->field, other);
    return status;
}

static gsc_status check_list(const char *function, const named_list *list)
{
    if (list->count > 0 && !list->items)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL, but there are %zu of them", function, list->field, list->count);
    gsc_status status = GSC_OK;
    for (size_t i = 0; i < list->count && status == GSC_OK; i++) {
        if (!list->object(list->items, i))
            return gsc_fail(GSC_ERR_VALUE, "%s: entry %zu of %s is NULL", function, i, list->field);
        status = check_name(function, list, i);
    }
    return status;
}

gsc_status gsc__checkpoint_check(const char *function, const char *dir, const gsc_checkpoint *checkpoint)
{
    if (!dir || !checkpoint)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL", function, dir ? "checkpoint" : "dir");
    for (size_t i = 0; i < sizeof checkpoint->reserved / sizeof checkpoint->reserved[0]; i++)
        if (checkpoint->reserved[i])
            return gsc_fail(GSC_ERR_VALUE, "%s: checkpoint->reserved[%zu] is not zero; zero-initialise the struct",
                            function, i);
    if (checkpoint->tensor_count > 0 && !checkpoint->tensors)
        return gsc_fail(GSC_ERR_VALUE, "%s: tensors is NULL, but there are %zu of them", function,
                        checkpoint->tensor_count);
    const named_list lists[] = {{"optims", checkpoint->optims, checkpoint->optim_count, optim_name, optim_object},
                                {"scalers", checkpoint->scalers, checkpoint->scaler_count, scaler_name, scaler_object}};
    gsc_status status = check_list(function, &lists[0]);
    return status == GSC_OK ? check_list(function, &lists[1]) : status;
}
