/* SPDX-License-Identifier: Apache-2.0 */
/* linear.c: the linear layer. */
#include <inttypes.h>
#include <math.h>

#include "base/fpenv.h"
#include "base/try.h"
#include "train/nn/module.h"
#include "train/ops/op_list.h"

enum { WEIGHT, BIAS };

static gsc_tensor *forward(gsc_module *module, gsc_tensor *x)
{
    return gsc__linear(x, module->tensors[WEIGHT], module->tensors[BIAS]);
}

static gsc_status create_param(const char *name, int32_t ndim, const int64_t *shape, gsc_tensor **out)
{
    GSC_TRY(gsc_tensor_create(GSC_FLOAT32, ndim, shape, out));
    GSC_TRY(gsc_tensor_set_name(*out, name));
    return gsc_tensor_set_requires_grad(*out, true);
}

static double weight_bound(int64_t in_features)
{
    gsc__fpenv caller = gsc__fpenv_enter();
    double bound = gsc__fpenv_pin(1 / sqrt(gsc__fpenv_pin((double)in_features)));
    gsc__fpenv_leave(caller);
    return bound;
}

/* On an error the caller frees the module, with the tensors made so far. */
static gsc_status init(gsc_module *module, int64_t in_features, int64_t out_features, gsc_random *random)
{
    GSC_TRY(create_param("weight", 2, (int64_t[]){out_features, in_features}, &module->tensors[WEIGHT]));
    if (module->param_count == 2)
        GSC_TRY(create_param("bias", 1, &out_features, &module->tensors[BIAS]));
    double bound = weight_bound(in_features);
    gsc_random advanced = *random; /* *random changes on success only */
    for (size_t i = 0; i < module->param_count; i++) {
        module->params[i] = module->tensors[i];
        GSC_TRY(gsc_random_fill_uniform(&advanced, gsc_tensor_data(module->tensors[i]), -bound, bound));
    }
    *random = advanced;
    return GSC_OK;
}

gsc_status gsc_module_linear(int64_t in_features, int64_t out_features, bool bias, gsc_random *random, gsc_module **out)
{
    if (!random || !out)
        return gsc_fail(GSC_ERR_VALUE, "gsc_module_linear: %s is NULL", random ? "out" : "random");
    if (in_features < 1 || out_features < 1)
        return gsc_fail(GSC_ERR_VALUE,
                        "gsc_module_linear: in_features is %" PRId64 " and out_features is %" PRId64
                        ", both must be at least 1",
                        in_features, out_features);
    gsc_module *module = gsc__module_alloc(forward, 0, bias ? 2 : 1);
    if (!module)
        return gsc_fail(GSC_ERR_MEMORY, "gsc_module_linear: no memory for the layer");
    gsc_status status = init(module, in_features, out_features, random);
    if (status == GSC_OK)
        *out = module;
    else
        gsc_module_free(module);
    return status;
}
