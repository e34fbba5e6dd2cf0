/* SPDX-License-Identifier: Apache-2.0 */
/* optim_step.c: one step over all parameters that have a gradient. Everything is checked before anything is enqueued,
 * and one launch makes the whole step, counts included: what is enqueued before it changes nothing that lasts. */
#include <float.h>
#include <string.h>

#include "base/dtype_text.h"
#include "base/fpenv.h"
#include "base/reserved.h"
#include "base/try.h"
#include "cuda/optim.h"
#include "cuda/upload.h"

static const char subject[] = "optimizer step"; /* messages begin with it */

/* ---- Where parameters and gradients are ---- */

static uint64_t address_of(const DLTensor *tensor) { return (uintptr_t)tensor->data + tensor->byte_offset; }

/* Fills in optim->found. */
static gsc_status find_places(gsc_cuda_optim *optim)
{
    for (size_t i = 0; i < optim->param_count; i++) {
        const gsc__cuda_parameter *param = &optim->params[i];
        const DLTensor *grad = *param->grad;
        optim->found[i] = (gsc__cuda_optim_place){0};
        if (!grad)
            continue;
        GSC_TRY(gsc__cuda_optim_check_step(optim, i, grad));
        /* An empty tensor may have no address; no element of it is read. */
        optim->found[i].param = address_of(param->tensor);
        optim->found[i].grad = param->elements > 0 ? address_of(grad) : UINT64_MAX;
        optim->found[i].grad_kind = (uint64_t)gsc__kind_of(grad->dtype);
    }
    return GSC_OK;
}

static bool same_place(const gsc_cuda_optim *optim, size_t i)
{
    return memcmp(&optim->found[i], &optim->sent[i], sizeof *optim->found) == 0;
}

/* Sends those of optim->found that the device may not have: from the first to the last of them. */
static gsc_status send_places(gsc_cuda_optim *optim)
{
    optim->captured |= optim->capturing;
    const bool all = optim->captured || optim->sent_unknown;
    size_t first = 0, end = optim->param_count;
    while (!all && first < end && same_place(optim, first))
        first++;
    while (!all && end > first && same_place(optim, end - 1))
        end--;
    optim->sent_unknown = true;
    GSC_TRY(gsc__cuda_upload(optim->context, optim->stream, optim->table.places + first, optim->found + first,
                             (end - first) * sizeof *optim->found, "send the addresses of gradients"));
    optim->sent_unknown = false;
    memcpy(optim->sent + first, optim->found + first, (end - first) * sizeof *optim->found);
    return GSC_OK;
}

/* ---- The step ---- */

/* Where a device keeps the one value of a tensor. */
static const void *value_of(const DLTensor *tensor)
{
    return tensor ? (const void *)((const char *)tensor->data + tensor->byte_offset) : NULL;
}

static gsc_status launch(gsc_cuda_optim *optim, const gsc_grad_scaling *scaling)
{
    const gsc__cuda_optim_prepare_args prepare = {.table = optim->table,
                                                  .multiplier = scaling->multiplier,
                                                  .multiplier_dev = value_of(scaling->multiplier_dev),
                                                  .multiplier64_dev = value_of(scaling->multiplier64_dev)};
    GSC_TRY(gsc__cuda_optim_launch(optim, GSC_CUDA_KERNEL_optim_prepare, optim->param_count, &prepare,
                                   "prepare an optimizer's step"));
    const gsc__cuda_optim_sgd_args apply = {.table = optim->table, .found_inf = value_of(scaling->found_inf_dev)};
    const int kernel = optim->kind == GSC_OPTIM_SGD ? GSC_CUDA_KERNEL_optim_sgd : GSC_CUDA_KERNEL_optim_adam;
    const size_t threads = (size_t)optim->table.item_count * 32; /* a warp each */
    return gsc__cuda_optim_launch(optim, kernel, threads, &apply, "make an optimizer's step");
}

static gsc_status enqueue(gsc_cuda_optim *optim, const gsc_grad_scaling *scaling)
{
    GSC_TRY(send_places(optim));
    return launch(optim, scaling);
}

