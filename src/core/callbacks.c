/* SPDX-License-Identifier: Apache-2.0 */
#include "core/internal.h"

void gsc_callback_begin(gsc_scaler *scaler)
{
    scaler->callbacks++;
    scaler->closed = true;
    gsc_fpenv_leave(scaler->caller_env);
}

void gsc_callback_begin_step(gsc_scaler *scaler)
{
    gsc_callback_begin(scaler);
    scaler->closed = scaler->options.enabled;
}

void gsc_callback_end(gsc_scaler *scaler)
{
    scaler->caller_env = gsc_fpenv_enter();
    scaler->callbacks--;
    scaler->closed = false;
}

void gsc_emit(gsc_scaler *scaler, gsc_event_kind kind, int64_t update, const gsc_optimizer *optimizer)
{
    if (!scaler->options.observer)
        return;
    gsc_event event = {
        .kind = kind, .scale = (double)scaler->scale, .update = update, .optimizer = optimizer, .scaler = scaler};
    gsc_callback_begin(scaler);
    scaler->options.observer(scaler->options.observer_ctx, &event);
    gsc_callback_end(scaler);
}
