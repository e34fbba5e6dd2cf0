/* SPDX-License-Identifier: Apache-2.0 */
/* scaler.c: the public entry points of scaler.h: pointers, calls from callbacks, the floating-point environment, and
 * the short functions whole. */
#include <stdlib.h>

#include "core/internal.h"
#include "gradients/scale.h"
#include "gradients/view.h"

static gsc_status null_argument(const char *caller, const char *argument)
{
    return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL", caller, argument);
}

/* May this call change the scaler? */
static gsc_status check_scaler(const gsc_scaler *scaler, const char *caller)
{
    if (!scaler)
        return null_argument(caller, "scaler");
    if (scaler->closed)
        return gsc_fail(GSC_ERR_STATE,
                        "%s: called from a callback of the same scaler; only " GSC_WORDS(
                            "functions that take it const may be",
                            "those that change nothing may be, such as get_scale and outcome"),
                        caller);
    return GSC_OK;
}

/* As far as a function goes that leaves the scaler as it is. */
static gsc_status check_reader(const gsc_scaler *scaler, const gsc_optimizer *optimizer, const char *caller)
{
    if (!scaler)
        return null_argument(caller, "scaler");
    if (!optimizer)
        return null_argument(caller, "optimizer");
    return GSC_CHECK_RESERVED(optimizer, caller, "optimizer");
}

static gsc_status check_optimizer(const gsc_scaler *scaler, const gsc_optimizer *optimizer, const char *caller)
{
    GSC_TRY(check_scaler(scaler, caller));
    return check_reader(scaler, optimizer, caller);
}

/* Leaves the entry again, in the environment that the caller (or the last callback) left. */
static gsc_status leave(gsc_scaler *scaler, gsc_status status)
{
    gsc__env_leave(scaler);
    return status;
}

static gsc_status create(const gsc_scaler_options *options, gsc_scaler **out)
{
    gsc_scaler_options checked = options ? *options : gsc_scaler_options_default();
    GSC_TRY(gsc__options_check(&checked));
    gsc_scaler *scaler = calloc(1, sizeof *scaler);
    if (!scaler)
        return gsc_fail(GSC_ERR_MEMORY, "gsc_scaler_create: no memory for a scaler");
    scaler->options = checked;
    if (checked.comm) {
        scaler->comm = *checked.comm;
        scaler->options.comm = &scaler->comm;
    }
    scaler->scale = checked.enabled ? (float)checked.init_scale : 1.0f;
    scaler->hysteresis_tracker = checked.hysteresis;
    *out = scaler;
    return GSC_OK;
}

gsc_status gsc_scaler_create(const gsc_scaler_options *options, gsc_scaler **out)
{
    if (!out)
        return null_argument("gsc_scaler_create", "out");
    gsc__fpenv caller = gsc__fpenv_enter();
    gsc_status status = create(options, out);
    gsc__fpenv_leave(caller);
    return status;
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
    gsc__list_free(&scaler->list);
    free(scaler);
}

static gsc_status scale(const gsc_scaler *scaler, const DLTensor *in, DLTensor *out)
{
    if (gsc__scale_fast(in, out, (double)scaler->scale))
        return GSC_OK;
    GSC_TRY(gsc__scale_check(in, out, 0, 0));
    gsc__scale_apply(in, out, (double)scaler->scale);
    return GSC_OK;
}

gsc_status gsc_scaler_scale(const gsc_scaler *scaler, const DLTensor *in, DLTensor *out)
{
    if (!scaler)
        return null_argument("gsc_scaler_scale", "scaler");
    gsc__fpenv caller = gsc__fpenv_enter();
    gsc_status status = scale(scaler, in, out);
    gsc__fpenv_leave(caller);
    return status;
}

static gsc_status scale_list(const gsc_scaler *scaler, DLTensor *const *in, DLTensor *const *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        GSC_TRY(gsc__scale_check(in[i], out[i], i, n));
    for (size_t i = 0; i < n; i++)
        gsc__scale_apply(in[i], out[i], (double)scaler->scale);
    return GSC_OK;
}

