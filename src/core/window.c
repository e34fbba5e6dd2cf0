/* SPDX-License-Identifier: Apache-2.0 */
/* window.c: which of the last updates overflowed. An update costs the same whatever the window's size. */
#include <stdlib.h>

#include "core/internal.h"

enum { WORD_BITS = 64 };

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
    scaler->window.bits = calloc(((size_t)size + WORD_BITS - 1) / WORD_BITS, sizeof *scaler->window.bits);
    if (!scaler->window.bits)
        return gsc_fail(GSC_ERR_MEMORY, "gsc_scaler_create: no memory for a skip_window of %d updates", (int)size);
    scaler->window.most = most_overflows(size, scaler->options.max_skip_share);
    return GSC_OK;
}

void gsc__window_empty(gsc__skip_window *window) { window->filled = window->next = window->overflows = 0; }

void gsc__window_add(gsc_scaler *scaler, bool overflow)
{
    gsc__skip_window *window = &scaler->window;
    if (!window->bits)
        return;
    uint64_t *word = &window->bits[window->next / WORD_BITS], bit = (uint64_t)1 << (window->next % WORD_BITS);
    if (window->filled < scaler->options.skip_window)
        window->filled++;
    else
        window->overflows -= (*word & bit) != 0;
    window->overflows += overflow;
    *word = overflow ? *word | bit : *word & ~bit;
    window->next = window->next + 1 < scaler->options.skip_window ? window->next + 1 : 0;
}

bool gsc__window_exceeded(const gsc_scaler *scaler)
{
    const gsc__skip_window *window = &scaler->window;
    return window->bits && window->filled == scaler->options.skip_window && window->overflows > window->most;
}
