/* SPDX-License-Identifier: Apache-2.0 */
/* optim_rules.h: SGD, Adam and AdamW: what one step computes of one parameter. Compiled by the CPU's loops and by those
 * of device modules, so that both give the same bits.
 *
 * Formulas and their order are PyTorch's (torch/optim/sgd.py, adam.py, adamw.py: the single-tensor forms). Coefficients
 * are computed in double, rounded once to the parameter's dtype, and every operation below rounds once in that dtype:
 * the same bits on every instruction set. No multiply-add is fused, which PyTorch's vectorised code does in places.
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
#ifndef GSC_BASE_OPTIM_RULES_H
#define GSC_BASE_OPTIM_RULES_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/device_code.h"

typedef enum gsc__optim_kind { GSC_OPTIM_SGD, GSC_OPTIM_ADAM, GSC_OPTIM_ADAMW } gsc__optim_kind;

/* What the user has set for a group of parameters. */
typedef struct gsc__optim_settings {
    double lr, weight_decay;
    double momentum, dampening; /* SGD */
    double beta1, beta2, eps;   /* Adam, AdamW */
    bool nesterov;              /* SGD */
} gsc__optim_settings;

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

/* base^exponent for exponent >= 1 by repeated squaring. Multiplications give the same bits on every machine, and a
 * resumed run computes the same value from the step count. */
GSC_INLINE double gsc__integer_power(double base, int64_t exponent)
{
    double power = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            power *= base;
        base *= base;
    }
    return power;
}

GSC_INLINE gsc__sgd_rule gsc__sgd_rule_of(const gsc__optim_settings *settings, int64_t step)
{
    gsc__sgd_rule rule;
    rule.lr = settings->lr;
    rule.weight_decay = settings->weight_decay;
    rule.momentum = settings->momentum;
    rule.buffer_weight = step == 1 ? 0 : settings->momentum;
    rule.grad_weight = step == 1 ? 1 : 1 - settings->dampening;
    rule.nesterov = settings->nesterov;
    return rule;
}

GSC_INLINE gsc__adam_rule gsc__adam_rule_of(bool decoupled, const gsc__optim_settings *settings, int64_t step)
{
    gsc__adam_rule rule;
    rule.weight_decay = decoupled ? 0 : settings->weight_decay;
    rule.shrink = decoupled ? 1 - settings->lr * settings->weight_decay : 1;
    rule.beta1 = settings->beta1;
    rule.beta2 = settings->beta2;
    rule.eps = settings->eps;
    rule.step_size = settings->lr / (1 - gsc__integer_power(settings->beta1, step));
    rule.bias_correction2_sqrt = gsc__sqrt(1 - gsc__integer_power(settings->beta2, step));
    return rule;
}

/* The rule of a parameter's step-th step, from 1. */
GSC_INLINE gsc__optim_rule gsc__optim_rule_of(gsc__optim_kind kind, const gsc__optim_settings *settings, int64_t step)
{
    gsc__optim_rule rule;
    if (kind == GSC_OPTIM_SGD)
        rule.sgd = gsc__sgd_rule_of(settings, step);
    else
        rule.adam = gsc__adam_rule_of(kind == GSC_OPTIM_ADAMW, settings, step);
    return rule;
}

/* A multiplier as two factors that float32 can hold; below 2^-275 the first is 0, as every product with it would be.
 *
 * The smallest normal number of float32 is 2^-126; smaller ones lose bits. A scale is less than 2^128, so that 1/scale
 * is more than 2^-128 and loses at most two bits. Unscaling the gradients in place multiplies by 1/scale as one
 * float32, so a step does the same and has the same bits. A clip coefficient can make the multiplier smaller than
 * 2^-128. As one float32 it would lose more bits or become 0: so it is split. */
typedef struct gsc__multiplier {
    double multiplier, rest;
} gsc__multiplier;

GSC_INLINE gsc__multiplier gsc__split_multiplier(double multiplier)
{
    const bool fits = multiplier == 0 || multiplier >= (double)FLT_MIN / 4; /* 2^-128 */
    gsc__multiplier split;
    split.multiplier = fits ? multiplier : multiplier / (double)FLT_MIN; /* exact: FLT_MIN is 2^-126 */
    split.rest = fits ? 1 : (double)FLT_MIN;
    return split;
}

/* Included once per type, because C has no other way to write a formula in operators for both. */
#define GSC_REAL float
#define GSC_SQRT gsc__sqrtf
#define GSC_OF_REAL(name) name##_f32
#include "base/optim_elements.h"
#undef GSC_REAL
#undef GSC_SQRT
#undef GSC_OF_REAL

#define GSC_REAL double
#define GSC_SQRT gsc__sqrt
#define GSC_OF_REAL(name) name##_f64
#include "base/optim_elements.h"
#undef GSC_REAL
#undef GSC_SQRT
#undef GSC_OF_REAL

#endif
