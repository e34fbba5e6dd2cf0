/* SPDX-License-Identifier: Apache-2.0 */
/* Plain arrays and a hand-written optimizer: what it takes to put a scaler into a training loop that exists already.
 *
 * The loop fits Ohm's law, current = conductance * voltage + offset, to currents of some ten nanoamperes. Its gradients
 * are about 1e-8, which half precision rounds to zero: without scaling nothing is learned. */
/* example_raw_buffers shows: page lucid 2, trial T21, T22 */
#include <math.h>

#include <gradscaler/gradscaler.h>

#include "example.h"

enum { READINGS = 16, STEPS = 300 };

typedef struct fit {
    float conductance, offset;           /* float32 master weights */
    float conductance_grad, offset_grad; /* float32, filled with values that went through half precision */
} fit;

static const float true_conductance = 2e-8f, true_offset = 5e-9f;

/* The nearest float16 value: 11 significant bits, nothing below 2^-24, infinity from 65520 on. */
static float to_half(float x)
{
    if (!(fabsf(x) < 65520))
        return isnan(x) ? x : copysignf(INFINITY, x);
    int exponent;
    frexpf(x, &exponent);
    float spacing = ldexpf(1, (exponent < -13 ? -13 : exponent) - 11);
    return nearbyintf(x / spacing) * spacing;
}

/* The hand-derived gradient of mean((conductance * voltage + offset - current)^2), times the scale. */
static void backward(fit *f, const float *voltage, const float *current, float scale)
{
    float d_conductance = 0, d_offset = 0;
    for (int i = 0; i < READINGS; i++) {
        float d_loss = scale * 2 * (f->conductance * voltage[i] + f->offset - current[i]) / (float)READINGS;
        d_conductance += d_loss * voltage[i];
        d_offset += d_loss;
    }
    f->conductance_grad = to_half(d_conductance);
    f->offset_grad = to_half(d_offset);
}

static void sgd_step(fit *f)
{
    f->conductance -= 0.3f * f->conductance_grad;
    f->offset -= 0.3f * f->offset_grad;
}

/* Says which gradients an overflow hit; returns how many. */
static size_t report_overflow(const gsc_scaler *scaler, const fit *f)
{
    gsc_overflow hit[2];
    size_t count = gsc_scaler_overflows(scaler, (const gsc_optimizer *)f, hit, 2); /* the key of the step */
    for (size_t i = 0; i < count; i++)
        printf("  overflow in the gradient of '%s': %llu inf, %llu NaN\n", hit[i].name,
               (unsigned long long)hit[i].inf_count, (unsigned long long)hit[i].nan_count);
    return count;
}

/* Trains, with a broken reading in the middle if enabled; returns the error of the fitted conductance. */
static double train(bool enabled)
{
    float voltage[READINGS], current[READINGS];
    for (int i = 0; i < READINGS; i++) {
        voltage[i] = (float)i / (READINGS / 2) - 1; /* -1 V ... 0.9 V */
        current[i] = true_conductance * voltage[i] + true_offset;
    }

    fit f = {0};
    gsc_scaler_options options = gsc_scaler_options_default();
    options.enabled = enabled;
    gsc_scaler *scaler;
    must(gsc_scaler_create(&options, &scaler));

    /* Where the gradients are. &f will be the key: it tells this optimizer from others. */
    const gsc_buffer grads[] = {{&f.conductance_grad, 1, GSC_FLOAT32, "conductance"},
                                {&f.offset_grad, 1, GSC_FLOAT32, "offset"}};

    for (int step = 0; step < STEPS; step++) {
        bool broken = enabled && step == STEPS / 2;
        voltage[0] = broken ? 1e7f : -1;
        backward(&f, voltage, current, (float)gsc_scaler_get_scale(scaler));
        float before = f.conductance;

        gsc_step_result result;
        must(gsc_scaler_step_buffers(scaler, &f, grads, 2, NULL, &result)); /* unscales, checks, decides */
        if (result.outcome != GSC_SKIPPED_OVERFLOW)
            sgd_step(&f);
        must(gsc_scaler_update(scaler)); /* adapts the scale */

        if (!broken)
            continue;
        printf("  step %d with a broken reading: %s, scale now %g\n", step,
               result.outcome == GSC_SKIPPED_OVERFLOW ? "skipped" : "stepped", gsc_scaler_get_scale(scaler));
        expect(result.outcome == GSC_SKIPPED_OVERFLOW && f.conductance == before, "the step is skipped");
        expect(report_overflow(scaler, &f) == 1, "only one of the two gradients has overflowed");
    }

    printf("  conductance %.3e S (true: %.3e), offset %.3e A (true: %.3e)\n", (double)f.conductance,
           (double)true_conductance, (double)f.offset, (double)true_offset);
    gsc_scaler_destroy(scaler);
    return fabs((double)(f.conductance / true_conductance) - 1);
}

int main(void)
{
    printf("without scaling:\n");
    expect(train(false) > 0.5, "half precision loses the gradients");
    printf("with scaling:\n");
    expect(train(true) < 0.01, "the scaler brings them through");
    return EXIT_SUCCESS;
}
