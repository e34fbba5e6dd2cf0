/* SPDX-License-Identifier: Apache-2.0 */
/* unwinding.h: each call of a scaler, left at each of its callbacks in turn: by an exception in C++, by the end of the
 * thread in C. What includes it defines, in either language,
 *
 *     [[noreturn]] static void leave(void);           leaves a callback
 *     static bool run_left(void (*body)(void));       runs body; returns whether it was left
 *
 * and calls unwinding_rounds. Written in what C and C++ share; a failed check ends the program. */
#ifndef GSC_TESTS_UNWINDING_H
#define GSC_TESTS_UNWINDING_H

#include <fenv.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gradscaler/gradscaler.h"

static void leave(void);
static bool run_left(void (*body)(void));

enum unwinding_callback {
    COUNT,
    GRAD,
    NAME,
    STEP,
    STEP_SCALED,
    CLOSURE,
    OBSERVER,
    MAX,
    SUM,
    MAX64,
    HOST_LOOP,
    CALLBACKS
};
static const char *const callback_names[CALLBACKS] = {
    "grad_count",  "grad",     "name",          "step",          "step_scaled",
    "closure",     "observer", "allreduce_max", "allreduce_sum", "allreduce_max64",
    "parallel_for"};

enum unwinding_operation {
    DO_UNSCALE,
    DO_STEP,
    DO_STEP_SCALED,
    DO_CLIP,
    DO_CLIP_TO_LESS, /* the others clip to more than the norm */
    DO_STEP_CLIP,
    DO_STEP_SCALED_CLIP,
    DO_RECORD,
    DO_CLIP_UNSCALED, /* from here on the gradients are unscaled before */
    DO_STEP_CLIP_UNSCALED,
    DO_UPDATE,
    DO_STEP_BUFFERS,
    DO_FUNCTIONS, /* of gradients.h, and scale */
    DO_DISABLED_STEP,
    OPERATIONS
};

enum { SMALL = 4, LARGE = 70000, SCALE = 8 };

/* One trial. */
static struct {
    int operation;
    bool overflow, with_comm, sharded, with_max64, host_loop, fresh_names;
    double p;
    gsc_scaler *scaler;
    gsc_optimizer optimizer;
    size_t elements; /* of the first gradient; the second one has SMALL */
    int64_t counts[2];
    DLTensor grads[2];
    bool armed;       /* the call is running that is to be left */
    int until_left;   /* callbacks until then */
    int left_in;      /* the callback that was left, or -1 */
    int collectives;  /* entered in the call */
    int steps;        /* that came to their end */
    bool wrong_grads; /* a step saw others than the unscaled gradients */
} trial;
static float *first, *second;
static long left_count[CALLBACKS];

/* Asks the arithmetic: on x86-64 fegetround looks at the x87 unit, which nothing here uses. */
static bool rounds_upward(void)
{
    volatile double one = 1, tiny = 1e-300;
    return one + tiny > one;
}

static void check(bool fine, const char *what)
{
    if (fine)
        return;
    fprintf(stderr,
            "%s: operation %d, overflow %d, comm %d, sharded %d, max64 %d, host loop %d, p %g, left in %s; last "
            "message: %s\n",
            what, trial.operation, trial.overflow, trial.with_comm, trial.sharded, trial.with_max64, trial.host_loop,
            trial.p, trial.left_in < 0 ? "none" : callback_names[trial.left_in], gsc_last_error());
    exit(1);
}

static void may_leave(int callback)
{
    check(callback == HOST_LOOP || rounds_upward(), "a callback in another floating-point environment");
    if (!trial.armed || --trial.until_left > 0)
        return;
    trial.armed = false;
    trial.left_in = callback;
    left_count[callback]++;
    leave();
}

static size_t grad_count(void *self)
{
    (void)self;
    may_leave(COUNT);
    return 2;
}

static DLTensor *grad(void *self, size_t index)
{
    (void)self;
    may_leave(GRAD);
    return &trial.grads[index];
}

static const char *name(void *self, size_t index)
{
    (void)self;
    may_leave(NAME);
    return index == 0 ? "first" : "second";
}

static float value(size_t i) { return (float)(1 + i % 5); }

static bool are_unscaled(double multiplier)
{
    for (size_t i = 0; i < trial.elements; i++)
        if ((double)first[i] * multiplier != (double)value(i))
            return false;
    return (double)second[0] * multiplier == 3;
}