static gsc_status step(gsc_cuda_optim *optim, const gsc_grad_scaling *scaling)
{
    GSC_TRY(find_places(optim));
    GSC_TRY(gsc__cuda_optim_begin(optim, scaling->stream, subject));
    gsc_status status = enqueue(optim, scaling);
    gsc__cuda_optim_end(optim);
    return status;
}

static gsc_status step_unscaled(gsc_cuda_optim *optim, CUstream stream)
{
    return step(optim, &(gsc_grad_scaling){.multiplier = 1, .stream = stream});
}

/* The scaler's, which names the legacy default stream by a handle of its own, or the optimizer's. */
static CUstream stream_of(const gsc_cuda_optim *optim, const gsc_step_args *args)
{
    CUstream stream = args->stream;
    return !stream ? optim->stream : stream == CU_STREAM_LEGACY ? NULL : stream;
}

gsc_status gsc__cuda_optim_step_plain(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    GSC_TRY(GSC_CHECK_RESERVED(args, subject, "args"));
    const double loss = args->closure ? args->closure(args->closure_ctx) : 0; /* in the caller's environment */
    GSC_TRY(step_unscaled(self, stream_of(self, args)));
    if (args->closure) {
        *value = loss;
        *has_value = true;
    }
    return GSC_OK;
}

/* One value of this dtype on the optimizer's device, or NULL. */
static gsc_status check_value(const gsc_cuda_optim *optim, const char *name, const DLTensor *tensor, DLDataType dtype)
{
    if (!tensor)
        return GSC_OK;
    const DLDevice device = tensor->device;
    if (device.device_type != optim->device.device_type || device.device_id != optim->device.device_id)
        return gsc_fail(GSC_ERR_DEVICE, "%s: scaling->%s is on %s; the optimizer is on %s", subject, name,
                        gsc__describe_device(device).text, gsc__describe_device(optim->device).text);
    if (gsc__kind_of(tensor->dtype) != gsc__kind_of(dtype) || !tensor->data || tensor->ndim > 1 ||
        (tensor->ndim == 1 && tensor->shape[0] != 1))
        return gsc_fail(GSC_ERR_VALUE, "%s: scaling->%s is not one %s", subject, name, gsc__describe_dtype(dtype).text);
    return GSC_OK;
}

static gsc_status check_scaling(const gsc_cuda_optim *optim, const gsc_step_args *args, const gsc_grad_scaling *scaling)
{
    GSC_TRY(GSC_CHECK_RESERVED(args, subject, "args"));
    GSC_TRY(GSC_CHECK_RESERVED(scaling, subject, "scaling"));
    if (args->closure)
        return gsc_fail(GSC_ERR_STATE,
                        "%s: a closure with scaled gradients; gradients of a re-evaluation would never be unscaled: "
                        "pass no closure while the scaler is enabled",
                        subject);
    GSC_TRY(check_value(optim, "multiplier_dev", scaling->multiplier_dev, GSC_FLOAT32));
    GSC_TRY(check_value(optim, "multiplier64_dev", scaling->multiplier64_dev, GSC_FLOAT64));
    GSC_TRY(check_value(optim, "found_inf_dev", scaling->found_inf_dev, GSC_FLOAT32));
    const bool on_device = scaling->multiplier_dev || scaling->multiplier64_dev;
    if (!on_device && !(scaling->multiplier >= 0 && scaling->multiplier <= FLT_MAX))
        return gsc_fail(GSC_ERR_VALUE, "%s: scaling->multiplier is %g, allowed is [0, FLT_MAX]", subject,
                        scaling->multiplier);
    return GSC_OK;
}

gsc_status gsc__cuda_optim_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling,
                                       double *value, bool *has_value)
{
    (void)value;
    (void)has_value; /* without a closure there is nothing to return */
    GSC_FPENV_SCOPE;
    GSC_TRY(check_scaling(self, args, scaling));
    return step(self, scaling);
}

gsc_status gsc_cuda_optim_step(gsc_cuda_optim *optim)
{
    if (!optim)
        return gsc_fail(GSC_ERR_VALUE, "%s: optim is NULL", __func__);
    return step_unscaled(optim, optim->stream);
}
