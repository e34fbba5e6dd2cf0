/* SPDX-License-Identifier: Apache-2.0 */
/* subject.c: the scaler and its optimizers, driven through the public functions. */
#include <math.h>
#include <stdlib.h>

#include "subject.h"

static const subject_place *place;

void subject_set_place(const subject_place *new_place) { place = new_place; }

typedef struct subject_optimizer {
    gsc_optimizer base;
    DLTensor tensor;
    int64_t shape[1];
    float gradient;   /* on the CPU */
    float *on_device; /* NULL: it is */
    bool has_gradient, fails, has_result;
    int steps, scaled_steps;
    double multiplier;
} subject_optimizer;

struct subject {
    gsc_scaler *scaler;
    int count;
    subject_optimizer optimizers[MAX_OPTIMIZERS];
};

static size_t grad_count(void *self)
{
    (void)self;
    return 1;
}

static DLTensor *grad(void *self, size_t index)
{
    subject_optimizer *o = self;
    (void)index;
    return o->has_gradient ? &o->tensor : NULL;
}

static gsc_status step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    subject_optimizer *o = self;
    (void)args;
    o->steps++;
    *has_value = true;
    *value = o->steps;
    return o->fails ? gsc_fail(GSC_ERR_IO, "this step was asked to fail") : GSC_OK;
}

static float read_float(const DLTensor *tensor)
{
    float value;
    place->read(&value, tensor->data, sizeof value);
    return value;
}

static gsc_status step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling, double *value,
                              bool *has_value)
{
    subject_optimizer *o = self;
    (void)args, (void)value, (void)has_value;
    if (place && read_float(scaling->found_inf_dev) != 0.0f)
        return GSC_OK; /* as the device's part of an optimizer: nothing changes */
    o->scaled_steps++;
    o->multiplier = place ? (double)read_float(scaling->multiplier_dev) : scaling->multiplier;
    return o->fails ? gsc_fail(GSC_ERR_IO, "this step was asked to fail") : GSC_OK;
}

static void init_optimizer(subject_optimizer *o, bool scale_aware)
{
    o->base = (gsc_optimizer){.self = o,
                              .grad_count = grad_count,
                              .grad = grad,
                              .step = step,
                              .step_scaled = scale_aware ? step_scaled : NULL};
    o->shape[0] = 1;
    o->tensor =
        (DLTensor){.data = &o->gradient, .device = {kDLCPU, 0}, .ndim = 1, .dtype = GSC_FLOAT32, .shape = o->shape};
    if (!place)
        return;
    o->tensor.data = o->on_device = place->alloc(sizeof(float));
    o->tensor.device = place->device;
    place->write(o->on_device, &o->gradient, sizeof(float));
}

subject *subject_create(const gsc_scaler_options *options, int optimizers, unsigned scale_aware)
{
    gsc_scaler_options placed = *options;
    subject *s = calloc(1, sizeof *s);
    if (place) {
        placed.device = place->device;
        placed.backend = place->backend;
        place->begin();
        options = &placed;
    }
    if (!s || gsc_scaler_create(options, &s->scaler) != GSC_OK) {
        free(s);
        return NULL;
    }
    s->count = optimizers;
    for (int i = 0; i < optimizers; i++)
        init_optimizer(&s->optimizers[i], scale_aware >> i & 1u);
    return s;
}

void subject_destroy(subject *s)
{
    gsc_scaler_destroy(s->scaler);
    free(s);
}

/* On a device the outcome may be open. */
static gsc_status settled_step(subject *s, const gsc_optimizer *o, const gsc_step_args *args, gsc_step_result *result)
{
    gsc_status status = gsc_scaler_step(s->scaler, o, args, result);
    if (status == GSC_OK && result->outcome == GSC_PENDING)
        return gsc_scaler_result(s->scaler, o, result);
    return status;
}

/* And GSC_ERR_DIVERGED may come later, from whatever waits. */
static gsc_status settled_update(subject *s, const gsc_optimizer *o)
{
    gsc_status status = gsc_scaler_update(s->scaler);
    if (status != GSC_OK || !place)
        return status;
    gsc_step_result unused;
    status = gsc_scaler_result(s->scaler, o, &unused);
    return status == GSC_ERR_STATE ? GSC_OK : status;
}

