/* SPDX-License-Identifier: Apache-2.0 */
/* environment.c: the library's floating-point environment for arithmetic, the caller's for callbacks. These functions
 * have a file of their own, so that the compiler moves no arithmetic across them. */
#include "core/internal.h"

void gsc__env_enter(gsc_scaler *scaler)
{
    if (scaler->in_env)
        return;
    scaler->callers_env = gsc__fpenv_enter();
    scaler->in_env = true;
}

gsc_status gsc__env_leave(gsc_scaler *scaler, gsc_status status)
{
    if (scaler->in_env)
        gsc__fpenv_leave(scaler->callers_env);
    scaler->in_env = false;
    return status;
}

void gsc__callback_begin(gsc_scaler *scaler)
{
    (void)gsc__env_leave(scaler, GSC_OK);
    scaler->callbacks++;
    scaler->closed = true;
}

void gsc__callback_end(gsc_scaler *scaler)
{
    scaler->callbacks--;
    scaler->closed = false;
}

size_t gsc__count_gradients(gsc_scaler *scaler, const gsc_optimizer *optimizer)
{
    gsc__callback_begin(scaler);
    size_t n = optimizer->grad_count(optimizer->self);
    gsc__callback_end(scaler);
    return n;
}

void gsc__tell_observer(gsc_scaler *scaler, const gsc_event *event)
{
    gsc__callback_begin(scaler);
    scaler->options.observer(scaler->options.observer_ctx, event);
    gsc__callback_end(scaler);
}

void gsc__emit(gsc_scaler *scaler, gsc_event_kind kind, int64_t update, const gsc__record *record, double scale_before)
{
    if (!scaler->options.observer)
        return;
    gsc_event event = {.kind = kind,
                       .scale = (double)scaler->schedule.scale,
                       .update = update,
                       .optimizer = record ? record->key : NULL,
                       .scaler = scaler,
                       .scale_before = scale_before};
    gsc__tell_observer(scaler, &event);
}
