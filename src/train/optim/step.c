/* SPDX-License-Identifier: Apache-2.0 */
/* step.c: one step over all parameters that have a gradient. Everything is checked before the first write; from then on
 * nothing can fail. The elements of all parameters are numbered consecutively and cut into tasks of equal size, so that
 * one large parameter and many small ones spread over the threads alike. */
#include <float.h>
#include <stdint.h>
#include <string.h>

#include "base/blocks.h"
#include "base/fpenv.h"
#include "base/reserved.h"
#include "base/try.h"
#include "gradscaler/runtime.h"
#include "train/optim/check.h"
#include "train/optim/step.h"
#include "train/tensor/tensor.h"

enum { TASK_ELEMENTS = 32768 }; /* work that is worth waking a thread for */

/* Thousands of small parameters lie anywhere in memory, and hardware prefetchers cannot predict where the next one
 * begins: so while one is worked on, the first LINES cache lines of a later one are prefetched. The hardware
 * prefetchers follow the remaining lines of an array. */
enum { LINE_BYTES = 64, LINES = 4, TENSORS_AHEAD = 8, WORK_AHEAD = 2 };

static const char subject[] = "optimizer step"; /* messages begin with it */

/* Always inlined, because gcc drops calls of functions that only prefetch. */
__attribute__((always_inline)) static inline void prefetch(const void *memory)
{
    for (uintptr_t line = 0; line < LINES; line++) /* may be past the end: nothing is read */
        __builtin_prefetch((const void *)((uintptr_t)memory + line * LINE_BYTES));
}

static gsc__update_kernel *kernel_of(const gsc__update_kernels *kernels, gsc__optim_kind kind,
                                     const gsc__optim_param *param)
{
    gsc__update_kernel *const *by_kind = kind != GSC_OPTIM_SGD  ? kernels->adam
                                         : param->state[0].data ? kernels->sgd_momentum
                                                                : kernels->sgd;
    return by_kind[param->kind]; /* GSC_F32 is 0 and GSC_F64 is 1, like the kernels' rows */
}

static void *elements_of(const DLTensor *tensor) { return (char *)tensor->data + tensor->byte_offset; }

static bool matches(const gsc__optim_param *param, const DLTensor *tensor)
{
    return gsc__kind_of(tensor->dtype) == param->kind && tensor->ndim == param->ndim && !tensor->strides &&
           (param->ndim == 0 || memcmp(tensor->shape, param->shape, (size_t)param->ndim * sizeof *param->shape) == 0) &&
           (param->elements == 0 || tensor->data);
}

static gsc_status check_unchanged(const gsc__optim_param *param, size_t index, const char *what, const DLTensor *tensor)
{
    if (matches(param, tensor))
        return GSC_OK;
    int32_t shown = tensor->ndim < 0 || tensor->ndim > GSC_TENSOR_MAX_DIMS ? 0 : tensor->ndim;
    return gsc_fail(GSC_ERR_VALUE,
                    "%s: the %s of parameter %zu%s is %s with ndim %d and shape %s; expected is a compact %s "
                    "of shape %s, as when the optimizer was created",
                    subject, what, index, gsc__optim_name(param->tensor).text,
                    gsc__kind_name(gsc__kind_of(tensor->dtype)), (int)tensor->ndim,
                    gsc__shape_print(shown, tensor->shape).text, gsc__kind_name(param->kind),
                    gsc__shape_print(param->ndim, param->shape).text);
}

/* All work of a step. */
typedef struct step_work {
    gsc__optim_work *items;
    size_t count, elements;
} step_work;

static void add_work(step_work *work, gsc__update update, gsc__update_kernel *kernel, size_t param_index,
                     size_t elements)
{
    work->items[work->count++] = (gsc__optim_work){
        .update = update, .kernel = kernel, .param_index = param_index, .start = work->elements, .elements = elements};
    work->elements += elements;
}

/* Lists and checks the work of this step. Neighbours of one group and step count share a rule, computed once. */
static gsc_status list_work(const gsc_optim *optim, double multiplier, step_work *work)
{
    const gsc__update_kernels *kernels = gsc__update_kernels_of(gsc_isa());
    const gsc__optim_param *previous = NULL;
    gsc__optim_rule rule = {0};
    const gsc__multiplier whole = {multiplier, 1}, split = gsc__split_multiplier(multiplier);
    for (size_t i = 0; i < optim->param_count; i++) {
        const gsc__optim_param *param = &optim->params[i];
        if (optim->param_count - i > TENSORS_AHEAD)
            prefetch(param[TENSORS_AHEAD].tensor);
        const DLTensor *data = gsc_tensor_data(param->tensor), *grad = gsc_tensor_grad(param->tensor);
        if (!grad)
            continue;
        GSC_TRY(check_unchanged(param, i, "gradient", grad));
        GSC_TRY(check_unchanged(param, i, "data", data));
        if (!previous || previous->group != param->group || previous->step_count != param->step_count)
            rule = gsc__optim_rule_of(optim->kind, &optim->groups[param->group], param->step_count + 1);
        previous = param;
        gsc__update update = {.param = elements_of(data),
                              .grad = elements_of(grad),
                              .state = {param->state[0].data, param->state[1].data},
                              .split = param->kind == GSC_F64 ? whole : split,
                              .rule = rule};
        add_work(work, update, kernel_of(kernels, optim->kind, param), i, param->elements);
    }
    return GSC_OK;
}

