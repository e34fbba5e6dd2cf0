/* SPDX-License-Identifier: Apache-2.0 */
/* module.h: the struct behind gsc_module. Each kind of layer has its file, which sets `forward`. */
#ifndef GSC_TRAIN_NN_MODULE_H
#define GSC_TRAIN_NN_MODULE_H

#include "gradscaler/nn.h"

typedef gsc_tensor *gsc__module_forward(gsc_module *module, gsc_tensor *x);

enum { GSC_MODULE_TENSORS = 2 };

struct gsc_module {
    gsc__module_forward *forward;
    bool in_sequence;                        /* a sequence owns it and frees it; gsc_module_free ignores it */
    gsc_tensor *tensors[GSC_MODULE_TENSORS]; /* a linear layer's weight and bias (NULL: none); freed with the module */
    gsc_module **children;                   /* a sequence's; freed with the module */
    size_t child_count;
    gsc_tensor **params; /* in the order of the forward pass: its tensors, or those of its children */
    size_t param_count;
};

/* A module with room for children and params; child_count stays 0 until they are set. NULL without a message: no
 * memory. */
gsc_module *gsc__module_alloc(gsc__module_forward *forward, size_t child_count, size_t param_count);

#endif
