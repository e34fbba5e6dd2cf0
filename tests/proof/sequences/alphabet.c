/* SPDX-License-Identifier: Apache-2.0 */
/* alphabet.c: the variants, and the calls of each. */
#include <math.h>

#include "alphabet.h"

/* Powers of two throughout: unscaled gradients are exact. */
static gsc_scaler_options short_options(void)
{
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = 8.0;
    options.growth_interval = 2;
    return options;
}

static gsc_scaler_options with_limits(double least, double greatest)
{
    gsc_scaler_options options = short_options();
    options.min_scale = least;
    options.max_scale = greatest;
    return options;
}

int list_variants(variant *out)
{
    const gsc_scaler_options simple = short_options();
    gsc_scaler_options main_options = simple, limit = simple, disabled = simple, patient = simple, windowed = simple;
    main_options.hysteresis = 2;
    main_options.max_consecutive_skips = 2;
    patient.hysteresis = 2;
    windowed.hysteresis = 2;
    windowed.hysteresis_until_growth = true;
    windowed.skip_window = 2;
    windowed.max_skip_share = 0.5;
    limit.max_consecutive_skips = 2;
    disabled.enabled = false;
    const variant all[] = {
        {.name = "main: hysteresis 2, max_consecutive_skips 2", .whole = 7, .sample = 5, .options = main_options},
        {.name = "default but growth_interval 2", .whole = 6, .sample = 4, .options = simple},
        {.name = "hysteresis 2", .whole = 6, .sample = 4, .options = patient},
        {.name = "hysteresis 2 until growth, both of 2 updates", .whole = 6, .sample = 4, .options = windowed},
        {.name = "max_consecutive_skips 2", .whole = 6, .sample = 4, .options = limit},
        {.name = "scale from 4 to 16, refused scales",
         .whole = 6,
         .sample = 4,
         .options = with_limits(4.0, 16.0),
         .refused_scale = true},
        {.name = "static scale", .whole = 6, .sample = 4, .options = with_limits(8.0, 8.0), .refused_scale = true},
        {.name = "disabled",
         .whole = 5,
         .sample = 3,
         .options = disabled,
         .clips_in_step = true,
         .fails = true,
         .refused_scale = true},
        {.name = "new gradients before every call",
         .whole = 5,
         .sample = 3,
         .options = main_options,
         .always_backward = true},
        {.name = "inf and NaN for both", .whole = 5, .sample = 3, .options = main_options, .inf_and_nan = true},
        {.name = "clip_norm, failing steps",
         .whole = 5,
         .sample = 3,
         .options = main_options,
         .clips_in_step = true,
         .fails = true},
        {.name = "step_scaled", .whole = 6, .sample = 4, .options = main_options, .scale_aware = 3},
        {.name = "step_scaled, clip_norm, failing steps",
         .whole = 5,
         .sample = 3,
         .options = main_options,
         .scale_aware = 3,
         .clips_in_step = true,
         .fails = true,
         .inf_and_nan = true},
        {.name = "step_scaled for one of two, new gradients before every call",
         .whole = 5,
         .sample = 3,
         .options = main_options,
         .scale_aware = 1,
         .clips_in_step = true,
         .fails = true,
         .always_backward = true},
    };
    const int count = sizeof all / sizeof all[0];
    for (int i = 0; i < count; i++)
        out[i] = all[i];
    return count;
}

typedef struct list {
    const variant *v;
    const bool *due;
    call *calls;
    int count;
} list;

static void add(list *l, call c) { l->calls[l->count++] = c; }

static void add_with_gradient(list *l, call c, float gradient)
{
    c.backward = BACKWARD_VALUE;
    c.gradient = gradient;
    add(l, c);
}

/* A call that may read the gradient: clean, overflowed or absent where a new one is due. */
static void add_reading(list *l, call c)
{
    static const float clean[] = {16.0f, 32.0f};
    bool second = c.optimizer == 1;
    if (!l->v->always_backward && !l->due[c.optimizer]) {
        add(l, c);
        return;
    }
    add_with_gradient(l, c, clean[c.optimizer]);
    if (!second || l->v->inf_and_nan)
        add_with_gradient(l, c, -INFINITY);
    if (second || l->v->inf_and_nan)
        add_with_gradient(l, c, NAN);
    c.backward = BACKWARD_ABSENT;
    add(l, c);
}

static void add_steps(list *l, int optimizer)
{
    for (int clips = 0; clips <= l->v->clips_in_step; clips++) {
        for (int fails = 0; fails <= l->v->fails; fails++)
            add_reading(l, (call){.kind = CALL_STEP, .optimizer = optimizer, .number = clips, .flag = fails});
    }
}

int list_calls(const variant *v, const bool *due, call *out)
{
    list l = {.v = v, .due = due, .calls = out};
    for (int optimizer = 0; optimizer < 2; optimizer++) {
        add_reading(&l, (call){.kind = CALL_UNSCALE, .optimizer = optimizer});
        add_reading(&l, (call){.kind = CALL_CLIP, .optimizer = optimizer, .number = 1.0});
        add_steps(&l, optimizer);
        add(&l, (call){.kind = CALL_RECORD, .optimizer = optimizer, .flag = false});
        add(&l, (call){.kind = CALL_RECORD, .optimizer = optimizer, .flag = true});
        add(&l, (call){.kind = CALL_SKIP, .optimizer = optimizer});
        add(&l, (call){.kind = CALL_REARM, .optimizer = optimizer});
        add(&l, (call){.kind = CALL_FORGET, .optimizer = optimizer});
    }
    add(&l, (call){.kind = CALL_UPDATE});
    add(&l, (call){.kind = CALL_UPDATE_TO, .number = 8.0});
    if (v->refused_scale)
        add(&l, (call){.kind = CALL_UPDATE_TO, .number = 0.0});
    return l.count;
}

void note_due(bool *due, const call *c)
{
    if (c->backward != BACKWARD_NONE)
        due[c->optimizer] = false;
    if (c->kind == CALL_REARM || c->kind == CALL_FORGET)
        due[c->optimizer] = true;
    if (c->kind == CALL_UPDATE || c->kind == CALL_UPDATE_TO)
        due[0] = due[1] = true;
}
