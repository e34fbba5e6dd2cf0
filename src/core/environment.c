/* SPDX-License-Identifier: Apache-2.0 */
/* environment.c: whose floating-point environment: the library's for arithmetic, the caller's for callbacks. Functions
 * of a file of their own, so that no arithmetic moves across them. */
#include "core/internal.h"

void gsc__env_enter(gsc_scaler *scaler)
{
    if (scaler->in_env)
        return;
    scaler->caller_env = gsc__fpenv_enter();
    scaler->in_env = true;
}

void gsc__env_leave(gsc_scaler *scaler)
{
    if (!scaler->in_env)
        return;
    gsc__fpenv_leave(scaler->caller_env);
    scaler->in_env = false;
}

bool gsc__callback_begin(gsc_scaler *scaler)
{
    bool was_in_env = scaler->in_env;
    gsc__env_leave(scaler);
    scaler->callbacks++;
    scaler->closed = true;
    return was_in_env;
}

bool gsc__callback_begin_step(gsc_scaler *scaler)
{
    bool was_in_env = gsc__callback_begin(scaler);
    scaler->closed = scaler->options.enabled;
    return was_in_env;
}

void gsc__callback_end(gsc_scaler *scaler, bool was_in_env)
{
    scaler->callbacks--;
    scaler->closed = false;
    if (was_in_env)
        gsc__env_enter(scaler);
}

void gsc__emit(gsc_scaler *scaler, gsc_event_kind kind, int64_t update, const gsc_optimizer *optimizer)
{
    if (!scaler->options.observer)
        return;
    gsc_event event = {
        .kind = kind, .scale = (double)scaler->scale, .update = update, .optimizer = optimizer, .scaler = scaler};
    bool was_in_env = gsc__callback_begin(scaler);
    scaler->options.observer(scaler->options.observer_ctx, &event);
    gsc__callback_end(scaler, was_in_env);
}