__attribute__((always_inline)) static inline void prefetch_work(const gsc__update *update)
{
    prefetch(update->param);
    prefetch(update->grad);
    for (int k = 0; k < GSC_OPTIM_STATES && update->state[k]; k++)
        prefetch(update->state[k]);
}

/* The last task takes the remainder, too: fewer than 2 * TASK_ELEMENTS elements are one task, which runs without waking
 * a thread. */
static size_t task_count(size_t elements) { return elements < TASK_ELEMENTS ? elements > 0 : elements / TASK_ELEMENTS; }

static gsc__range task_part(size_t elements, size_t index)
{
    gsc__range part = gsc__part(elements, TASK_ELEMENTS, index);
    if (index + 1 == task_count(elements))
        part.end = elements;
    return part;
}

static void run_task(void *ctx, size_t index)
{
    const step_work *work = ctx;
    gsc__range part = task_part(work->elements, index);
    size_t i = gsc__find_part(&work->items[0].start, sizeof *work->items, work->count, part.first);
    for (; part.first < part.end; i++) {
        const gsc__optim_work *item = &work->items[i];
        if (work->count - i > WORK_AHEAD)
            prefetch_work(&item[WORK_AHEAD].update);
        size_t first = part.first - item->start, left = item->elements - first;
        size_t count = left < part.end - part.first ? left : part.end - part.first;
        if (count > 0)
            item->kernel(&item->update, first, count);
        part.first += count;
    }
}

static gsc_status step(gsc_optim *optim, double multiplier)
{
    step_work work = {.items = optim->work};
    GSC_TRY(list_work(optim, multiplier, &work));
    gsc_parallel_run(task_count(work.elements), run_task, &work);
    for (size_t i = 0; i < work.count; i++)
        optim->params[work.items[i].param_index].step_count++;
    return GSC_OK;
}

gsc_status gsc__optim_step_plain(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    GSC_TRY(GSC_CHECK_RESERVED(args, subject, "args"));
    double loss = args->closure ? args->closure(args->closure_ctx) : 0; /* in the caller's environment */
    GSC_FPENV_SCOPE;
    GSC_TRY(step(self, 1));
    if (args->closure) {
        *value = loss;
        *has_value = true;
    }
    return GSC_OK;
}

static gsc_status check_scaling(const gsc_step_args *args, const gsc_grad_scaling *scaling)
{
    GSC_TRY(GSC_CHECK_RESERVED(args, subject, "args"));
    GSC_TRY(GSC_CHECK_RESERVED(scaling, subject, "scaling"));
    if (args->closure)
        return gsc_fail(GSC_ERR_STATE,
                        "%s: a closure with scaled gradients; gradients of a re-evaluation "
                        "would never be unscaled: pass no closure while the scaler is enabled",
                        subject);
    if (scaling->multiplier_dev || scaling->multiplier64_dev || scaling->found_inf_dev || scaling->stream)
        return gsc_fail(GSC_ERR_DEVICE, "%s: scaling for a device, but the parameters are on the CPU", subject);
    if (!(scaling->multiplier >= 0 && scaling->multiplier <= FLT_MAX))
        return gsc_fail(GSC_ERR_VALUE, "%s: scaling->multiplier is %g, allowed is [0, FLT_MAX]", subject,
                        scaling->multiplier);
    return GSC_OK;
}

static gsc_status check_and_step(gsc_optim *optim, const gsc_step_args *args, const gsc_grad_scaling *scaling)
{
    GSC_TRY(check_scaling(args, scaling));
    return step(optim, scaling->multiplier);
}

gsc_status gsc__optim_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling, double *value,
                                  bool *has_value)
{
    (void)value;
    (void)has_value; /* without a closure there is nothing to return */
    GSC_FPENV_SCOPE;
    return check_and_step(self, args, scaling);
}

gsc_status gsc_optim_step(gsc_optim *optim)
{
    if (!optim)
        return gsc_fail(GSC_ERR_VALUE, "gsc_optim_step: optim is NULL");
    double value = 0;
    bool has_value = false;
    return gsc__optim_step_plain(optim, &(gsc_step_args){0}, &value, &has_value);
}
