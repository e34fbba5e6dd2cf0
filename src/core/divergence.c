/* SPDX-License-Identifier: Apache-2.0 */
/* divergence.c: the messages of GSC_ERR_DIVERGED. */
#include <inttypes.h>
#include <stdio.h>

#include "core/internal.h"

/* An infinity early in a network has become NaN where the gradients end. */
#define TOO_LARGE "(one that is too large shows as inf or as NaN)"

/* What to say where the same elements of a gradient are not finite time after time. */
typedef struct hint {
    char text[192];
} hint;

static hint repeats_hint(const gsc_scaler *scaler)
{
    enum { SUSPICIOUS = 5 };
    hint out = {""};
    if (scaler->last_repeats >= SUSPICIOUS)
        snprintf(out.text, sizeof out.text,
                 "; are gradients zeroed? A skipped step leaves inf and NaN in them, and these are the same %" PRIu64
                 " times in a row (as with a scale that is far too large, or a NaN in the data)",
                 scaler->last_repeats);
    return out;
}

gsc_status gsc__diverged_in_a_row(const gsc_scaler *scaler, int64_t skips)
{
    return gsc_fail(GSC_ERR_DIVERGED,
                    "gsc_scaler_update: %" PRId64 " iteration%s in a row overflowed (max_consecutive_skips is %" PRId64
                    "); the scale is %.9g " TOO_LARGE "%s; in the last one, by index: %s",
                    skips, skips == 1 ? "" : "s", scaler->options.max_consecutive_skips, (double)scaler->schedule.scale,
                    repeats_hint(scaler).text, scaler->last_overflow_text);
}

gsc_status gsc__diverged_in_window(const gsc_scaler *scaler, int32_t overflows, int32_t filled)
{
    return gsc_fail(GSC_ERR_DIVERGED,
                    "gsc_scaler_update: %d of the last %d iterations overflowed (skip_window is %d, max_skip_share is "
                    "%.9g); the scale is %.9g " TOO_LARGE "%s; in the last one that did, by index: %s",
                    (int)overflows, (int)filled, (int)scaler->options.skip_window, scaler->options.max_skip_share,
                    (double)scaler->schedule.scale, repeats_hint(scaler).text, scaler->last_overflow_text);
}
