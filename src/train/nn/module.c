/* SPDX-License-Identifier: Apache-2.0 */
/* module.c: what all layers share. */
#include "train/nn/module.h"

#include <stdlib.h>

#include "train/tape/chain.h"

gsc_module *gsc__module_alloc(gsc__module_forward *forward, size_t child_count, size_t param_count)
{
    gsc_module *module = calloc(1, sizeof *module);
    if (!module)
        return NULL;
    module->forward = forward;
    module->children = calloc(child_count + 1, sizeof(gsc_module *));
    module->params = calloc(param_count + 1, sizeof(gsc_tensor *));
    if (!module->children || !module->params) {
        gsc_module_free(module);
        return NULL;
    }
    module->param_count = param_count;
    return module;
}

static void release(gsc_module *module)
{
    for (size_t i = 0; i < module->child_count; i++)
        release(module->children[i]);
    for (size_t i = 0; i < GSC_MODULE_TENSORS; i++)
        gsc_tensor_free(module->tensors[i]);
    free(module->children);
    free(module->params);
    free(module);
}

void gsc_module_free(gsc_module *module)
{
    if (module && !module->in_sequence)
        release(module);
}

gsc_tensor *gsc_module_forward(gsc_module *module, gsc_tensor *x)
{
    if (x && module)
        return module->forward(module, x);
    if (x)
        gsc_fail(GSC_ERR_VALUE, "gsc_module_forward: module is NULL");
    return gsc__chain_note(NULL);
}

size_t gsc_module_param_count(const gsc_module *module) { return module ? module->param_count : 0; }

gsc_tensor *gsc_module_param(gsc_module *module, size_t index)
{
    return module && index < module->param_count ? module->params[index] : NULL;
}
