/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h: how the scale changes from update to update. Plain arithmetic without calls, so that device modules
 * compile the same lines: new scales are scale * factor in double, rounded once to float32. On the CPU the caller has
 * entered the environment of base/fpenv.h, but for gsc__schedule_after_clean where no growth is due. */
#ifndef GSC_CORE_SCHEDULE_H
#define GSC_CORE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/device_code.h"

/* What an update changes, and a state dict keeps. */
typedef struct gsc__schedule {
    float scale;
    int32_t hysteresis_tracker;
    int64_t growth_tracker, consecutive_skips;
} gsc__schedule;

typedef struct gsc__schedule_rules {
    double growth_factor, backoff_factor;
    int64_t growth_interval;
    float init_scale, min_scale, max_scale;
    int32_t hysteresis;
    bool hysteresis_until_growth;
} gsc__schedule_rules;

/* What an update did. */
typedef struct gsc__schedule_change {
    bool backed_off, grew, at_min_scale;
} gsc__schedule_change;

GSC_INLINE float gsc__schedule_scaled(float scale, double factor) { return (float)((double)scale * factor); }

GSC_INLINE void gsc__schedule_back_off(gsc__schedule *schedule, const gsc__schedule_rules *rules,
                                       gsc__schedule_change *change)
{
    float reduced = gsc__schedule_scaled(schedule->scale, rules->backoff_factor);
    if (reduced < rules->min_scale)
        reduced = rules->min_scale;
    change->backed_off = reduced != schedule->scale;
    change->at_min_scale = reduced == rules->min_scale && rules->min_scale < rules->init_scale;
    schedule->scale = reduced;
}

/* A product beyond float32 is infinite, so also above max_scale. */
GSC_INLINE void gsc__schedule_grow(gsc__schedule *schedule, const gsc__schedule_rules *rules,
                                   gsc__schedule_change *change)
{
    float grown = gsc__schedule_scaled(schedule->scale, rules->growth_factor);
    if (grown > rules->max_scale)
        return;
    change->grew = grown != schedule->scale;
    schedule->scale = grown;
}

/* apex's hysteresis: every overflow takes a credit; the scale backs off when none is left; a clean update restores
 * them, or, as DeepSpeed's other mode, one that is due to grow the scale. */
GSC_INLINE void gsc__schedule_after_overflow(gsc__schedule *schedule, const gsc__schedule_rules *rules,
                                             gsc__schedule_change *change)
{
    schedule->growth_tracker = 0;
    if (schedule->consecutive_skips < INT64_MAX) /* a loaded state may hold any count */
        schedule->consecutive_skips++;
    if (schedule->hysteresis_tracker > 0)
        schedule->hysteresis_tracker--;
    if (schedule->hysteresis_tracker == 0)
        gsc__schedule_back_off(schedule, rules, change);
}

/* Whether a clean update grows the scale now. */
GSC_INLINE bool gsc__schedule_growth_is_due(const gsc__schedule *schedule, const gsc__schedule_rules *rules)
{
    return schedule->growth_tracker >= rules->growth_interval - 1;
}

GSC_INLINE void gsc__schedule_after_clean(gsc__schedule *schedule, const gsc__schedule_rules *rules,
                                          gsc__schedule_change *change)
{
    bool grows = gsc__schedule_growth_is_due(schedule, rules);
    schedule->consecutive_skips = 0;
    if (grows || !rules->hysteresis_until_growth)
        schedule->hysteresis_tracker = rules->hysteresis;
    if (!grows) {
        schedule->growth_tracker++;
        return;
    }
    schedule->growth_tracker = 0;
    gsc__schedule_grow(schedule, rules, change);
}

/* The last `size` updates that checked a gradient: a ring of one bit each, 1 for an overflow. Its words are the
 * caller's. An update costs the same whatever the size. */
typedef struct gsc__skip_window {
    int32_t filled, next; /* updates in the ring, and the place of the next one */
    int32_t overflows;    /* among them */
} gsc__skip_window;

enum { GSC_SKIP_WINDOW_WORD_BITS = 64 };

/* How many words a window of this size has. */
GSC_INLINE int32_t gsc__skip_window_words(int32_t size)
{
    return (size + GSC_SKIP_WINDOW_WORD_BITS - 1) / GSC_SKIP_WINDOW_WORD_BITS;
}

GSC_INLINE void gsc__skip_window_empty(gsc__skip_window *window)
{
    window->filled = window->next = window->overflows = 0;
}

GSC_INLINE void gsc__skip_window_add(gsc__skip_window *window, uint64_t *words, int32_t size, bool overflow)
{
    uint64_t *word = &words[window->next / GSC_SKIP_WINDOW_WORD_BITS];
    uint64_t bit = (uint64_t)1 << (window->next % GSC_SKIP_WINDOW_WORD_BITS);
    if (window->filled < size)
        window->filled++;
    else
        window->overflows -= (*word & bit) != 0;
    window->overflows += overflow;
    *word = overflow ? *word | bit : *word & ~bit;
    window->next = window->next + 1 < size ? window->next + 1 : 0;
}

/* Whether the ring is full and has more overflows than `most`. */
GSC_INLINE bool gsc__skip_window_exceeds(const gsc__skip_window *window, int32_t size, int32_t most)
{
    return window->filled == size && window->overflows > most;
}

#endif