gsc_status gsc_scaler_scale_list(const gsc_scaler *scaler, DLTensor *const *in, DLTensor *const *out, size_t n)
{
    const char *api = "gsc_scaler_scale_list";
    if (!scaler)
        return null_argument(api, "scaler");
    if (n > 0 && (!in || !out))
        return null_argument(api, in ? "out" : "in");
    gsc__fpenv caller = gsc__fpenv_enter();
    gsc_status status = scale_list(scaler, in, out, n);
    gsc__fpenv_leave(caller);
    return status;
}

gsc_status gsc_scaler_scale_view(gsc_scaler *scaler, DLDevice device, DLTensor *out)
{
    const char *caller = "gsc_scaler_scale_view";
    GSC_TRY(check_scaler(scaler, caller));
    if (!out)
        return null_argument(caller, "out");
    GSC_TRY(gsc__check_device(device, caller));
    *out = (DLTensor){.data = &scaler->scale, .device = device, .dtype = GSC_FLOAT32};
    return GSC_OK;
}

gsc_status gsc_scaler_unscale(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    GSC_TRY(check_optimizer(scaler, optimizer, "gsc_scaler_unscale"));
    if (!scaler->options.enabled)
        return GSC_OK;
    return leave(scaler, gsc__do_unscale(scaler, optimizer));
}

gsc_status gsc_scaler_record(gsc_scaler *scaler, const gsc_optimizer *optimizer, bool found_inf)
{
    GSC_TRY(check_optimizer(scaler, optimizer, "gsc_scaler_record"));
    if (!scaler->options.enabled)
        return GSC_OK;
    return leave(scaler, gsc__do_record(scaler, optimizer, found_inf));
}

gsc_status gsc_scaler_step(gsc_scaler *scaler, const gsc_optimizer *optimizer, const gsc_step_args *args,
                           gsc_step_result *result)
{
    GSC_TRY(check_optimizer(scaler, optimizer, "gsc_scaler_step"));
    return leave(scaler, gsc__do_step(scaler, optimizer, args, result));
}

gsc_status gsc_scaler_result(const gsc_scaler *scaler, const gsc_optimizer *optimizer, gsc_step_result *result)
{
    const char *caller = "gsc_scaler_result";
    GSC_TRY(check_reader(scaler, optimizer, caller));
    if (!result)
        return null_argument(caller, "result");
    const gsc__record *record = gsc__record_find(scaler, optimizer);
    if (!record || !record->has_result)
        return gsc_fail(GSC_ERR_STATE, "%s: this optimizer has not stepped with this scaler", caller);
    *result = record->result;
    return GSC_OK;
}

gsc_status gsc_scaler_clip_grad_norm(gsc_scaler *scaler, const gsc_optimizer *optimizer, double max_norm,
                                     double norm_type, double *total_norm)
{
    GSC_TRY(check_optimizer(scaler, optimizer, "gsc_scaler_clip_grad_norm"));
    gsc__env_enter(scaler);
    double norm;
    gsc_status status = gsc__do_clip(scaler, optimizer, max_norm, norm_type, &norm);
    if (status == GSC_OK && total_norm)
        *total_norm = norm;
    return leave(scaler, status);
}

gsc_status gsc_scaler_skip(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    GSC_TRY(check_optimizer(scaler, optimizer, "gsc_scaler_skip"));
    return scaler->options.enabled ? gsc__do_skip(scaler, optimizer) : GSC_OK;
}

gsc_status gsc_scaler_rearm(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    GSC_TRY(check_optimizer(scaler, optimizer, "gsc_scaler_rearm"));
    gsc__record *record = gsc__record_find(scaler, optimizer);
    if (record)
        record->stage = GSC_STAGE_READY;
    return GSC_OK;
}

gsc_status gsc_scaler_update(gsc_scaler *scaler)
{
    GSC_TRY(check_scaler(scaler, "gsc_scaler_update"));
    if (!scaler->options.enabled)
        return GSC_OK;
    return leave(scaler, gsc__do_update(scaler));
}

