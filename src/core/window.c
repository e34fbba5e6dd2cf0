/* SPDX-License-Identifier: Apache-2.0 */
/* window.c: room for which of the last updates overflowed, and how many of them may. */
#include <stdlib.h>

#include "core/internal.h"

/* The greatest count whose share of `size`, as double, does not exceed `share`. */
static int32_t most_overflows(int32_t size, double share)
{
    int32_t most = 0;
    while (most < size && (double)(most + 1) / (double)size <= share)
        most++;
    return most;
}

gsc_status gsc__window_create(gsc_scaler *scaler)
{
    const int32_t size = scaler->options.skip_window;
    if (size == 0)
        return GSC_OK;
    scaler->window_words = calloc((size_t)gsc__skip_window_words(size), sizeof *scaler->window_words);
    if (!scaler->window_words)
        return gsc_fail(GSC_ERR_MEMORY, "gsc_scaler_create: no memory for a skip_window of %d updates", (int)size);
    scaler->window_most = most_overflows(size, scaler->options.max_skip_share);
    return GSC_OK;
}
