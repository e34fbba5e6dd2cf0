/* SPDX-License-Identifier: Apache-2.0 */
/* model.c: the rules (tests/coverage.tsv lists them by these numbers) for optimizers with one float32 gradient of one
 * element. */
#include <math.h>

#include "model.h"

static const double nan_value = (double)NAN;

/* Rules 6, 8: what is recorded after a check, by the scaler or by the caller (record). */
static void note_check(model *m, model_optimizer *o, bool found_inf, bool had_gradient, double max_abs)
{
    o->is_here = m->on_device && had_gradient;
    o->found_inf = found_inf;
    o->had_gradient = had_gradient;
    o->max_abs = max_abs;
    o->overflowed |= found_inf;
    m->recorded = true;
    m->checked |= had_gradient;
    m->overflow |= found_inf;
}

/* Rule 4 for one float32; a scale-aware step only looks. */
static void check(model *m, model_optimizer *o, bool in_place)
{
    float result = o->has_gradient ? o->gradient * (float)(1.0 / m->scale) : 0.0f;
    if (in_place && o->has_gradient)
        o->gradient = result;
    if (in_place)
        o->stage = GSC_STAGE_UNSCALED;
    note_check(m, o, !isfinite(result), o->has_gradient, fabs((double)result));
}

/* Rule 14 for one element. */
static double clip_coefficient(double max_norm, double norm)
{
    double coefficient = max_norm / (norm + 1e-6);
    return isfinite(norm) && coefficient < 1.0 ? coefficient : 1.0;
}

static double norm_of(const model_optimizer *o) { return o->has_gradient ? fabs((double)o->gradient) : 0.0; }

static double clip(const model *m, model_optimizer *o, double max_norm)
{
    double norm = norm_of(o);
    o->is_here = m->on_device && o->has_gradient;
    if (o->has_gradient)
        o->gradient *= (float)clip_coefficient(max_norm, norm);
    return norm;
}

/* Rule 6: a gradient that was absent when the others were unscaled is still scaled. */
static bool came_late(const model_optimizer *o)
{
    return o->stage == GSC_STAGE_UNSCALED && !o->had_gradient && o->has_gradient;
}

/* Rule 6. */
static gsc_status clip_grad_norm(model *m, model_optimizer *o, double max_norm, double *norm)
{
    if (o->stage == GSC_STAGE_STEPPED || (m->options->enabled && came_late(o)))
        return GSC_ERR_STATE;
    if (m->options->enabled && o->stage == GSC_STAGE_READY)
        check(m, o, true);
    *norm = clip(m, o, max_norm);
    return GSC_OK;
}

/* The callbacks of the optimizers: step returns how often it was called, step_scaled returns nothing. */
static gsc_status call_step(model_optimizer *o, bool fails, seen_result *result)
{
    o->steps++;
    result->has_value = 1.0;
    result->value = o->steps;
    return fails ? GSC_ERR_OPTIMIZER : GSC_OK;
}

static gsc_status call_step_scaled(model_optimizer *o, bool fails, double multiplier)
{
    o->scaled_steps++;
    o->multiplier = multiplier;
    return fails ? GSC_ERR_OPTIMIZER : GSC_OK;
}

/* Rules 6 and 7, for an optimizer that was checked and has not overflowed. */
static gsc_status apply(model *m, model_optimizer *o, const call *c, bool fused, seen_result *result)
{
    bool clips = c->number > 0.0;
    result->outcome = o->had_gradient ? GSC_STEPPED : GSC_NO_GRADS;
    if (fused && o->had_gradient) {
        bool unscaled = o->stage == GSC_STAGE_UNSCALED;
        o->is_here = m->on_device;
        double norm = unscaled ? norm_of(o) : o->max_abs;
        result->grad_norm = clips ? norm : nan_value;
        double coefficient = clips ? clip_coefficient(c->number, norm) : 1.0;
        double multiplier = (unscaled ? 1.0 : 1.0 / m->scale) * coefficient;
        return call_step_scaled(o, c->flag, m->on_device ? (double)(float)multiplier : multiplier);
    }
    o->stage = GSC_STAGE_UNSCALED;
    if (clips)
        result->grad_norm = clip(m, o, c->number);
    return call_step(o, c->flag, result);
}

/* A clip looks at the gradient again. */
static bool fuses_unscaled(const model *m, const model_optimizer *o, const call *c)
{
    return m->on_device && (c->number > 0.0 ? o->has_gradient : o->is_here);
}

static gsc_status step(model *m, model_optimizer *o, const call *c, seen_result *result)
{
    *result = (seen_result){.outcome = GSC_SKIPPED_OVERFLOW, .grad_norm = nan_value};
    bool ready = o->stage == GSC_STAGE_READY, fused = o->scale_aware && (ready || fuses_unscaled(m, o, c));
    if (o->stage == GSC_STAGE_STEPPED)
        return GSC_ERR_STATE;
    if (came_late(o))
        return GSC_ERR_STATE;
    if (ready)
        check(m, o, !fused);
    result->max_abs = o->max_abs;
    gsc_status status = GSC_OK;
    if (!o->found_inf)
        status = apply(m, o, c, fused, result);
    else if (c->number > 0.0)
        result->grad_norm = isnan(o->max_abs) ? nan_value : (double)INFINITY;
    if (status != GSC_OK)
        return status;
    o->stage = GSC_STAGE_STEPPED;
    m->steps += result->outcome == (double)GSC_STEPPED;
    m->skipped_steps += result->outcome == (double)GSC_SKIPPED_OVERFLOW;
    return GSC_OK;
}

