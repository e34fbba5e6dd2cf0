/* SPDX-License-Identifier: Apache-2.0 */
/* mlp.c: the multilayer perceptron: linear layers with activations between them. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/try.h"
#include "gradscaler/nn.h"

static gsc_status check(const int64_t *sizes, size_t n, gsc_activation activation, const gsc_random *random,
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

static gsc_status create_activation(gsc_activation activation, gsc_module **out)
{
    return activation == GSC_ACTIVATION_RELU ? gsc_module_relu(out) : gsc_module_tanh(out);
}

/* Linear layers at the even indices, activations at the odd ones. */
static gsc_status create_layers(const int64_t *sizes, size_t count, gsc_activation activation, gsc_random *random,
                                gsc_module **layers)
{
    for (size_t i = 0; i < count; i++) {
        if (i % 2 == 0)
            GSC_TRY(gsc_module_linear(sizes[i / 2], sizes[i / 2 + 1], true, random, &layers[i]));
        else
            GSC_TRY(create_activation(activation, &layers[i]));
    }
    return GSC_OK;
}

gsc_status gsc_module_mlp(const int64_t *sizes, size_t n, gsc_activation activation, gsc_random *random,
                          gsc_module **out)
{
    GSC_TRY(check(sizes, n, activation, random, out));
    size_t count = 2 * n - 3;
    gsc_module **layers = calloc(count, sizeof(gsc_module *));
    if (!layers)
        return gsc_fail(GSC_ERR_MEMORY, "gsc_module_mlp: no memory for %zu layers", count);
    gsc_random advanced = *random; /* *random changes on success only */
    gsc_status status = create_layers(sizes, count, activation, &advanced, layers);
    if (status == GSC_OK)
        status = gsc_module_sequential(layers, count, out);
    if (status == GSC_OK)
        *random = advanced;
    for (size_t i = 0; status != GSC_OK && i < count; i++)
        gsc_module_free(layers[i]);
    free(layers);
    return status;
}
