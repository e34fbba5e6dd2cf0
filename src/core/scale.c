/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c: the scale for the loss: multiplied here, or lent to the caller's own graph. */
#include "gradients/scale.h"
#include "core/entry.h"
#include "gradients/pairs.h"
#include "gradients/scale_list.h"

static gsc_status scale_one(const DLTensor *in, DLTensor *out, double scale, const gsc__message_subject *subject)
{
    if (gsc__scale_fast(in, out, scale))
        return GSC_OK;
    gsc__pair pair;
    GSC_TRY(gsc__pair_check(in, out, NULL, subject, &pair));
    gsc__scale_apply(in, out, scale, NULL);
    return GSC_OK;
}

gsc_status gsc_scaler_scale(const gsc_scaler *scaler, const DLTensor *in, DLTensor *out)
{
    static const gsc__message_subject subject = {.api = "gsc_scaler_scale", .what = "in"};
    GSC_TRY(gsc__check_not_null(scaler, subject.api, "scaler"));
    if (scaler->device)
        return gsc__device_scale(scaler, &in, &out, 1, &subject);
    GSC_FPENV_SCOPE;
    return scale_one(in, out, (double)scaler->schedule.scale, &subject);
}

gsc_status gsc_scaler_scale_list(const gsc_scaler *scaler, DLTensor *const *in, DLTensor *const *out, size_t n)
{
    const char *api = "gsc_scaler_scale_list";
    GSC_TRY(gsc__check_not_null(scaler, api, "scaler"));
    if (n == 0)
        return GSC_OK;
    GSC_TRY(gsc__check_not_null(in, api, "in"));
    GSC_TRY(gsc__check_not_null(out, api, "out"));
    if (scaler->device) {
        const gsc__message_subject subject = {.api = api, .what = "in", .listed = true};
        return gsc__device_scale(scaler, (const DLTensor *const *)in, out, n, &subject);
    }
    GSC_FPENV_SCOPE;
    const gsc__scale_list list = {
        .api = api, .what = "in", .in = in, .out = out, .n = n, .factor = (double)scaler->schedule.scale};
    return gsc__scale_list_apply(&list, NULL);
}

gsc_status gsc_scaler_scale_view(gsc_scaler *scaler, DLDevice device, DLTensor *out)
{
    const char *api = "gsc_scaler_scale_view";
    GSC_TRY(gsc__check_scaler(scaler, api));
    GSC_TRY(gsc__check_not_null(out, api, "out"));
    if (scaler->device)
        return gsc__device_scale_view(scaler, device, out, api);
    GSC_TRY(gsc__check_device(device, api));
    *out = (DLTensor){.data = &scaler->schedule.scale, .device = device, .dtype = GSC_FLOAT32};
    return GSC_OK;
}
