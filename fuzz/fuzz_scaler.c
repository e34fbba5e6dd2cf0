/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_scaler.c: the input is options and calls. Invalid options must be refused; with valid ones the scaler is
 * compared with the model of its rules (tests/proof/sequences/) after every call: status, outputs and all that its
 * functions return. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "support.h"
#include "trial.h"

enum { MAX_CALLS = 200 };

#define TAKE_FROM(in, array) ((array)[take_below(in, sizeof(array) / sizeof(array)[0])])

/* One in four is any number; the others are from the array. */
#define TAKE_NUMBER(in, array) (take_below(in, 4) > 0 ? TAKE_FROM(in, array) : take_double(in))

static gsc_scaler_options take_options(input *in)
{
    static const double min[] = {0x1p-126, 1, 4, 8}, init[] = {8, 65536, 5, 0x1p126};
    static const double max[] = {0x1.fffffep127, 8, 33, 65536};
    static const double growth[] = {2, 1.5, 1.0000001, 1e9}, backoff[] = {0.5, 0.75, 0.9999999, 1e-9};
    gsc_scaler_options options = gsc_scaler_options_default();
    options.min_scale = TAKE_NUMBER(in, min);
    options.init_scale = TAKE_NUMBER(in, init);
    options.max_scale = TAKE_NUMBER(in, max);
    options.growth_factor = TAKE_NUMBER(in, growth);
    options.backoff_factor = TAKE_NUMBER(in, backoff);
    options.growth_interval = (int64_t)take_below(in, 4);
    options.hysteresis = (int32_t)take_below(in, 4);
    options.max_consecutive_skips = (int64_t)take_below(in, 5) - 1;
    options.enabled = take_below(in, 8) > 0;
    return options;
}

/* Rounds scales to float32 (rule 2), as the model expects them; returns whether they are valid (rule 1). */
static bool round_scales(gsc_scaler_options *options)
{
    double *scales[] = {&options->min_scale, &options->init_scale, &options->max_scale};
    for (int i = 0; i < 3; i++) {
        if (!(fabs(*scales[i]) <= 1e300)) /* larger ones must not be cast to float */
            return false;
        *scales[i] = (double)(float)*scales[i];
        if (!(*scales[i] >= (double)FLT_MIN && *scales[i] <= (double)FLT_MAX))
            return false;
    }
    return options->min_scale <= options->init_scale && options->init_scale <= options->max_scale;
}

static bool are_valid(gsc_scaler_options *options)
{
    return round_scales(options) && options->growth_factor > 1 && isfinite(options->growth_factor) &&
           options->backoff_factor > 0 && options->backoff_factor < 1 && options->growth_interval > 0 &&
           options->hysteresis > 0 && options->max_consecutive_skips >= 0;
}

static void require_refusal(const gsc_scaler_options *options)
{
    gsc_scaler *scaler = NULL;
    forget_message();
    require(gsc_scaler_create(options, &scaler) == GSC_ERR_VALUE, "invalid options are refused");
    require(scaler == NULL, "a refusal creates no scaler");
    require_message("gsc_scaler_create: ");
}

/* All NaNs become the same one: their bits are not compared. */
static float any_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return isnan(value) ? NAN : value;
}

static void take_backward(input *in, call *c)
{
    static const float values[] = {16.0f, 1.0f, -3.0f, 0.1f, 0.0f, -0.0f, 3e38f, -1e-40f, INFINITY, NAN};
    switch (take_below(in, 5)) {
    case 0: return;
    case 1: c->backward = BACKWARD_ABSENT; return;
    case 2: c->gradient = any_float(take_u32(in)); break;
    default: c->gradient = TAKE_FROM(in, values);
    }
    c->backward = BACKWARD_VALUE;
}

static call take_call(input *in, int optimizers)
{
    static const double scales[] = {4, 8, 0.3, 1e10, 0, -1, 1e-50, 1e39, INFINITY, NAN};
    static const double norms[] = {0, 0.5, 1, 1e30, INFINITY};
    call c = {.kind = (call_kind)take_below(in, CALL_UPDATE_TO + 1),
              .optimizer = (int)take_below(in, (size_t)optimizers)};
    if (c.kind == CALL_UNSCALE || c.kind == CALL_CLIP || c.kind == CALL_STEP)
        take_backward(in, &c);
    if (c.kind == CALL_CLIP || c.kind == CALL_STEP)
        c.number = fmax(fabs(TAKE_NUMBER(in, norms)), 0); /* the model knows no refused norms */
    if (c.kind == CALL_UPDATE_TO)
        c.number = TAKE_NUMBER(in, scales);
    if (c.kind == CALL_RECORD || c.kind == CALL_STEP)
        c.flag = take_below(in, 4) == 0;
    return c;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    gsc_scaler_options options = take_options(&in), rounded = options;
    if (!are_valid(&rounded)) {
        require_refusal(&options);
        return 0;
    }
    int optimizers = 1 + (int)take_below(&in, MAX_OPTIMIZERS);
    unsigned scale_aware = take_byte(&in);
    subject *s = subject_create(&options, optimizers, scale_aware);
    require(s, "valid options are accepted");
    model m = model_create(&rounded, optimizers, scale_aware);
    call calls[MAX_CALLS];
    for (int i = 0; i < MAX_CALLS && in.size > 0; i++) {
        calls[i] = take_call(&in, optimizers);
        trial_check(s, &m, calls, i + 1, "fuzz_scaler");
    }
    subject_destroy(s);
    return 0;
}
