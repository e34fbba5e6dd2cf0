/* SPDX-License-Identifier: Apache-2.0 */
/* scaler_state.h: the empty state, which stands for "no state": a disabled scaler's, and {} in JSON. */
#ifndef GSC_BASE_SCALER_STATE_H
#define GSC_BASE_SCALER_STATE_H

#include <stdbool.h>

#include "gradscaler/scaler.h"

/* Whether every member but `reserved` is zero. */
static inline bool gsc__scaler_state_is_empty(const gsc_scaler_state *state)
{
    return state->scale == 0.0 && state->growth_factor == 0.0 && state->backoff_factor == 0.0 &&
           state->growth_interval == 0 && state->growth_tracker == 0 && state->min_scale == 0.0 &&
           state->max_scale == 0.0 && state->hysteresis == 0 && state->hysteresis_tracker == 0 &&
           state->consecutive_skips == 0;
}

#endif