static gsc_status step(void *self, const gsc_step_args *args, double *loss, bool *has_loss)
{
    (void)self;
    if (args->closure) {
        *loss = args->closure(args->closure_ctx);
        *has_loss = true;
    }
    trial.wrong_grads |= !are_unscaled(1);
    may_leave(STEP);
    trial.steps++;
    return GSC_OK;
}

static gsc_status step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling, double *loss,
                              bool *has_loss)
{
    (void)self, (void)args, (void)loss, (void)has_loss;
    trial.wrong_grads |= !are_unscaled(scaling->multiplier);
    may_leave(STEP_SCALED);
    trial.steps++;
    return GSC_OK;
}

static double closure(void *ctx)
{
    (void)ctx;
    check(gsc_scaler_get_scale(trial.scaler) == 1, "the scale of a disabled scaler");
    may_leave(CLOSURE);
    return 0.5;
}

static void observe(void *ctx, const gsc_event *event)
{
    (void)ctx, (void)event;
    may_leave(OBSERVER);
}

static int reduce(int callback)
{
    trial.collectives++;
    may_leave(callback);
    return 0;
}

static int allreduce_max(void *self, DLTensor *values, void *stream)
{
    (void)self, (void)values, (void)stream; /* alone, the values are the result */
    return reduce(MAX);
}

static int allreduce_sum(void *self, DLTensor *values, void *stream)
{
    (void)self, (void)values, (void)stream;
    return reduce(SUM);
}

static int allreduce_max64(void *self, DLTensor *values, void *stream)
{
    (void)self, (void)values, (void)stream;
    return reduce(MAX64);
}

static void host_loop(void *host, size_t count, gsc_task *task, void *ctx)
{
    (void)host;
    for (size_t i = 0; i < count; i++) {
        may_leave(HOST_LOOP);
        task(ctx, i);
    }
}

static bool is_disabled(void) { return trial.operation == DO_DISABLED_STEP; }

/* The gradients of a backward pass. */
static void make_grads(bool overflow, bool scaled)
{
    float scale = scaled ? (float)gsc_scaler_get_scale(trial.scaler) : 1;
    for (size_t i = 0; i < trial.elements; i++)
        first[i] = scale * value(i);
    for (size_t i = 0; i < SMALL; i++)
        second[i] = scale * 3;
    if (overflow)
        first[trial.elements - 1] = (float)HUGE_VALF;
}

static void start(void)
{
    gsc_scaler_options options = gsc_scaler_options_default();
    gsc_comm comm;
    memset(&comm, 0, sizeof comm);
    comm.allreduce_max = allreduce_max;
    comm.allreduce_sum = trial.sharded ? allreduce_sum : NULL;
    comm.allreduce_max64 = trial.with_max64 ? allreduce_max64 : NULL;
    options.init_scale = SCALE;
    options.growth_interval = 1; /* each clean update grows the scale, which the observer is told of */
    options.comm = trial.with_comm ? &comm : NULL;
    options.observer = observe;
    options.enabled = !is_disabled();
    check(gsc_scaler_create(&options, &trial.scaler) == GSC_OK, "gsc_scaler_create");
    memset(&trial.optimizer, 0, sizeof trial.optimizer);
    trial.optimizer.grad_count = grad_count;
    trial.optimizer.grad = grad;
    trial.optimizer.name = name;
    trial.optimizer.step = step;
    bool scaled = trial.operation == DO_STEP_SCALED || trial.operation == DO_STEP_SCALED_CLIP;
    if (scaled)
        trial.optimizer.step_scaled = step_scaled;
    trial.elements = trial.host_loop ? (size_t)LARGE : (size_t)SMALL;
    for (int i = 0; i < 2; i++) {
        memset(&trial.grads[i], 0, sizeof trial.grads[i]);
        trial.counts[i] = i == 0 ? (int64_t)trial.elements : (int64_t)SMALL;
        trial.grads[i].data = i == 0 ? first : second;
        trial.grads[i].device.device_type = kDLCPU;
        trial.grads[i].ndim = 1;
        trial.grads[i].dtype = GSC_FLOAT32;
        trial.grads[i].shape = &trial.counts[i];
    }
    gsc_set_parallel_for(trial.host_loop ? host_loop : NULL, NULL);
    make_grads(trial.overflow, trial.operation != DO_RECORD);
    if (trial.operation == DO_CLIP_UNSCALED || trial.operation == DO_STEP_CLIP_UNSCALED)
        check(gsc_scaler_unscale(trial.scaler, &trial.optimizer) == GSC_OK, "unscale");
    if (trial.operation == DO_UPDATE)
        check(gsc_scaler_step(trial.scaler, &trial.optimizer, NULL, NULL) == GSC_OK, "step");
    trial.steps = trial.collectives = 0;
    trial.left_in = -1;
}

