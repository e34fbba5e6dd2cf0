/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h: how the scale changes from update to update. Plain arithmetic without calls, so that device modules
 * compile the same lines: new scales are scale * factor in double, rounded once to float32. */
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

#endif
