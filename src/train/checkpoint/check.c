/* SPDX-License-Identifier: Apache-2.0 */
/* check.c: checks the lists that callers give. */
#include "train/checkpoint/check.h"

#include <stdio.h>
#include <string.h>

#include "base/reserved.h"
#include "base/try.h"
#include "train/io/json.h"

/* The list of optimizers or of scalers. */
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
    GSC_TRY(gsc__json_check_text(function, what, name)); /* refuses NULL */
    if (name && name[0] == '\0')
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is empty", function, what);
    for (size_t other = 0; name && other < index; other++)
        if (strcmp(name, list->name(list->items, other)) == 0)
            return gsc_fail(GSC_ERR_VALUE, "%s: %s is \"%s\", and so is %s[%zu].name; give them different names",
                            function, what, name, list->field, other);
    return GSC_OK;
}

static gsc_status check_list(const char *function, const named_list *list)
{
    if (list->count > 0 && !list->items)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL, but there are %zu of them", function, list->field, list->count);
    for (size_t i = 0; i < list->count; i++) {
        if (!list->object(list->items, i))
            return gsc_fail(GSC_ERR_VALUE, "%s: entry %zu of %s is NULL", function, i, list->field);
        GSC_TRY(check_name(function, list, i));
    }
    return GSC_OK;
}

gsc_status gsc__checkpoint_check(const char *function, const char *dir, const gsc_checkpoint *checkpoint)
{
    if (!dir || !checkpoint)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL", function, dir ? "checkpoint" : "dir");
    GSC_TRY(GSC_CHECK_RESERVED(checkpoint, function, "checkpoint"));
    if (checkpoint->tensor_count > 0 && !checkpoint->tensors)
        return gsc_fail(GSC_ERR_VALUE, "%s: tensors is NULL, but there are %zu of them", function,
                        checkpoint->tensor_count);
    const named_list optims = {"optims", checkpoint->optims, checkpoint->optim_count, optim_name, optim_object};
    const named_list scalers = {"scalers", checkpoint->scalers, checkpoint->scaler_count, scaler_name, scaler_object};
    GSC_TRY(check_list(function, &optims));
    return check_list(function, &scalers);
}
