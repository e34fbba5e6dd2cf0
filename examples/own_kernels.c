/* SPDX-License-Identifier: Apache-2.0 */
/* Own kernels: a program whose gradients the library cannot read (another memory layout, another device) unscales and
 * checks them itself and tells the scaler what it found. The scaler decides whether to step, and adapts the scale.
 */
#include <math.h>

#include <gradscaler/gradscaler.h>

#include "example.h"

enum { COUNT = 3 };

/* Parameters and gradients side by side: not an array that the library could walk. */
typedef struct particle {
    float position, gradient;
} particle;

/* The program's own kernel: unscale and check in one pass. */
static bool unscale_particles(particle *particles, double scale)
{
    float inverse = (float)(1 / scale);
    bool found_inf = false;
    for (int i = 0; i < COUNT; i++) {
        particles[i].gradient *= inverse;
        found_inf |= !isfinite(particles[i].gradient);
    }
    return found_inf;
}

static gsc_status sgd_step(void *ctx)
{
    particle *particles = ctx;
    for (int i = 0; i < COUNT; i++)
        particles[i].position -= particles[i].gradient;
    return GSC_OK;
}

/* One iteration; true_gradient stands for what the backward pass would compute. */
static bool iterate(gsc_scaler *scaler, gsc_optimizer *optimizer, particle *particles, float true_gradient)
{
    for (int i = 0; i < COUNT; i++)
        particles[i].gradient = true_gradient * (float)gsc_scaler_get_scale(scaler);

    bool found_inf = unscale_particles(particles, gsc_scaler_get_scale(scaler));
    must(gsc_scaler_record(scaler, optimizer, found_inf)); /* takes the place of gsc_scaler_unscale */

    gsc_step_result result;
    must(gsc_scaler_step(scaler, optimizer, NULL, &result)); /* calls sgd_step, or not */
    must(gsc_scaler_update(scaler));
    bool skipped = result.outcome == GSC_SKIPPED_OVERFLOW;
    printf("gradient %g: %s, position %g, scale %g\n", (double)true_gradient, skipped ? "skipped" : "stepped",
           (double)particles[0].position, gsc_scaler_get_scale(scaler));
    return !skipped;
}

int main(void)
{
    particle particles[COUNT] = {{.position = 5}, {.position = 6}, {.position = 7}};
    gsc_scaler_options options = gsc_scaler_options_default();
    options.growth_interval = 1;
    gsc_scaler *scaler;
    must(gsc_scaler_create(&options, &scaler));
    gsc_optimizer *optimizer; /* no buffers: nothing here is for the library to read */
    must(gsc_optimizer_from_buffers(NULL, 0, sgd_step, particles, &optimizer));

    expect(iterate(scaler, optimizer, particles, 2), "finite gradients: the step is made");
    expect(particles[0].position == 3 && particles[2].position == 5, "with the true gradients");
    expect(gsc_scaler_get_scale(scaler) == 131072, "a recorded check counts as a clean step");

    expect(!iterate(scaler, optimizer, particles, INFINITY), "an overflow: the step is skipped");
    expect(particles[0].position == 3 && particles[2].position == 5, "and nothing has moved");
    expect(gsc_scaler_get_scale(scaler) == 65536, "the scale backs off");

    gsc_scaler_destroy(scaler);
    gsc_optimizer_free(optimizer);
    return EXIT_SUCCESS;
}
