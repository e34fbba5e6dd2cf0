/* SPDX-License-Identifier: Apache-2.0 */
/* model.h: the scaler's rules for the order of calls, written a second time and as plainly as possible, for optimizers
 * with one float32 gradient of one element. It shares no code with the scaler. */
#ifndef GSC_TESTS_SEQUENCES_MODEL_H
#define GSC_TESTS_SEQUENCES_MODEL_H

#include "sequence.h"

typedef struct model_optimizer {
    /* The optimizer's own. */
    bool scale_aware, has_gradient;
    float gradient;
    int steps, scaled_steps; /* calls of its callbacks */
    double multiplier;       /* of the last scaled one */
    /* What the scaler knows about it. */
    gsc_stage stage;
    bool found_inf, had_gradient; /* by the last check */
    bool is_here;                 /* the scaler was handed one then, or at a clip since (on_device alone) */
    double max_abs;               /* of the last check */
    bool overflowed;              /* in some check since the last update */
    bool has_result;
    seen_result result;
} model_optimizer;

typedef struct model {
    const gsc_scaler_options *options; /* borrowed */
    double scale;
    int64_t growth_tracker, consecutive_skips;
    int32_t credit;     /* hysteresis_tracker */
    uint64_t history;   /* of the checked updates: bit 0 is the last one's, 1 an overflow */
    int history_length; /* since the last load or update_to */
    bool on_device;     /* a scale-aware step is made of unscaled gradients, too; the multiplier is float32 */
    bool recorded, checked, overflow; /* since the last update: anything at all; some gradient; some overflow */
    int64_t updates, steps, skipped_steps, backoffs, growths;
    int count;
    model_optimizer optimizers[MAX_OPTIMIZERS];
} model;

model model_create(const gsc_scaler_options *options, int optimizers, unsigned scale_aware);
/* The rules: makes the call. The outputs count when it answers GSC_OK, *result after a step alone. */
gsc_status model_call(model *m, const call *c, double *total_norm, seen_result *result);
/* The backward pass, the call, and what must be seen afterwards. */
void model_perform(model *m, const call *c, observation *out);

#endif
