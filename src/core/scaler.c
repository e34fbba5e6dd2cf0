/* SPDX-License-Identifier: Apache-2.0 */
/* scaler.c: creation and destruction, and the end of an optimizer. */
#include <stdlib.h>

#include "core/entry.h"

static gsc_status create(const gsc_scaler_options *options, gsc_scaler **out)
{
    gsc_scaler_options checked = options ? *options : gsc_scaler_options_default();
    GSC_TRY(gsc__check_options(&checked));
    if (checked.backend)
        GSC_TRY(gsc__device_check_options(&checked, "gsc_scaler_create"));
    gsc_scaler *scaler = calloc(1, sizeof *scaler);
    if (!scaler)
        return gsc_fail(GSC_ERR_MEMORY, "gsc_scaler_create: no memory for a scaler");
    gsc__set_options(scaler, &checked);
    scaler->options.strict |= gsc__strict_environment();
    if (checked.comm) {
        scaler->comm = *checked.comm;
        scaler->options.comm = &scaler->comm;
    }
    scaler->schedule.scale = checked.enabled ? (float)checked.init_scale : 1.0f;
    scaler->schedule.hysteresis_tracker = checked.hysteresis;
    gsc_status status = gsc__window_create(scaler);
    if (status == GSC_OK)
        status = gsc__device_create(scaler);
    if (status != GSC_OK) {
        free(scaler->window_words);
        free(scaler);
        return status;
    }
    *out = scaler;
    return GSC_OK;
}

gsc_status gsc_scaler_create(const gsc_scaler_options *options, gsc_scaler **out)
{
    GSC_TRY(gsc__check_not_null(out, "gsc_scaler_create", "out"));
    GSC_FPENV_SCOPE;
    return create(options, out);
}

void gsc_scaler_destroy(gsc_scaler *scaler)
{
    if (!scaler)
        return;
    if (scaler->callbacks > 0) {
        gsc_fail(GSC_ERR_STATE, "gsc_scaler_destroy: called from a callback of the same scaler; destroy it afterwards");
        return;
    }
    gsc__records_free(scaler);
    gsc__device_destroy(scaler);
    gsc__list_free(&scaler->list);
    free(scaler->window_words);
    gsc__arrays_free(&scaler->arrays);
    free(scaler);
}

gsc_status gsc_scaler_forget(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    gsc__record *record;
    GSC_TRY(gsc__check_known(scaler, optimizer, "gsc_scaler_forget", &record));
    if (record)
        gsc__record_remove(scaler, record);
    return GSC_OK;
}

gsc_status gsc_scaler_set_stream(gsc_scaler *scaler, DLDevice device, void *stream)
{
    const char *api = "gsc_scaler_set_stream";
    GSC_TRY(gsc__check_scaler(scaler, api));
    if (scaler->device && device.device_type != kDLCPU)
        return gsc__device_set_stream(scaler, device, stream, api);
    GSC_TRY(gsc__check_device(device, api));
    if (stream)
        return gsc_fail(GSC_ERR_VALUE, "%s: stream is not NULL, but the CPU has no streams", api);
    return GSC_OK;
}
