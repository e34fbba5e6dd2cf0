/* SPDX-License-Identifier: Apache-2.0 */
/* nn.c: layers. Each kind has its forward function; a Sequential owns its children and lists their parameters as its
 * own. */
#include "gradscaler/nn.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fpenv.h"
#include "train/tensor/tensor.h"

struct gsc_module {
    gsc_tensor *(*forward)(gsc_module *module, gsc_tensor *x);
    bool owned;         /* by a Sequential */
    gsc_tensor *own[2]; /* Linear: weight and bias (NULL: none) */
    gsc_module **children;
    size_t child_count;
    gsc_tensor **params; /* in the order of the forward pass; own or the children's */
    size_t param_count;
};

static gsc_module *allocate(gsc_tensor *(*forward)(gsc_module *, gsc_tensor *), size_t child_count, size_t param_count)
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
    gsc_tensor_free(module->own[0]);
    gsc_tensor_free(module->own[1]);
    free(module->children);
    free(module->params);
    free(module);
}

void gsc_module_free(gsc_module *module)
{
    if (module && !module->owned)
        release(module);
}

gsc_tensor *gsc_module_forward(gsc_module *module, gsc_tensor *x)
{
    if (!x)
        return NULL;
    if (!module) {
        gsc_fail(GSC_ERR_VALUE, "gsc_module_forward: module is NULL");
        return NULL;
    }
    return module->forward(module, x);
}

size_t gsc_module_param_count(const gsc_module *module) { return module ? module->param_count : 0; }

gsc_tensor *gsc_module_param(gsc_module *module, size_t index)
{
    return module && index < module->param_count ? module->params[index] : NULL;
}

/* Linear */

static gsc_tensor *linear_forward(gsc_module *module, gsc_tensor *x)
{
    return gsc_linear(x, module->own[0], module->own[1]);
}

static gsc_status create_param(const char *name, int32_t ndim, const int64_t *shape, gsc_tensor **out)
{
    gsc_status status = gsc_tensor_create(GSC_FLOAT32, ndim, shape, out);
    if (!status)
        status = gsc_tensor_set_name(*out, name);
    if (!status)
        status = gsc_tensor_set_requires_grad(*out, true);
    return status;
}

static gsc_status init_linear(gsc_module *module, int64_t in_features, int64_t out_features, gsc_random *random)
{
    gsc_status status = create_param("weight", 2, (int64_t[]){out_features, in_features}, &module->own[0]);
    if (!status && module->param_count == 2)
        status = create_param("bias", 1, &out_features, &module->own[1]);
    gsc__fpenv caller = gsc__fpenv_enter();
    double bound = gsc__fpenv_pin(1 / sqrt(gsc__fpenv_pin((double)in_features)));
    gsc__fpenv_leave(caller);
    gsc_random drawn = *random; /* advances only when all has worked */
    for (size_t i = 0; i < module->param_count && !status; i++) {
        module->params[i] = module->own[i];
        status = gsc_random_fill_uniform(&drawn, gsc_tensor_data(module->own[i]), -bound, bound);
    }
    if (!status)
        *random = drawn;
    return status;
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
    gsc_module *module = allocate(linear_forward, 0, bias ? 2 : 1);
    if (!module)
        return gsc_fail(GSC_ERR_MEMORY, "gsc_module_linear: no memory for the layer");
    gsc_status status = init_linear(module, in_features, out_features, random);
    if (status)
        gsc_module_free(module);
    else
        *out = module;
    return status;
}

/* Activations */

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

static gsc_status create_activation(const char *function, gsc_tensor *(*forward)(gsc_module *, gsc_tensor *),
                                    gsc_module **out)
{
    if (!out)
        return gsc_fail(GSC_ERR_VALUE, "%s: out is NULL", function);
    gsc_module *module = allocate(forward, 0, 0);
    if (!module)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for the layer", function);
    *out = module;
    return GSC_OK;
}

