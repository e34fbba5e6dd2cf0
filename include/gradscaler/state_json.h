/* SPDX-License-Identifier: Apache-2.0 */
/* state_json.h: the scaler's state dict as JSON, exchangeable with PyTorch's.
 *
 * Required keys: scale, growth_factor, backoff_factor, growth_interval, _growth_tracker (growth_tracker is read too).
 * Extra keys, written only if they differ from their default: min_scale (FLT_MIN), max_scale (FLT_MAX), hysteresis (1),
 * hysteresis_tracker (equal to hysteresis), consecutive_skips (0). A missing extra key becomes 0 in the struct, which
 * means "keep the scaler's own"; but with a hysteresis, a missing hysteresis_tracker is equal to it. Unknown keys are
 * ignored. {} is the empty state, all zero. Numbers survive the round trip bit for bit, in any locale.
 */
#ifndef GRADSCALER_STATE_JSON_H
#define GRADSCALER_STATE_JSON_H

#include "gradscaler/scaler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns one line of JSON, to be freed with gsc_free. NULL with a message on failure: a number that is not finite,
 * which JSON cannot hold, reserved fields that are not zero, or no memory. */
GSC_API char *gsc_scaler_state_to_json(const gsc_scaler_state *state);
/* Parses, without a check of ranges: gsc_scaler_load_state_dict checks them. *out is written on success only. 2 and 2.0
 * are the same number. GSC_ERR_VALUE: not JSON, not an object, a duplicate, missing or mistyped key
 * (named), a number that does not fit, two growth trackers that differ, a hysteresis_tracker without a hysteresis.
 * GSC_ERR_MEMORY. */
GSC_API gsc_status gsc_scaler_state_from_json(const char *text, gsc_scaler_state *out);
/* Frees memory that a function of this library returned, where its comment says so. It is this library's free(), which
 * need not be the program's. NULL is fine. */
GSC_API void gsc_free(void *memory);

#ifdef __cplusplus
}
#endif
#endif
