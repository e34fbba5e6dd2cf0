/* SPDX-License-Identifier: Apache-2.0 */
/* nn.h: layers. A module owns its parameters: float32 tensors that require gradients, named "weight" and "bias", and by
 * their place in a sequence: "0.weight", "2.bias", in a sequence of sequences "1.0.weight".
 *
 *     gsc_random random = gsc_random_init(seed, 0);
 *     gsc_module *model;
 *     gsc_module_mlp((int64_t[]){784, 256, 10}, 3, GSC_ACTIVATION_RELU, &random, &model);
 *     gsc_tensor *logits = gsc_module_forward(model, gsc_tape_input(tape, &images));
 *     gsc_module_free(model);
 *
 * Creating is all or nothing: on an error (GSC_ERR_VALUE, GSC_ERR_MEMORY) *out, the generator and the children are as
 * they were. The same generator state gives the same weights for every thread count. */
#ifndef GRADSCALER_NN_H
#define GRADSCALER_NN_H

#include "gradscaler/ops.h"
#include "gradscaler/random.h"
#include "gradscaler/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gsc_module gsc_module;

/* y = x W^T + b; W [out_features, in_features] and b [out_features] (bias false: none) uniform in
 * +-1/sqrt(in_features): what PyTorch's torch.nn.Linear starts from (kaiming_uniform_ with a = sqrt(5) gives W the same
 * bound as b). W is drawn before b. Both sizes >= 1. */
GSC_API gsc_status gsc_module_linear(int64_t in_features, int64_t out_features, bool bias, gsc_random *random,
                                     gsc_module **out);
GSC_API gsc_status gsc_module_relu(gsc_module **out);
GSC_API gsc_status gsc_module_tanh(gsc_module **out);
/* One after the other; n == 0 is the identity. Takes over the children on success (gsc_module_free leaves them alone
 * from then on) and renames their parameters; leaves them to the caller on failure. A child may be listed once only and
 * belong to one sequence only. */
GSC_API gsc_status gsc_module_sequential(gsc_module *const *children, size_t n, gsc_module **out);
/* Linear layers of sizes[0], …, sizes[n - 1] with ReLU (or tanh) between them, none at the end; n >= 2, sizes >= 1. */
typedef enum gsc_activation { GSC_ACTIVATION_RELU = 0, GSC_ACTIVATION_TANH = 1 } gsc_activation;
GSC_API gsc_status gsc_module_mlp(const int64_t *sizes, size_t n, gsc_activation activation, gsc_random *random,
                                  gsc_module **out);

/* Through the public ops, so under autocast like them. An op itself: NULL in, NULL out, NULL with a message where a
 * layer fails. x [m, in_features], on a tape. */
GSC_API gsc_tensor *gsc_module_forward(gsc_module *module, gsc_tensor *x);
/* Parameters in the order of the layers, weight before bias. They live as long as the module. */
GSC_API size_t gsc_module_param_count(const gsc_module *module);        /* 0 for NULL */
GSC_API gsc_tensor *gsc_module_param(gsc_module *module, size_t index); /* borrowed; NULL: no such index */
/* With its children and parameters. NULL is fine; a child of a sequence is left alone. */
GSC_API void gsc_module_free(gsc_module *module);

#ifdef __cplusplus
}
#endif

/* Names of version 0.1.0, kept so that programs written for it compile unchanged. */
#define gsc_nn_linear gsc_module_linear
#define gsc_nn_relu gsc_module_relu
#define gsc_nn_tanh gsc_module_tanh
#define gsc_nn_sequential gsc_module_sequential
#define gsc_nn_mlp gsc_module_mlp

#endif
