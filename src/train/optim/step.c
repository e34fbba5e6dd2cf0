/* SPDX-License-Identifier: Apache-2.0 */
/* optim_step.c: one step over all parameters that have a gradient. Everything is checked first; from the first write on
 * nothing can fail. The elements of all parameters form one row that is cut into tasks of equal size, so that one
 * large and many small parameters spread over the threads alike. */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/fpenv.h"
#include "train/optim/optim.h"
#include "train/tensor/tensor.h"

enum { TASK = 32768 }; /* elements that are worth waking a thread for; below twice that the caller works alone */

/* Thousands of small parameters lie anywhere in memory: while one is at work, what a later one needs is on its way. Of
 * arrays the beginning is enough, since processors foresee the rest. */
enum { LINE = 64, LINES = 4, TENSORS_AHEAD = 8, WORK_AHEAD = 2 };

/* Always inlined, since gcc drops calls of functions that only prefetch. */
__attribute__((always_inline)) static inline void fetch(const void *memory)
{
    for (uintptr_t line = 0; line < LINES; line++) /* may be past the end: nothing is read */
        __builtin_prefetch((const void *)((uintptr_t)memory + line * LINE));
}

/* base^exponent for exponent >= 1 by repeated squaring: multiplications alone, so the same bits everywhere, and a
 * resumed run finds the value again from the step count. */
static double integer_power(double base, int64_t exponent)
{
    double power = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            power *= base;
        base *= base;
    }
    return power;
}

static gsc__optim_rule sgd_rule(const gsc_param_group *group, int64_t step)
{
    bool first = step == 1;
    return (gsc__optim_rule){.sgd = {.lr = group->lr,
                                     .weight_decay = group->weight_decay,
                                     .momentum = group->momentum,
                                     .history = first ? 0 : group->momentum,
                                     .gain = first ? 1 : 1 - group->dampening,
                                     .nesterov = group->nesterov}};
}

static gsc__optim_rule adam_rule(gsc__optim_kind kind, const gsc_param_group *group, int64_t step)
{
    bool decoupled = kind == GSC_OPTIM_ADAMW;
    return (gsc__optim_rule){.adam = {.weight_decay = decoupled ? 0 : group->weight_decay,
                                      .shrink = decoupled ? 1 - group->lr * group->weight_decay : 1,
                                      .beta1 = group->beta1,
                                      .beta2 = group->beta2,
                                      .eps = group->eps,
                                      .step_size = group->lr / (1 - integer_power(group->beta1, step)),
                                      .bias_correction2_sqrt = sqrt(1 - integer_power(group->beta2, step))}};
}

static gsc__update_kernel *kernel_of(const gsc__update_kernels *kernels, gsc__optim_kind kind,
                                     const gsc__optim_param *param)
{
    gsc__update_kernel *const *by_type = kind != GSC_OPTIM_SGD  ? kernels->adam
                                         : param->state[0].data ? kernels->sgd_momentum
                                                                : kernels->sgd;
    return by_type[param->is_double];
}

static void *elements_of(const DLTensor *tensor) { return (char *)tensor->data + tensor->byte_offset; }

static bool matches(const gsc__optim_param *param, const DLTensor *tensor)
{
    return tensor->dtype.code == kDLFloat && tensor->dtype.bits == (param->is_double ? 64 : 32) &&
           tensor->dtype.lanes == 1 && tensor->ndim == param->ndim && !tensor->strides &&
           (param->ndim == 0 || memcmp(tensor->shape, param->shape, (size_t)param->ndim * sizeof *param->shape) == 0) &&
           (param->elements == 0 || tensor->data);
}

static gsc_status check_unchanged(const gsc__optim_param *param, size_t index, const char *what, const DLTensor *tensor)
{
    if (matches(param, tensor))
        return GSC_OK;
    int32_t shown = tensor->ndim < 0 || tensor->ndim > GSC_TENSOR_MAX_DIMS ? 0 : tensor->ndim;
    return gsc_fail(
        GSC_ERR_VALUE,
        "optimizer step: the %s of parameter %zu%s is %s with ndim %d and shape %s; expected is a compact %s "
        "of shape %s, as when the optimizer was created",
        what, index, gsc__optim_name(param->tensor).text, gsc__kind_name(gsc__kind_of(tensor->dtype)),
        (int)tensor->ndim, gsc__shape_print(shown, tensor->shape).text, param->is_double ? "float64" : "float32",
        gsc__shape_print(param->ndim, param->shape).text);
}

/* A multiplier as two factors. float32 has normal numbers down to 2^-126; 1/scale reaches 2^-128, where the two missing
 * bits do not matter and the plain path loses them too; a clip coefficient on top can make it any smaller. */
typedef struct split {
    double multiplier, rest;
} split;

static split split_multiplier(double multiplier)
{
    if (multiplier == 0 || multiplier >= 0x1p-128)
        return (split){multiplier, 1};
    int exponent;
    double mantissa = frexp(multiplier, &exponent);
    int rest = exponent < FLT_MIN_EXP - 1 ? FLT_MIN_EXP - 1 : exponent;
    return (split){ldexp(mantissa, exponent - rest), ldexp(1, rest)};
}

