/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c: the scale for the loss: multiplied here, or lent to the caller's own graph. */
#include "gradients/scale.h"
#include "core/entry.h"
#include "gradients/pairs.h"
#include "gradients/scale_list.h"

static gsc_status scale_one(const DLTensor *in, DLTensor *out, double scale)
{
    static const gsc__message_subject subject = {.api = "gsc_scaler_scale", .what = "in"};
    if (gsc__scale_fast(in, out, scale))
        return GSC_OK;
    gsc__pair pair;
    GSC_TRY(gsc__pair_check(in, out, NULL, &subject, &pair));
    gsc__scale_apply(in, out, scale, NULL);
    return GSC_OK;
}

gsc_status gsc_scaler_scale(const gsc_scaler *scaler, const DLTensor *in, DLTensor *out)
{
    GSC_TRY(gsc__check_not_null(scaler, "gsc_scaler_scale", "scaler"));
    GSC_FPENV_SCOPE;
    return scale_one(in, out, (double)scaler->schedule.scale);
}

gsc_status gsc_scaler_scale_list(const gsc_scaler *scaler, DLTensor *const *in, DLTensor *const *out, size_t n)
{
    const char *api = "gsc_scaler_scale_list";
    GSC_TRY(gsc__check_not_null(scaler, api, "scaler"));
    if (n == 0)
        return GSC_OK;
    GSC_TRY(gsc__check_not_null(in, api, "in"));
    GSC_TRY(gsc__check_not_null(out, api, "out"));
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
    GSC_TRY(gsc__check_device(device, api));
    *out = (DLTensor){.data = &scaler->schedule.scale, .device = device, .dtype = GSC_FLOAT32};
    return GSC_OK;
}