static gsc_step_args args_of_trial(void)
{
    gsc_step_args args;
    memset(&args, 0, sizeof args);
    bool clips = trial.operation == DO_STEP_CLIP || trial.operation == DO_STEP_SCALED_CLIP ||
                 trial.operation == DO_STEP_CLIP_UNSCALED || is_disabled();
    args.clip_norm = clips ? 1e9 : 0;
    args.clip_norm_type = trial.p;
    args.closure = is_disabled() ? closure : NULL;
    return args;
}

static void call_functions(void)
{
    DLTensor *grads[2] = {&trial.grads[0], &trial.grads[1]};
    gsc_grad_stats stats;
    double norm;
    bool found_inf;
    check(gsc_unscale_grads(grads, 2, 2, &found_inf) == GSC_OK, "gsc_unscale_grads");
    check(gsc_unscale_grads_to(grads, grads, 2, 2, &found_inf) == GSC_OK, "gsc_unscale_grads_to");
    check(gsc_check_grads(grads, 2, &found_inf) == GSC_OK, "gsc_check_grads");
    check(gsc_grad_norm(grads, 2, trial.p, &norm) == GSC_OK, "gsc_grad_norm");
    check(gsc_clip_grad_norm(grads, 2, 0.25, trial.p, &norm) == GSC_OK, "gsc_clip_grad_norm");
    check(gsc_clip_grad_value(grads, 2, 0.125) == GSC_OK, "gsc_clip_grad_value");
    check(gsc_grad_statistics(grads[0], &stats) == GSC_OK, "gsc_grad_statistics");
    check(gsc_scaler_scale(trial.scaler, grads[0], grads[0]) == GSC_OK, "gsc_scaler_scale");
    check(gsc_scaler_scale_list(trial.scaler, grads, grads, 2) == GSC_OK, "gsc_scaler_scale_list");
}

static void operate(void)
{
    gsc_scaler *scaler = trial.scaler;
    const gsc_optimizer *optimizer = &trial.optimizer;
    const gsc_step_args args = args_of_trial();
    double norm;
    bool found_inf;
    switch (trial.operation) {
    case DO_UNSCALE: check(gsc_scaler_unscale(scaler, optimizer) == GSC_OK, "unscale"); break;
    case DO_CLIP:
    case DO_CLIP_TO_LESS:
    case DO_CLIP_UNSCALED: {
        double max_norm = trial.operation == DO_CLIP_TO_LESS ? 0.25 : 1e9;
        check(gsc_scaler_clip_grad_norm(scaler, optimizer, max_norm, trial.p, &norm) == GSC_OK, "clip");
        break;
    }
    case DO_FUNCTIONS: call_functions(); break;
    case DO_RECORD: check(gsc_scaler_record(scaler, optimizer, trial.overflow) == GSC_OK, "record"); break;
    case DO_UPDATE: check(gsc_scaler_update(scaler) == GSC_OK, "update"); break;
    case DO_STEP_BUFFERS: {
        gsc_buffer buffers[2];
        gsc_step_result result;
        memset(buffers, 0, sizeof buffers);
        buffers[0].data = first;
        buffers[0].count = trial.elements;
        buffers[1].data = second;
        buffers[1].count = SMALL;
        buffers[0].dtype = buffers[1].dtype = GSC_FLOAT32;
        check(gsc_scaler_unscale_buffers(scaler, &trial.p, buffers, 2, &found_inf) == GSC_OK, "unscale_buffers");
        check(found_inf == trial.overflow, "found_inf");
        check(gsc_scaler_step_buffers(scaler, &trial.p, buffers, 2, NULL, &result) == GSC_OK, "step_buffers");
        break;
    }
    default: check(gsc_scaler_step(scaler, optimizer, &args, NULL) == GSC_OK, "step");
    }
}

/* The call enters the collectives that the other ranks wait in, unless it is a collective that was left. */
static void check_collectives(void)
{
    bool in_collective = trial.left_in == MAX || trial.left_in == SUM || trial.left_in == MAX64;
    if (!trial.with_comm || in_collective)
        return;
    int norms = !trial.sharded ? 0 : trial.p == 3 ? 2 : 1;
    switch (trial.operation) {
    case DO_UNSCALE:
    case DO_STEP:
    case DO_STEP_SCALED:
    case DO_RECORD:
    case DO_STEP_BUFFERS: check(trial.collectives == 1, "one collective"); break;
    case DO_CLIP_UNSCALED: check(trial.collectives == norms, "the norm's collectives"); break;
    default: break;
    }
}

