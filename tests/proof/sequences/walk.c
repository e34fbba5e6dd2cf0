/* SPDX-License-Identifier: Apache-2.0 */
/* walk.c: long random sequences. Each starts with a scaler of its own on the ordinary heap. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "enumerate.h"
#include "trial.h"

typedef struct walker {
    uint64_t seed, count;
    int length;
    bool on_device;
    atomic_ullong *next;
} walker;

/* SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t draw(uint64_t *random)
{
    uint64_t z = *random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int draw_below(uint64_t *random, int n) { return (int)(draw(random) >> 33) % n; }

#define DRAW_FROM(random, array) ((array)[draw_below(random, (int)(sizeof(array) / sizeof(array)[0]))])

typedef struct limits {
    double least, init, greatest;
} limits;

static gsc_scaler_options draw_options(uint64_t *random)
{
    static const limits all[] = {
        {0x1p-126, 8, 0x1.fffffep127}, {4, 8, 16}, {1, 5, 33}, {8, 8, 8}, {0x1p-126, 0x1p-124, 0x1.fffffep127},
        {1, 0x1p126, 0x1.fffffep127}};
    static const double growth[] = {2, 1.5, 1.0000001, 1e9}, backoff[] = {0.5, 0.75, 0.9999999, 1e-9};
    gsc_scaler_options options = gsc_scaler_options_default();
    limits chosen = DRAW_FROM(random, all);
    options.min_scale = chosen.least;
    options.init_scale = chosen.init;
    options.max_scale = chosen.greatest;
    options.growth_factor = DRAW_FROM(random, growth);
    options.backoff_factor = DRAW_FROM(random, backoff);
    options.growth_interval = 1 + draw_below(random, 3);
    options.hysteresis = 1 + draw_below(random, 3);
    options.hysteresis_until_growth = draw_below(random, 2) > 0;
    options.max_consecutive_skips = draw_below(random, 4);
    static const int32_t windows[] = {0, 0, 2, 3, 10};
    static const double shares[] = {0.3, 0.5, 0.9};
    options.skip_window = DRAW_FROM(random, windows);
    options.max_skip_share = DRAW_FROM(random, shares);
    options.enabled = draw_below(random, 8) > 0;
    return options;
}

static void draw_backward(uint64_t *random, call *c)
{
    static const float clean[] = {16.0f, 1.0f, -3.0f, 0.1f, 0.0f, -0.0f, 3e38f, -1e-40f};
    static const float overflowed[] = {INFINITY, -INFINITY, NAN};
    switch (draw_below(random, 6)) {
    case 0:
    case 1:
    case 2: c->gradient = DRAW_FROM(random, clean); break;
    case 3: c->gradient = DRAW_FROM(random, overflowed); break;
    case 4: c->backward = BACKWARD_ABSENT; return;
    default: return;
    }
    c->backward = BACKWARD_VALUE;
}

static call draw_call(uint64_t *random, int optimizers)
{
    static const call_kind kinds[] = {CALL_STEP,    CALL_STEP,    CALL_STEP,   CALL_STEP,     CALL_UPDATE, CALL_UPDATE,
                                      CALL_UPDATE,  CALL_CLIP,    CALL_CLIP,   CALL_SKIP,     CALL_REARM,  CALL_RECORD,
                                      CALL_UNSCALE, CALL_UNSCALE, CALL_FORGET, CALL_UPDATE_TO};
    static const double scales[] = {4, 8, 0.3, 1e10, 0, -1, 1e-50, 1e39, INFINITY, NAN};
    static const double max_norms[] = {0, 0.5, 1, 1e30, INFINITY}, clip_norms[] = {0, 0, 0.5, 1e30, INFINITY};
    call c = {.kind = DRAW_FROM(random, kinds), .optimizer = draw_below(random, optimizers)};
    if (c.kind == CALL_UNSCALE || c.kind == CALL_CLIP || c.kind == CALL_STEP)
        draw_backward(random, &c);
    if (c.kind == CALL_CLIP)
        c.number = DRAW_FROM(random, max_norms);
    if (c.kind == CALL_STEP)
        c.number = DRAW_FROM(random, clip_norms);
    if (c.kind == CALL_UPDATE_TO)
        c.number = DRAW_FROM(random, scales);
    c.flag = draw_below(random, 4) == 0;
    return c;
}

static void walk(const walker *w, uint64_t index, call *calls)
{
    uint64_t random = w->seed ^ (index * 0xd1342543de82ef95u);
    char title[200];
    gsc_scaler_options options = draw_options(&random);
    int optimizers = 1 + draw_below(&random, MAX_OPTIMIZERS);
    unsigned scale_aware = (unsigned)draw_below(&random, 1 << MAX_OPTIMIZERS);
    subject *s = subject_create(&options, optimizers, scale_aware);
    model m = model_create(&options, optimizers, scale_aware);
    m.on_device = w->on_device;
    if (!s)
        trial_out_of_memory();
    snprintf(title, sizeof title, "random sequence %llu of seed %llu", (unsigned long long)index,
             (unsigned long long)w->seed);
    for (int i = 0; i < w->length; i++) {
        calls[i] = draw_call(&random, optimizers);
        trial_check(s, &m, calls, i + 1, title);
    }
    subject_destroy(s);
}

static void *run(void *context)
{
    const walker *w = context;
    call *calls = calloc((size_t)w->length, sizeof *calls);
    if (!calls)
        trial_out_of_memory();
    for (uint64_t index; (index = atomic_fetch_add(w->next, 1)) < w->count;)
        walk(w, index, calls);
    free(calls);
    return NULL;
}

void walk_at_random(uint64_t seed, uint64_t count, int length, int threads, bool on_device)
{
    walker walkers[MAX_THREADS];
    atomic_ullong next = 0;
    for (int i = 0; i < threads; i++)
        walkers[i] = (walker){.seed = seed, .count = count, .length = length, .on_device = on_device, .next = &next};
    run_threads(threads, run, walkers, sizeof walkers[0]);
}