static gsc_status perform(subject *s, const call *c, double *total_norm, gsc_step_result *result)
{
    const gsc_optimizer *o = &s->optimizers[c->optimizer].base;
    const gsc_step_args args = {.clip_norm = c->number};
    switch (c->kind) {
    case CALL_UNSCALE: return gsc_scaler_unscale(s->scaler, o);
    case CALL_CLIP: return gsc_scaler_clip_grad_norm(s->scaler, o, c->number, 2.0, total_norm);
    case CALL_STEP: return settled_step(s, o, c->number > 0.0 ? &args : NULL, result);
    case CALL_RECORD: return gsc_scaler_record(s->scaler, o, c->flag);
    case CALL_SKIP: return gsc_scaler_skip(s->scaler, o);
    case CALL_REARM: return gsc_scaler_rearm(s->scaler, o);
    case CALL_FORGET: return gsc_scaler_forget(s->scaler, o);
    case CALL_UPDATE: return settled_update(s, o);
    case CALL_UPDATE_TO: return gsc_scaler_update_to(s->scaler, c->number);
    }
    return GSC_ERR_VALUE;
}

static double one_nan(double value) { return isnan(value) ? (double)NAN : value; }

static const gsc_step_result untouched = {
    .outcome = (gsc_outcome)(int)UNTOUCHED, .value = UNTOUCHED, .grad_norm = UNTOUCHED, .max_abs = UNTOUCHED};

static seen_result observe_result(const gsc_step_result *result)
{
    return (seen_result){.outcome = (int)result->outcome,
                         .has_value = result->has_value,
                         .value = result->value,
                         .grad_norm = one_nan(result->grad_norm),
                         .max_abs = one_nan(result->max_abs)};
}

/* Asks for a missing result only after calls that may have changed that, because the message is slow to make. */
static void observe_optimizer(const subject *s, subject_optimizer *o, bool may_have_changed, seen_optimizer *out)
{
    gsc_step_result result = untouched;
    if (o->on_device)
        place->read(&o->gradient, o->on_device, sizeof(float));
    out->stage = gsc_scaler_get_stage(s->scaler, &o->base);
    out->found_inf = gsc_scaler_found_inf(s->scaler, &o->base);
    out->has_gradient = o->has_gradient;
    out->gradient = one_nan((double)o->gradient);
    out->steps = o->steps;
    out->scaled_steps = o->scaled_steps;
    out->multiplier = o->multiplier;
    out->result_status = GSC_ERR_STATE;
    if (o->has_result || may_have_changed)
        out->result_status = gsc_scaler_result(s->scaler, &o->base, &result);
    o->has_result = out->result_status == (double)GSC_OK;
    out->result = observe_result(&result);
}

static void observe(subject *s, const call *c, observation *out)
{
    gsc_scaler_state state;
    gsc_scaler_stats stats;
    gsc_scaler_state_dict(s->scaler, &state);
    gsc_scaler_get_stats(s->scaler, &stats);
    out->scale = gsc_scaler_get_scale(s->scaler);
    out->state_scale = state.scale;
    out->growth_tracker = (double)state.growth_tracker;
    out->hysteresis_tracker = state.hysteresis_tracker;
    out->state_consecutive_skips = (double)state.consecutive_skips;
    out->updates = (double)stats.updates;
    out->steps = (double)stats.steps;
    out->skipped_steps = (double)stats.skipped_steps;
    out->backoffs = (double)stats.backoffs;
    out->growths = (double)stats.growths;
    out->consecutive_skips = (double)stats.consecutive_skips;
    for (int i = 0; i < s->count; i++)
        observe_optimizer(s, &s->optimizers[i], i == c->optimizer && (c->kind == CALL_STEP || c->kind == CALL_FORGET),
                          &out->optimizers[i]);
}

void subject_perform(subject *s, const call *c, observation *out)
{
    subject_optimizer *o = &s->optimizers[c->optimizer];
    gsc_step_result result = untouched;
    if (c->backward != BACKWARD_NONE)
        o->has_gradient = c->backward == BACKWARD_VALUE;
    if (c->backward == BACKWARD_VALUE)
        o->gradient = c->gradient;
    if (c->backward == BACKWARD_VALUE && o->on_device)
        place->write(o->on_device, &o->gradient, sizeof(float));
    o->fails = c->kind == CALL_STEP && c->flag;
    out->total_norm = UNTOUCHED;
    out->status = perform(s, c, &out->total_norm, &result);
    out->total_norm = one_nan(out->total_norm);
    out->result = observe_result(&result);
    observe(s, c, out);
}
