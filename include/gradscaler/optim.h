/* SPDX-License-Identifier: Apache-2.0 */
/* optim.h: SGD, Adam and AdamW over float32 or float64 parameters. Formulas, their order and the defaults are PyTorch's
 * (torch.optim.SGD, Adam, AdamW), for a parameter p with gradient g in its t-th step:
 *
 *     SGD      g += weight_decay p;  buf = momentum buf + (1 - dampening) g  (buf = g where t = 1)
 *              p -= lr buf, with Nesterov p -= lr (g + momentum buf), without momentum p -= lr g
 *     Adam     g += weight_decay p;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
 *              p -= lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *     AdamW    p -= lr weight_decay p instead of the first line of Adam
 *
 * float32 parameters are computed in float32, float64 ones in double, with one rounding per operation and nothing
 * fused: the same bits for every thread count and instruction set, to rounding those of PyTorch.
 *
 * A parameter without a gradient is passed over, its state and step count unchanged. All memory is allocated when the
 * optimizer is created; a step checks everything before its first write, so it changes all or nothing. Each has a
 * scale-aware step, so a scaler tests the gradients in one reading pass and the optimizer unscales and clips on the
 * fly, leaving the gradients as they are. An optimizer belongs to one thread at a time. */
#ifndef GRADSCALER_OPTIM_H
#define GRADSCALER_OPTIM_H

#include "gradscaler/optimizer.h"
#include "gradscaler/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Parameters that share settings. Start from gsc_param_group_default_sgd or gsc_param_group_default_adam and change
 * what you need; each kind of optimizer checks the fields that it reads and requires the others to be zero. */
typedef struct gsc_param_group {
    gsc_tensor *const *params; /* copied; the tensors are borrowed and must outlive the optimizer */
    size_t count;              /* 0 is fine */
    double lr;                 /* in [0, FLT_MAX] */
    double weight_decay;       /* in [0, FLT_MAX]; added to the gradient (SGD, Adam) or decoupled (AdamW) */
    double momentum;           /* SGD: in [0, FLT_MAX]; 0: no momentum, and no state */
    double dampening;          /* SGD: in [0, 1] */
    bool nesterov;             /* SGD: needs momentum > 0 and dampening 0 */
    double beta1, beta2;       /* Adam, AdamW: in [0, 1) */
    double eps;                /* Adam, AdamW: in [0, FLT_MAX] */
    uint64_t reserved[8];
} gsc_param_group;

/* The rest is PyTorch's default: 0 everywhere, but beta1 0.9, beta2 0.999 and eps 1e-8 for Adam and AdamW, whose
 * weight_decay is 0 here too (torch.optim.AdamW: 0.01). */
GSC_API gsc_param_group gsc_param_group_default_sgd(gsc_tensor *const *params, size_t count, double lr);
GSC_API gsc_param_group gsc_param_group_default_adam(gsc_tensor *const *params, size_t count, double lr);

typedef struct gsc_optim gsc_optim;
/* n >= 1 groups. Parameters are float32 or float64 tensors of their own, each listed once over all groups; float16 and
 * bfloat16 are refused: keep float32 master parameters. *out is set on success only.
 * Errors: GSC_ERR_VALUE naming the group, the field or parameter and what is allowed; GSC_ERR_MEMORY. */
GSC_API gsc_status gsc_optim_create_sgd(const gsc_param_group *groups, size_t n, gsc_optim **out);
GSC_API gsc_status gsc_optim_create_adam(const gsc_param_group *groups, size_t n, gsc_optim **out);
GSC_API gsc_status gsc_optim_create_adamw(const gsc_param_group *groups, size_t n, gsc_optim **out);
GSC_API void gsc_optim_free(gsc_optim *optim); /* NULL is fine */

/* What a scaler takes; lives as long as the optim (gsc_scaler_forget it first). NULL for NULL. Its step calls the
 * closure, if any, once before the step and returns its loss; its step_scaled refuses one. */
GSC_API const gsc_optimizer *gsc_optim_optimizer(gsc_optim *optim);
/* One step with the gradients as they are, without a scaler. GSC_ERR_VALUE, nothing changed: a gradient or parameter no
 * longer has the dtype and shape that it had at creation. */
GSC_API gsc_status gsc_optim_step(gsc_optim *optim);
/* Makes every parameter's gradient absent (not zero). */
GSC_API void gsc_optim_zero_grad(gsc_optim *optim);
GSC_API size_t gsc_optim_group_count(const gsc_optim *optim);
/* From the next step on; lr in [0, FLT_MAX]. GSC_ERR_VALUE: another lr, or no such group. */
GSC_API gsc_status gsc_optim_set_lr(gsc_optim *optim, size_t group, double lr);
GSC_API double gsc_optim_get_lr(const gsc_optim *optim, size_t group); /* NaN with a message: no such group */
/* Parameters in the order of their groups. */
GSC_API size_t gsc_optim_param_count(const gsc_optim *optim);
/* The tensor's name. NULL: it has none, or no such parameter. */
GSC_API const char *gsc_optim_param_name(const gsc_optim *optim, size_t param);
/* The index of the first parameter with this name; SIZE_MAX: none. */
GSC_API size_t gsc_optim_find_param(const gsc_optim *optim, const char *name);

/* All that decides how an optimizer goes on, beside its settings: the learning rates, and of each parameter the step
 * count and the states. gsc_checkpoint_save and _load do all of this. */

/* "sgd", "adam" or "adamw"; NULL for NULL. */
GSC_API const char *gsc_optim_kind_name(const gsc_optim *optim);
/* Steps that this parameter has made; 0: no such parameter. */
GSC_API int64_t gsc_optim_get_step_count(const gsc_optim *optim, size_t param);
/* count in [0, 2^62]. GSC_ERR_VALUE: another count, or no such parameter. */
GSC_API gsc_status gsc_optim_set_step_count(gsc_optim *optim, size_t param, int64_t count);
/* A parameter's states: "momentum_buffer" (SGD with momentum), "exp_avg", "exp_avg_sq" (Adam, AdamW). NULL: no such
 * index or parameter. */
GSC_API const char *gsc_optim_state_name(const gsc_optim *optim, size_t param, size_t index);
/* Borrowed state of a parameter, of its shape and dtype, zero before its first step; writable, to set it. NULL: none of
 * this name. */
GSC_API DLTensor *gsc_optim_state(gsc_optim *optim, size_t param, const char *name);

#ifdef __cplusplus
}
#endif

/* Names of version 0.1.0, kept so that programs written for it compile unchanged. */
#define gsc_sgd_group gsc_param_group_default_sgd
#define gsc_adam_group gsc_param_group_default_adam
#define gsc_optim_sgd gsc_optim_create_sgd
#define gsc_optim_adam gsc_optim_create_adam
#define gsc_optim_adamw gsc_optim_create_adamw
#define gsc_optim_step_count gsc_optim_get_step_count

#endif
