/* SPDX-License-Identifier: Apache-2.0 */
/* activation.c: layers without parameters: ReLU and tanh. */
#include "gradscaler/ops.h"
#include "train/nn/module.h"

static gsc_tensor *relu_forward(gsc_module *module, gsc_tensor *x)
{
    (void)module;
    return gsc_relu(x);
}

static gsc_tensor *tanh_forward(gsc_module *module, gsc_tensor *x)
{
    (void)module;
    return gsc_tanh(x);
}

static gsc_status create(const char *function, gsc__module_forward *forward, gsc_module **out)
{
    if (!out)
        return gsc_fail(GSC_ERR_VALUE, "%s: out is NULL", function);
    gsc_module *module = gsc__module_alloc(forward, 0, 0);
    if (!module)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for the layer", function);
    *out = module;
    return GSC_OK;
}

gsc_status gsc_module_relu(gsc_module **out) { return create("gsc_module_relu", relu_forward, out); }

gsc_status gsc_module_tanh(gsc_module **out) { return create("gsc_module_tanh", tanh_forward, out); }
