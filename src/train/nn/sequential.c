/* SPDX-License-Identifier: Apache-2.0 */
/* sequential.c: modules one after the other. */
#include <stdio.h>
#include <stdlib.h>

#include "base/try.h"
#include "train/nn/module.h"
#include "train/tensor/tensor.h"

/* A child that fails returns NULL and leaves its message. The children after it pass the NULL on. */
static gsc_tensor *forward(gsc_module *module, gsc_tensor *x)
{
    for (size_t i = 0; i < module->child_count; i++)
        x = gsc_module_forward(module->children[i], x);
    return x;
}

static gsc_status check_children(gsc_module *const *children, size_t n, size_t *param_count)
{
    *param_count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!children[i])
            return gsc_fail(GSC_ERR_VALUE, "gsc_module_sequential: children[%zu] is NULL", i);
        if (children[i]->in_sequence)
            return gsc_fail(GSC_ERR_VALUE, "gsc_module_sequential: children[%zu] belongs to another sequence already",
                            i);
        for (size_t other = 0; other < i; other++)
            if (children[other] == children[i])
                return gsc_fail(GSC_ERR_VALUE,
                                "gsc_module_sequential: children[%zu] is children[%zu] again; list each module once", i,
                                other);
        *param_count += children[i]->param_count;
    }
    return GSC_OK;
}

/* "2" and "0.weight" make "2.0.weight". NULL: no memory. */
static char *join_name(size_t position, const char *name)
{
    name = name ? name : "";
    int length = snprintf(NULL, 0, "%zu.%s", position, name);
    char *joined = length < 0 ? NULL : malloc((size_t)length + 1);
    if (joined)
        snprintf(joined, (size_t)length + 1, "%zu.%s", position, name);
    return joined;
}

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; names && i < count; i++)
        free(names[i]);
    free(names);
}

/* New names of all parameters, in order. NULL: no memory. */
static char **join_names(gsc_module *const *children, size_t n, size_t param_count)
{
    char **names = calloc(param_count + 1, sizeof *names);
    size_t index = 0;
    for (size_t c = 0; names && c < n; c++)
        for (size_t i = 0; i < children[c]->param_count; i++, index++) {
            names[index] = join_name(c, gsc_tensor_get_name(children[c]->params[i]));
            if (!names[index]) {
                free_names(names, index);
                return NULL;
            }
        }
    return names;
}

/* Cannot fail: the parameters take over the names instead of copying them. */
static void adopt(gsc_module *module, gsc_module *const *children, size_t n, char **names)
{
    size_t index = 0;
    for (size_t c = 0; c < n; c++) {
        for (size_t i = 0; i < children[c]->param_count; i++, index++) {
            gsc_tensor *param = children[c]->params[i];
            free(param->name);
            param->name = names[index];
            module->params[index] = param;
        }
        children[c]->in_sequence = true;
        module->children[c] = children[c];
    }
    module->child_count = n;
}

gsc_status gsc_module_sequential(gsc_module *const *children, size_t n, gsc_module **out)
{
    if (!out || (!children && n > 0))
        return gsc_fail(GSC_ERR_VALUE, "gsc_module_sequential: %s is NULL", out ? "children" : "out");
    size_t param_count;
    GSC_TRY(check_children(children, n, &param_count));
    gsc_module *module = gsc__module_alloc(forward, n, param_count);
    char **names = join_names(children, n, param_count);
    if (!module || !names) {
        free_names(names, param_count);
        gsc_module_free(module);
        return gsc_fail(GSC_ERR_MEMORY, "gsc_module_sequential: no memory for a sequence of %zu modules", n);
    }
    adopt(module, children, n, names);
    free(names);
    *out = module;
    return GSC_OK;
}
