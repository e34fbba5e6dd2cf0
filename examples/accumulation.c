/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient accumulation: several micro-batches add their gradients, then there is one step.
 *
 * All of a window must be scaled by the same factor, since the sum is divided once. So update stands at the end of the
 * window, not after each micro-batch; an overflow in one of them then discards the window and halves the scale once. */
/* example_accumulation shows: page tensorplay 28, trial T22 */
#include <math.h>

#include <gradscaler/gradscaler.h>

#include "example.h"

enum { MICRO_BATCHES = 4 };

typedef struct model {
    float weight, grad;
} model;

/* One micro-batch: its share of the mean loss, scaled, adds a scaled gradient. */
static void backward(model *m, const gsc_scaler *scaler, float true_gradient)
{
    m->grad += true_gradient / (float)MICRO_BATCHES * (float)gsc_scaler_get_scale(scaler);
}

static gsc_outcome window(model *m, gsc_scaler *scaler, const float true_gradients[MICRO_BATCHES])
{
    m->grad = 0; /* zero_grad: once per window */
    double scale = gsc_scaler_get_scale(scaler);
    for (int i = 0; i < MICRO_BATCHES; i++) {
        expect(gsc_scaler_get_scale(scaler) == scale, "the scale is the same for the whole window");
        backward(m, scaler, true_gradients[i]);
    }
    const gsc_buffer grad = {.data = &m->grad, .count = 1, .dtype = GSC_FLOAT32, .name = "weight"};
    gsc_step_result result;
    must(gsc_scaler_step_buffers(scaler, m, &grad, 1, NULL, &result)); /* unscales the sum, once */
    if (result.outcome != GSC_SKIPPED_OVERFLOW)
        m->weight -= m->grad;
    must(gsc_scaler_update(scaler));
    printf("window: %s, weight %g, scale %g\n", result.outcome == GSC_STEPPED ? "stepped" : "skipped",
           (double)m->weight, gsc_scaler_get_scale(scaler));
    return result.outcome;
}

int main(void)
{
    gsc_scaler_options options = gsc_scaler_options_default();
    options.growth_interval = 2; /* counted in windows */
    gsc_scaler *scaler;
    must(gsc_scaler_create(&options, &scaler));
    model m = {.weight = 10};

    const float clean[MICRO_BATCHES] = {1, 2, 3, 2}, bad[MICRO_BATCHES] = {1, INFINITY, 3, 2};
    expect(window(&m, scaler, clean) == GSC_STEPPED && m.weight == 8, "one step with the mean gradient");

    expect(window(&m, scaler, bad) == GSC_SKIPPED_OVERFLOW && m.weight == 8, "one bad micro-batch discards its window");
    expect(gsc_scaler_get_scale(scaler) == 32768, "and halves the scale once");

    expect(window(&m, scaler, clean) == GSC_STEPPED && m.weight == 6, "the next window is right at the new scale");
    expect(gsc_scaler_get_scale(scaler) == 32768, "the overflow restarted the count of clean windows");
    expect(window(&m, scaler, clean) == GSC_STEPPED && m.weight == 4, "and so on");
    expect(gsc_scaler_get_scale(scaler) == 65536, "the scale grows between windows");

    gsc_scaler_destroy(scaler);
    return EXIT_SUCCESS;
}
