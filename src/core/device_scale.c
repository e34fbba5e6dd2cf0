/* SPDX-License-Identifier: Apache-2.0 */
/* device_scale.c: the scale for losses on devices, and, once it is known here, for those on the CPU. */
#include <stdlib.h>

#include "core/internal.h"
#include "gradients/scale.h"

static gsc_status reserve_pairs(gsc__device_part *part, size_t n, const char *api)
{
    if (n <= part->pair_capacity)
        return GSC_OK;
    gsc__pair *pairs = n <= SIZE_MAX / sizeof *pairs ? malloc(n * sizeof *pairs) : NULL;
    if (!pairs)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory for a list of %zu pairs", api, n);
    free(part->pairs);
    part->pairs = pairs;
    part->pair_capacity = n;
    return GSC_OK;
}

/* *on_cpu: how many pairs are there and not empty. */
static gsc_status check_pairs(gsc__device_part *part, const DLTensor *const *in, DLTensor *const *out, size_t n,
                              const gsc__message_subject *subject, size_t *on_cpu)
{
    gsc__message_subject each = *subject;
    GSC_TRY(reserve_pairs(part, n, subject->api));
    for (size_t i = 0; i < n; i++) {
        each.index = i;
        GSC_TRY(gsc__pair_check(in[i], out[i], &part->served, &each, &part->pairs[i]));
    }
    GSC_TRY(gsc__pairs_check(part->pairs, n, &each));
    *on_cpu = 0;
    for (size_t i = 0; i < n; i++)
        *on_cpu += part->pairs[i].in.count > 0 && gsc__is_on_cpu(in[i]);
    return GSC_OK;
}

static void scale_on_cpu(const gsc_scaler *scaler, const DLTensor *const *in, DLTensor *const *out, size_t n)
{
    GSC_FPENV_SCOPE;
    for (size_t i = 0; i < n; i++)
        if (scaler->device->pairs[i].in.count > 0 && gsc__is_on_cpu(in[i]))
            gsc__scale_apply(in[i], out[i], (double)scaler->schedule.scale, NULL);
}

gsc_status gsc__device_scale(const gsc_scaler *scaler, const DLTensor *const *in, DLTensor *const *out, size_t n,
                             const gsc__message_subject *subject)
{
    gsc__device_part *part = scaler->device;
    size_t on_cpu;
    GSC_TRY(check_pairs(part, in, out, n, subject, &on_cpu));
    GSC_TRY(gsc__device_tensors_take_pairs(&part->in, &part->out, part->pairs, n));
    if (on_cpu > 0 && scaler->options.enabled)
        GSC_TRY(gsc__device_settle(scaler, subject->api));
    if (part->in.count > 0)
        GSC_TRY(gsc__device_status(part->backend->scale(part->device, part->in.list, part->out.list, part->in.count),
                                   subject->api));
    if (on_cpu > 0)
        scale_on_cpu(scaler, in, out, n);
    return GSC_OK;
}

gsc_status gsc__device_scale_view(gsc_scaler *scaler, DLDevice device, DLTensor *out, const char *api)
{
    gsc__device_part *part = scaler->device;
    if (device.device_type == kDLCPU)
        return gsc_fail(
            GSC_ERR_DEVICE,
            "%s: device is the CPU, but the scale lies on a device, and what the CPU sees of it lags; ask for "
            "a view there, or call gsc_scaler_get_scale",
            api);
    GSC_TRY(part->backend->check_device(device, api));
    return gsc__device_status(part->backend->scale_view(part->device, device, out), api);
}