/* Lists and checks the work of this step. Rules are computed once per run of parameters of one group and age. */
static gsc_status plan(gsc_optim *optim, double multiplier, size_t *count, size_t *elements)
{
    const gsc__update_kernels *kernels = gsc__update_kernels_of(gsc_isa());
    const gsc__optim_param *previous = NULL;
    gsc__optim_rule rule = {0};
    *count = *elements = 0;
    for (size_t i = 0; i < optim->param_count; i++) {
        const gsc__optim_param *param = &optim->params[i];
        if (optim->param_count - i > TENSORS_AHEAD)
            fetch(param[TENSORS_AHEAD].tensor);
        const DLTensor *data = gsc_tensor_data(param->tensor), *grad = gsc_tensor_grad(param->tensor);
        if (!grad)
            continue;
        gsc_status status = check_unchanged(param, i, "gradient", grad);
        if (!status)
            status = check_unchanged(param, i, "data", data);
        if (status)
            return status;
        if (!previous || previous->group != param->group || previous->step_count != param->step_count) {
            const gsc_param_group *group = &optim->groups[param->group];
            rule = optim->kind == GSC_OPTIM_SGD ? sgd_rule(group, param->step_count + 1)
                                                : adam_rule(optim->kind, group, param->step_count + 1);
        }
        previous = param;
        const split factors = param->is_double ? (split){multiplier, 1} : split_multiplier(multiplier);
        optim->work[(*count)++] = (gsc__optim_work){.update = {.param = elements_of(data),
                                                               .grad = elements_of(grad),
                                                               .state = {param->state[0].data, param->state[1].data},
                                                               .multiplier = factors.multiplier,
                                                               .rest = factors.rest,
                                                               .rule = rule},
                                                    .kernel = kernel_of(kernels, optim->kind, param),
                                                    .param = i,
                                                    .start = *elements,
                                                    .elements = param->elements};
        *elements += param->elements;
    }
    return GSC_OK;
}

typedef struct sweep {
    const gsc__optim_work *work;
    size_t count, elements;
} sweep;

/* The last piece of work that starts at or before `position`; the first starts at 0. */
static size_t find(const sweep *all, size_t position)
{
    size_t low = 0, high = all->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (all->work[middle].start <= position)
            low = middle;
        else
            high = middle;
    }
    return low;
}

__attribute__((always_inline)) static inline void fetch_work(const gsc__update *update)
{
    fetch(update->param);
    fetch(update->grad);
    for (int k = 0; k < 2 && update->state[k]; k++)
        fetch(update->state[k]);
}

/* The last task takes what is left of the elements. */
static void run_task(void *ctx, size_t index)
{
    const sweep *all = ctx;
    size_t begin = index * TASK, end = all->elements - begin < (size_t)2 * TASK ? all->elements : begin + TASK;
    for (size_t i = find(all, begin); begin < end; i++) {
        const gsc__optim_work *work = &all->work[i];
        if (all->count - i > WORK_AHEAD)
            fetch_work(&work[WORK_AHEAD].update);
        size_t first = begin - work->start, left = work->elements - first;
        size_t count = left < end - begin ? left : end - begin;
        if (count > 0)
            work->kernel(&work->update, first, count);
        begin += count;
    }
}

static size_t task_count(size_t elements) { return elements < TASK ? elements > 0 : elements / TASK; }

static gsc_status step(gsc_optim *optim, double multiplier)
{
    sweep all = {.work = optim->work};
    gsc_status status = plan(optim, multiplier, &all.count, &all.elements);
    if (status)
        return status;
    gsc_parallel_run(task_count(all.elements), run_task, &all);
    for (size_t i = 0; i < all.count; i++)
        optim->params[all.work[i].param].step_count++;
    return GSC_OK;
}

static gsc_status check_reserved(const char *of, const uint64_t reserved[8])
{
    for (size_t i = 0; i < 8; i++)
        if (reserved[i])
            return gsc_fail(GSC_ERR_VALUE, "optimizer step: %s->reserved[%zu] is not zero; zero-initialise the struct",
                            of, i);
    return GSC_OK;
}

gsc_status gsc__optim_step_plain(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    gsc_status status = check_reserved("args", args->reserved);
    if (status)
        return status;
    double loss = args->closure ? args->closure(args->closure_ctx) : 0; /* in the caller's environment */
    gsc__fpenv caller = gsc__fpenv_enter();
    status = step(self, 1);
    gsc__fpenv_leave(caller);
    if (!status && args->closure) {
        *value = loss;
        *has_value = true;
    }
    return status;
}

static gsc_status check_scaling(const gsc_step_args *args, const gsc_grad_scaling *scaling)
{
    gsc_status status = check_reserved("args", args->reserved);
    if (!status)
        status = check_reserved("scaling", scaling->reserved);
    if (status)
        return status;
    if (args->closure)
        return gsc_fail(GSC_ERR_STATE, "optimizer step: a closure with scaled gradients; gradients of a re-evaluation "
                                       "would never be unscaled: pass no closure while the scaler is enabled");
    if (scaling->multiplier_dev || scaling->found_inf_dev || scaling->stream)
        return gsc_fail(GSC_ERR_DEVICE, "optimizer step: scaling for a device, but the parameters are on the CPU");
    if (!(scaling->multiplier >= 0 && scaling->multiplier <= FLT_MAX))
        return gsc_fail(GSC_ERR_VALUE, "optimizer step: scaling->multiplier is %g, allowed is [0, FLT_MAX]",
                        scaling->multiplier);
    return GSC_OK;
}

gsc_status gsc__optim_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling, double *value,
                                  bool *has_value)
{
    (void)value;
    (void)has_value; /* without a closure there is nothing to return */
    gsc__fpenv caller = gsc__fpenv_enter();
    gsc_status status = check_scaling(args, scaling);
    if (!status)
        status = step(self, scaling->multiplier);
    gsc__fpenv_leave(caller);
    return status;
}

gsc_status gsc_optim_step(gsc_optim *optim)
{
    if (!optim)
        return gsc_fail(GSC_ERR_VALUE, "gsc_optim_step: optim is NULL");
    double value = 0;
    bool has_value = false;
    return gsc__optim_step_plain(optim, &(gsc_step_args){0}, &value, &has_value);
}