gsc_status gsc_module_relu(gsc_module **out) { return create_activation("gsc_module_relu", relu_forward, out); }

gsc_status gsc_module_tanh(gsc_module **out) { return create_activation("gsc_module_tanh", tanh_forward, out); }

/* Sequential */

static gsc_tensor *sequential_forward(gsc_module *module, gsc_tensor *x)
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
        if (children[i]->owned)
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
static char *join_name(size_t place, const char *name)
{
    name = name ? name : "";
    int length = snprintf(NULL, 0, "%zu.%s", place, name);
    char *joined = length < 0 ? NULL : malloc((size_t)length + 1);
    if (joined)
        snprintf(joined, (size_t)length + 1, "%zu.%s", place, name);
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

/* Nothing here can fail: the names are handed over, not copied. */
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
        children[c]->owned = true;
        module->children[c] = children[c];
    }
    module->child_count = n;
}

gsc_status gsc_module_sequential(gsc_module *const *children, size_t n, gsc_module **out)
{
    if (!out || (!children && n > 0))
        return gsc_fail(GSC_ERR_VALUE, "gsc_module_sequential: %s is NULL", out ? "children" : "out");
    size_t param_count;
    gsc_status status = check_children(children, n, &param_count);
    if (status)
        return status;
    gsc_module *module = allocate(sequential_forward, n, param_count);
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

/* MLP */

static gsc_status check_mlp(const int64_t *sizes, size_t n, gsc_activation activation, const gsc_random *random,
                            gsc_module *const *out)
{
    if (!sizes || !random || !out)
        return gsc_fail(GSC_ERR_VALUE, "gsc_module_mlp: %s is NULL", !sizes ? "sizes" : !random ? "random" : "out");
    if (n < 2)
        return gsc_fail(GSC_ERR_VALUE, "gsc_module_mlp: n is %zu, at least 2 sizes are needed: input and output", n);
    if (activation != GSC_ACTIVATION_RELU && activation != GSC_ACTIVATION_TANH)
        return gsc_fail(GSC_ERR_VALUE, "gsc_module_mlp: activation is %d, allowed are GSC_ACTIVATION_RELU and _TANH",
                        (int)activation);
    for (size_t i = 0; i < n; i++)
        if (sizes[i] < 1)
            return gsc_fail(GSC_ERR_VALUE, "gsc_module_mlp: sizes[%zu] is %" PRId64 ", allowed are 1 and more", i,
                            sizes[i]);
    return GSC_OK;
}

/* Linear layers at the even places, activations at the odd ones. */
static gsc_status create_layers(const int64_t *sizes, size_t count, gsc_activation activation, gsc_random *random,
                                gsc_module **layers)
{
    gsc_status status = GSC_OK;
    for (size_t i = 0; i < count && !status; i++) {
        if (i % 2 == 0)
            status = gsc_module_linear(sizes[i / 2], sizes[i / 2 + 1], true, random, &layers[i]);
        else if (activation == GSC_ACTIVATION_RELU)
            status = gsc_module_relu(&layers[i]);
        else
            status = gsc_module_tanh(&layers[i]);
    }
    return status;
}

gsc_status gsc_module_mlp(const int64_t *sizes, size_t n, gsc_activation activation, gsc_random *random,
                          gsc_module **out)
{
    gsc_status status = check_mlp(sizes, n, activation, random, out);
    if (status)
        return status;
    size_t count = 2 * n - 3;
    gsc_module **layers = calloc(count, sizeof(gsc_module *));
    if (!layers)
        return gsc_fail(GSC_ERR_MEMORY, "gsc_module_mlp: no memory for %zu layers", count);
    gsc_random drawn = *random; /* advances only when all has worked */
    status = create_layers(sizes, count, activation, &drawn, layers);
    if (!status)
        status = gsc_module_sequential(layers, count, out);
    if (!status)
        *random = drawn;
    for (size_t i = 0; status && i < count; i++)
        gsc_module_free(layers[i]);
    free(layers);
    return status;
}
