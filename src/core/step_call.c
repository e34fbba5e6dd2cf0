/* SPDX-License-Identifier: Apache-2.0 */
/* step_call.c: calls an optimizer's step or step_scaled. */
#include <math.h>

#include "core/step_call.h"

/* The message ends in the optimizer's own, or says that there is none. */
static gsc_status optimizer_failed(const gsc__step_attempt *attempt, const char *what, gsc_status status,
                                   bool has_message)
{
    const char *api = attempt->api, *go_on = "";
    if (attempt->scaler->options.enabled && attempt->record->stage == GSC_STAGE_UNSCALED)
        go_on = " (the gradients are unscaled: repeat the step, or " GSC_WORDS_DROP_BATCH
                "; before another step with gradients made anew call " GSC_WORDS("gsc_scaler_rearm", "rearm") ")";
    else if (attempt->scaler->options.enabled)
        go_on = " (the gradients are still scaled: repeat the step, or " GSC_WORDS_DROP_BATCH ")";
    if (has_message)
        return gsc_fail(GSC_ERR_OPTIMIZER, "%s: the optimizer's %s failed%s: %s", api, what, go_on, gsc_last_error());
    return gsc_fail(GSC_ERR_OPTIMIZER, "%s: the optimizer's %s returned %s (%d) without a message%s", api, what,
                    gsc_status_name(status), (int)status, go_on);
}

gsc_status gsc__step_call(gsc__step_attempt *attempt, const gsc_grad_scaling *scaling)
{
    gsc_step_result *result = &attempt->result;
    const gsc_optimizer *optimizer = attempt->optimizer;
    const gsc_step_args *args = attempt->args;
    gsc_step_args with_stream;
    if (!scaling && attempt->scaler->device) {
        with_stream = *args;
        GSC_TRY(gsc__device_step_stream(attempt->scaler, attempt->record,
                                        attempt->scaler->options.enabled || attempt->clips, attempt->api,
                                        &with_stream.stream));
        args = &with_stream;
    }
    gsc__callback_begin(attempt->scaler);
    attempt->scaler->closed = attempt->scaler->options.enabled; /* the step of a disabled scaler may call it */
    uint64_t messages = gsc__message_count();
    gsc__record *record = attempt->scaler->options.enabled ? attempt->record : NULL; /* else it may be forgotten */
    if (record)
        record->step_failed = true; /* also where an exception ends the step */
    gsc_status status = scaling
                            ? optimizer->step_scaled(optimizer->self, args, scaling, &result->value, &result->has_value)
                            : optimizer->step(optimizer->self, args, &result->value, &result->has_value);
    gsc__callback_end(attempt->scaler);
    if (status == GSC_OK) {
        if (record)
            record->step_failed = false;
        return GSC_OK;
    }
    return optimizer_failed(attempt, scaling ? "step_scaled" : "step", status, gsc__message_count() != messages);
}

double gsc__step_skipped_norm(double max_abs) { return isnan(max_abs) ? (double)NAN : (double)INFINITY; }