/* The step that follows sees unscaled gradients, or is refused, or skips. */
static void check_next_step(void)
{
    gsc_step_result result;
    trial.wrong_grads = false;
    const int before = trial.steps, collectives = trial.collectives;
    gsc_status status = gsc_scaler_step(trial.scaler, &trial.optimizer, NULL, &result);
    /* The other ranks know that this one has failed, or have skipped or made the step. */
    check(trial.collectives == collectives || trial.left_in == STEP_SCALED, "no collective that no rank else enters");
    check(status == GSC_OK || strlen(gsc_last_error()) > 0, "a message");
    check(strstr(gsc_last_error(), "called from a callback") == NULL, "the scaler is usable");
    if (status == GSC_OK && result.outcome == GSC_STEPPED) {
        check(trial.steps == before + 1, "a step");
        check(is_disabled() || !trial.overflow, "no step after an overflow");
        check(trial.overflow || !trial.wrong_grads, "unscaled gradients");
    } else {
        check(trial.steps == before, "no step");
    }
}

/* Whatever happened, the next iteration is right. */
static void check_next_iteration(void)
{
    gsc_step_result result;
    double scale = is_disabled() ? 1 : 64;
    check(gsc_scaler_update_to(trial.scaler, 64) == GSC_OK, "update_to");
    make_grads(false, true);
    trial.wrong_grads = false;
    int before = trial.steps;
    check(gsc_scaler_step(trial.scaler, &trial.optimizer, NULL, &result) == GSC_OK, "the next iteration's step");
    check(result.outcome == GSC_STEPPED && trial.steps == before + 1 && !trial.wrong_grads, "its gradients");
    check(result.scale == scale, "its scale");
    check(gsc_scaler_update(trial.scaler) == GSC_OK, "its update");
    check(gsc_scaler_get_scale(trial.scaler) == (is_disabled() ? 1 : 128), "its growth");
}

/* Leaves the operation at its n-th callback; returns whether it has so many. */
static bool try_at(int n)
{
    start();
    trial.until_left = n;
    trial.armed = true;
    bool left = run_left(operate);
    trial.armed = false;
    check(left == (trial.left_in >= 0), "the exception came through");
    check_collectives();
    if (left && trial.operation != DO_UPDATE && trial.operation != DO_STEP_BUFFERS && trial.operation != DO_FUNCTIONS)
        check_next_step();
    check_next_iteration();
    gsc_scaler_destroy(trial.scaler);
    return left;
}

static void try_operation(void)
{
    for (int overflow = 0; overflow < 2; overflow++) {
        trial.overflow = overflow != 0;
        for (int n = 1; try_at(n); n++)
            ;
    }
}

/* Everything once; leaves the caller's environment as a program with an odd one has it. */
static void unwinding_round(bool host)
{
    static const struct {
        bool with_comm, sharded, with_max64;
        double p;
    } comms[] = {{false, false, false, 2},
                 {true, false, false, 2},
                 {true, true, false, 2},
                 {true, true, false, 3},
                 {true, true, true, HUGE_VAL}};
    for (size_t c = 0; c < sizeof comms / sizeof *comms; c++) {
        trial.with_comm = comms[c].with_comm;
        trial.sharded = comms[c].sharded;
        trial.with_max64 = comms[c].with_max64;
        trial.p = comms[c].p;
        trial.host_loop = host;
        for (trial.operation = 0; trial.operation < OPERATIONS; trial.operation++)
            try_operation();
    }
}

/* Rounds until each callback has been left so often. */
static void unwinding_rounds(long least, long least_host_loops)
{
    first = (float *)malloc(LARGE * sizeof *first);
    second = (float *)malloc(SMALL * sizeof *second);
    check(first != NULL && second != NULL, "malloc");
    check(fesetround(FE_UPWARD) == 0, "fesetround");
    for (int callback = 0; callback < CALLBACKS; callback++) {
        const long wanted = callback == HOST_LOOP ? least_host_loops : least;
        while (left_count[callback] < (wanted)) {
            long before = left_count[callback];
            unwinding_round(callback == HOST_LOOP);
            check(left_count[callback] > before, callback_names[callback]);
        }
    }
    check(fesetround(FE_TONEAREST) == 0, "fesetround");
    gsc_set_parallel_for(NULL, NULL);
    free(first);
    free(second);
}

#endif
