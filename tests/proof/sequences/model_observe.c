/* SPDX-License-Identifier: Apache-2.0 */
/* model_observe.c: the model's side of an observation. */
#include <math.h>

#include "model.h"

model model_create(const gsc_scaler_options *options, int optimizers, unsigned scale_aware)
{
    model m = {.options = options,
               .scale = options->enabled ? options->init_scale : 1.0,
               .credit = options->hysteresis,
               .count = optimizers};
    for (int i = 0; i < optimizers; i++)
        m.optimizers[i].scale_aware = scale_aware >> i & 1u;
    return m;
}

static void observe_optimizer(const model_optimizer *o, seen_optimizer *out)
{
    *out = (seen_optimizer){
        .stage = o->stage,
        .found_inf = o->overflowed,
        .has_gradient = o->has_gradient,
        .gradient = isnan(o->gradient) ? (double)NAN : (double)o->gradient,
        .steps = o->steps,
        .scaled_steps = o->scaled_steps,
        .multiplier = o->multiplier,
        .result_status = o->has_result ? GSC_OK : GSC_ERR_STATE,
        .result = o->has_result ? o->result : untouched_result,
    };
}

/* A disabled scaler's state is empty. */
static void observe(const model *m, observation *out)
{
    bool enabled = m->options->enabled;
    out->scale = m->scale;
    out->state_scale = enabled ? m->scale : 0.0;
    out->growth_tracker = (double)m->growth_tracker;
    out->hysteresis_tracker = enabled ? m->credit : 0.0;
    out->state_consecutive_skips = out->consecutive_skips = (double)m->consecutive_skips;
    out->updates = (double)m->updates;
    out->steps = (double)m->steps;
    out->skipped_steps = (double)m->skipped_steps;
    out->backoffs = (double)m->backoffs;
    out->growths = (double)m->growths;
    for (int i = 0; i < m->count; i++)
        observe_optimizer(&m->optimizers[i], &out->optimizers[i]);
}

void model_perform(model *m, const call *c, observation *out)
{
    model_optimizer *o = &m->optimizers[c->optimizer];
    if (c->backward != BACKWARD_NONE)
        o->has_gradient = c->backward == BACKWARD_VALUE;
    if (c->backward == BACKWARD_VALUE)
        o->gradient = c->gradient;
    out->total_norm = UNTOUCHED;
    gsc_status status = model_call(m, c, &out->total_norm, &out->result);
    out->status = status;
    if (status != GSC_OK || c->kind != CALL_STEP) {
        out->result = untouched_result;
    } else {
        o->result = out->result;
        o->has_result = true;
    }
    observe(m, out);
}
