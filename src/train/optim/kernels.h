/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.h: the element loops of the optimizers.
 *
 * Formulas and their order are PyTorch's (torch/optim/sgd.py, adam.py, adamw.py: the single-tensor forms). Coefficients
 * are computed in double, rounded once to the parameter's dtype, and every operation below rounds once in that dtype:
 * the same bits on every instruction set. No multiply-add is fused, which PyTorch's vectorised code does in places.
 * Each loop reads grad, param and state once and writes param and state once; grad is never written.
 *
 * All start with  g = grad * multiplier * rest,  which for rest 1 is what a scaler's unscale would have stored. rest is
 * a power of two, other than 1 only where the whole factor is too small for the dtype's normal numbers.
 *
 * SGD        if weight_decay != 0:  g = g + weight_decay * p
 *            if momentum != 0:      buf = buffer_weight * buf + grad_weight * g;
 *                                   g = nesterov ? g + momentum * buf : buf
 *            p = p - lr * g
 *   buffer_weight = momentum and grad_weight = 1 - dampening; in a parameter's first step 0 and 1, since PyTorch then
 *   sets buf = g.
 *
 * Adam(W)    p = shrink * p                                  AdamW: 1 - lr * weight_decay; Adam: 1
 *            if weight_decay != 0:  g = g + weight_decay * p                     (Adam only)
 *            m = lerp(m, g, 1 - beta1)
 *            v = beta2 * v + ((1 - beta2) * g) * g
 *            p = p - (step_size * m) / (sqrt(v) / bias_correction2_sqrt + eps)
 *   lerp(a, b, w) is a + w * (b - a) for w < 0.5, else b - (1 - w) * (b - a), as torch.lerp has it.
 *   step_size = lr / (1 - beta1^t), bias_correction2_sqrt = sqrt(1 - beta2^t), t = this parameter's step, from 1. */
#ifndef GSC_TRAIN_OPTIM_KERNELS_H
#define GSC_TRAIN_OPTIM_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct gsc__sgd_rule {
    double lr, weight_decay, momentum, buffer_weight, grad_weight;
    bool nesterov;
} gsc__sgd_rule;

typedef struct gsc__adam_rule {
    double weight_decay, shrink, beta1, beta2, eps, step_size, bias_correction2_sqrt;
} gsc__adam_rule;

typedef union gsc__optim_rule {
    gsc__sgd_rule sgd;
    gsc__adam_rule adam;
} gsc__optim_rule;

/* One parameter's step: compact arrays of its dtype that do not overlap. */
typedef struct gsc__update {
    void *param; /* its elements */
    const void *grad;
    void *state[2]; /* SGD: momentum buffer, if any; Adam: m, v */
    double multiplier, rest;
    gsc__optim_rule rule;
} gsc__update;

/* Applies elements [first, first + count). */
typedef void gsc__update_kernel(const gsc__update *update, size_t first, size_t count);

/* Each kernel, once: K(loop of loops.h, argument). The tables, and the tests of all kernels, follow from this list. */
#define GSC_UPDATE_KERNELS(K, argument)                                                                                \
    K(sgd, argument)                                                                                                   \
    K(sgd_momentum, argument)                                                                                          \
    K(adam, argument)

/* The kernels compiled for one instruction set: [0] for float32 parameters, [1] for float64. */
typedef struct gsc__update_kernels {
    const char *isa;
#define GSC_UPDATE_MEMBER(name, argument) gsc__update_kernel *name[2];
    GSC_UPDATE_KERNELS(GSC_UPDATE_MEMBER, )
#undef GSC_UPDATE_MEMBER
} gsc__update_kernels;

/* The kernels of the instruction set that gsc_isa() calls `isa`; the baseline's for a name that is not in GSC_ISAS, as
 * a newer libgradscaler may return one. A name that gsc_isa() did not return may be of an instruction set that this
 * processor lacks. */
const gsc__update_kernels *gsc__update_kernels_of(const char *isa);

#endif