/* Rule 11. */
static gsc_status step_disabled(model *m, model_optimizer *o, const call *c, seen_result *result)
{
    *result = (seen_result){.outcome = GSC_STEPPED, .grad_norm = c->number > 0.0 ? clip(m, o, c->number) : nan_value};
    gsc_status status = call_step(o, c->flag, result);
    m->steps += status == GSC_OK;
    return status;
}

static void next_iteration(model *m)
{
    m->updates++;
    m->recorded = m->checked = m->overflow = false;
    for (int i = 0; i < m->count; i++) {
        m->optimizers[i].stage = GSC_STAGE_READY;
        m->optimizers[i].found_inf = m->optimizers[i].overflowed = false;
    }
}

/* Rule 2: the product is rounded once to float32. */
static void set_scale(model *m, double scale, int64_t *changes)
{
    *changes += scale != m->scale;
    m->scale = scale;
}

/* Rules 8 and 9. */
static void after_overflow(model *m)
{
    m->growth_tracker = 0;
    m->consecutive_skips++;
    m->credit -= m->credit > 0;
    if (m->credit == 0)
        set_scale(m, fmax(m->options->min_scale, (double)(float)(m->scale * m->options->backoff_factor)), &m->backoffs);
}

static void after_clean(model *m)
{
    m->consecutive_skips = 0;
    bool grows = ++m->growth_tracker >= m->options->growth_interval;
    if (grows || !m->options->hysteresis_until_growth)
        m->credit = m->options->hysteresis;
    if (!grows)
        return;
    m->growth_tracker = 0;
    double grown = (double)(float)(m->scale * m->options->growth_factor);
    if (grown <= m->options->max_scale)
        set_scale(m, grown, &m->growths);
}

static void remember(model *m, bool overflow)
{
    m->history = m->history << 1 | overflow;
    m->history_length++;
}

/* Of windows of up to 63 updates. */
static bool window_exceeded(const model *m)
{
    const int window = m->options->skip_window;
    if (window == 0 || m->history_length < window)
        return false;
    int overflows = 0;
    for (int i = 0; i < window; i++)
        overflows += (int)(m->history >> i & 1u);
    return (double)overflows / window > m->options->max_skip_share;
}

/* Rule 8; rule 10 for the status. */
static gsc_status update(model *m)
{
    bool overflow = m->overflow;
    if (!m->recorded)
        return GSC_ERR_STATE;
    if (overflow)
        after_overflow(m);
    else if (m->checked)
        after_clean(m);
    if (m->checked)
        remember(m, overflow);
    next_iteration(m);
    int64_t limit = m->options->max_consecutive_skips;
    bool in_a_row = overflow && limit > 0 && m->consecutive_skips >= limit;
    return in_a_row || window_exceeded(m) ? GSC_ERR_DIVERGED : GSC_OK;
}

static gsc_status update_to(model *m, double new_scale)
{
    double rounded = (double)(float)new_scale;
    if (!(rounded >= m->options->min_scale && rounded <= m->options->max_scale))
        return GSC_ERR_VALUE;
    if (!m->options->enabled)
        return GSC_OK;
    m->scale = rounded;
    m->history_length = 0;
    next_iteration(m);
    return GSC_OK;
}

/* Rule 6. */
static gsc_status unscale(model *m, model_optimizer *o)
{
    if (o->stage != GSC_STAGE_READY)
        return GSC_ERR_STATE;
    check(m, o, true);
    return GSC_OK;
}

static gsc_status record(model *m, model_optimizer *o, bool found_inf)
{
    if (o->stage != GSC_STAGE_READY)
        return GSC_ERR_STATE;
    o->stage = GSC_STAGE_UNSCALED;
    note_check(m, o, found_inf, true, 0.0);
    o->is_here = false;
    return GSC_OK;
}

static gsc_status skip(model *m, model_optimizer *o)
{
    if (o->stage == GSC_STAGE_STEPPED)
        return GSC_ERR_STATE;
    o->stage = GSC_STAGE_STEPPED;
    m->recorded = true;
    return GSC_OK;
}

/* The counters stay in the model. */
static gsc_status forget(model_optimizer *o)
{
    o->stage = GSC_STAGE_READY;
    o->found_inf = o->overflowed = o->has_result = false;
    return GSC_OK;
}

gsc_status model_call(model *m, const call *c, double *total_norm, seen_result *result)
{
    model_optimizer *o = &m->optimizers[c->optimizer];
    bool passes_through = !m->options->enabled; /* rule 11 */
    switch (c->kind) {
    case CALL_UNSCALE: return passes_through ? GSC_OK : unscale(m, o);
    case CALL_CLIP: return clip_grad_norm(m, o, c->number, total_norm);
    case CALL_STEP: return passes_through ? step_disabled(m, o, c, result) : step(m, o, c, result);
    case CALL_RECORD: return passes_through ? GSC_OK : record(m, o, c->flag);
    case CALL_SKIP: return passes_through ? GSC_OK : skip(m, o);
    case CALL_REARM: o->stage = GSC_STAGE_READY; return GSC_OK;
    case CALL_FORGET: return forget(o);
    case CALL_UPDATE: return passes_through ? GSC_OK : update(m);
    case CALL_UPDATE_TO: return update_to(m, c->number);
    }
    return GSC_ERR_VALUE;
}