gsc_status gsc_scaler_update_to(gsc_scaler *scaler, double new_scale)
{
    GSC_TRY(check_scaler(scaler, "gsc_scaler_update_to"));
    gsc__env_enter(scaler);
    return leave(scaler, gsc__do_update_to(scaler, new_scale));
}

static gsc_status read_scale(const DLTensor *tensor, const char *caller, double *value)
{
    const gsc__message_subject subject = {.api = caller, .what = "new_scale"};
    const gsc__view_rules reads = {.writes = false, .allow_fp16 = true};
    gsc__view view;
    GSC_TRY(gsc__view_check(tensor, &reads, &subject, &view));
    if (view.count != 1)
        return gsc_fail(GSC_ERR_VALUE, "%s: new_scale has %zu elements; allowed is exactly one", caller, view.count);
    *value = gsc__element(view.kind, view.start, 0);
    return GSC_OK;
}

gsc_status gsc_scaler_update_to_tensor(gsc_scaler *scaler, const DLTensor *new_scale)
{
    const char *caller = "gsc_scaler_update_to_tensor";
    GSC_TRY(check_scaler(scaler, caller));
    if (!new_scale)
        return null_argument(caller, "new_scale");
    gsc__env_enter(scaler);
    double value = 0.0;
    gsc_status status = read_scale(new_scale, caller, &value);
    return leave(scaler, status == GSC_OK ? gsc__do_update_to(scaler, value) : status);
}

gsc_status gsc_scaler_forget(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    GSC_TRY(check_scaler(scaler, "gsc_scaler_forget"));
    if (!optimizer)
        return null_argument("gsc_scaler_forget", "optimizer");
    gsc__record_forget(scaler, optimizer);
    return GSC_OK;
}

gsc_status gsc_scaler_set_stream(gsc_scaler *scaler, DLDevice device, void *stream)
{
    const char *caller = "gsc_scaler_set_stream";
    GSC_TRY(check_scaler(scaler, caller));
    GSC_TRY(gsc__check_device(device, caller));
    if (stream)
        return gsc_fail(GSC_ERR_VALUE, "%s: stream is not NULL, but the CPU has no streams", caller);
    return GSC_OK;
}

gsc_status gsc_scaler_set_growth_factor(gsc_scaler *scaler, double factor)
{
    const char *caller = "gsc_scaler_set_growth_factor";
    GSC_TRY(check_scaler(scaler, caller));
    gsc__env_enter(scaler);
    gsc_status status = gsc__check_growth_factor(factor, caller);
    if (status == GSC_OK)
        scaler->options.growth_factor = factor;
    return leave(scaler, status);
}

gsc_status gsc_scaler_set_backoff_factor(gsc_scaler *scaler, double factor)
{
    const char *caller = "gsc_scaler_set_backoff_factor";
    GSC_TRY(check_scaler(scaler, caller));
    gsc__env_enter(scaler);
    gsc_status status = gsc__check_backoff_factor(factor, caller);
    if (status == GSC_OK)
        scaler->options.backoff_factor = factor;
    return leave(scaler, status);
}

gsc_status gsc_scaler_set_growth_interval(gsc_scaler *scaler, int64_t interval)
{
    const char *caller = "gsc_scaler_set_growth_interval";
    GSC_TRY(check_scaler(scaler, caller));
    GSC_TRY(gsc__check_growth_interval(interval, caller));
    scaler->options.growth_interval = interval;
    return GSC_OK;
}

gsc_status gsc_scaler_load_state_dict(gsc_scaler *scaler, const gsc_scaler_state *in)
{
    const char *caller = "gsc_scaler_load_state_dict";
    GSC_TRY(check_scaler(scaler, caller));
    if (!in)
        return null_argument(caller, "in");
    gsc__env_enter(scaler);
    return leave(scaler, gsc__do_load_state(scaler, in));
}
