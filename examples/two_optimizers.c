/* SPDX-License-Identifier: Apache-2.0 */
/* Several optimizers on one scaler, as a GAN has them: an overflow skips only the step of the optimizer that it hit,
 * and one update at the end of the iteration adapts the scale for all. */
/* example_two_optimizers shows: page lucid 14, trial T22 */
#include <math.h>

#include <gradscaler/gradscaler.h>

#include "example.h"

typedef struct network {
    const char *name;
    float weight[2], grad[2];
} network;

/* Stands for a backward pass: scaled gradients, as the scale makes them. */
static void backward(network *net, const gsc_scaler *scaler, float first, float second)
{
    float scale = (float)gsc_scaler_get_scale(scaler);
    net->grad[0] = first * scale;
    net->grad[1] = second * scale;
}

static gsc_outcome step(gsc_scaler *scaler, network *net)
{
    const gsc_buffer grad = {.data = net->grad, .count = 2, .dtype = GSC_FLOAT32, .name = net->name};
    gsc_step_result result;
    must(gsc_scaler_step_buffers(scaler, net, &grad, 1, NULL, &result)); /* net is its key: each has its own */
    for (int i = 0; i < 2 && result.outcome != GSC_SKIPPED_OVERFLOW; i++)
        net->weight[i] -= 0.5f * net->grad[i];
    printf("%s: %s, weights %g %g\n", net->name, result.outcome == GSC_STEPPED ? "stepped" : "skipped",
           (double)net->weight[0], (double)net->weight[1]);
    return result.outcome;
}

int main(void)
{
    gsc_scaler *scaler;
    must(gsc_scaler_create(NULL, &scaler));
    network generator = {.name = "generator", .weight = {1, 1}}, critic = {.name = "critic", .weight = {1, 1}};

    /* The critic's gradients overflow: only its step is skipped. */
    backward(&generator, scaler, 1, -1);
    backward(&critic, scaler, 1, INFINITY);
    expect(step(scaler, &critic) == GSC_SKIPPED_OVERFLOW, "the critic does not step");
    expect(step(scaler, &generator) == GSC_STEPPED, "the generator does");
    must(gsc_scaler_update(scaler));
    printf("scale %g\n", gsc_scaler_get_scale(scaler));
    expect(generator.weight[0] == 0.5f && generator.weight[1] == 1.5f, "the generator got its true gradients");
    expect(critic.weight[0] == 1 && critic.weight[1] == 1, "the critic's weights are as they were");
    expect(gsc_scaler_get_scale(scaler) == 32768, "one overflow in any of them halves the scale, once");

    /* At the smaller scale both step. */
    backward(&generator, scaler, 1, -1);
    backward(&critic, scaler, 1, 2);
    expect(step(scaler, &generator) == GSC_STEPPED && step(scaler, &critic) == GSC_STEPPED, "both step");
    must(gsc_scaler_update(scaler));
    expect(critic.weight[0] == 0.5f && critic.weight[1] == 0, "the critic got its true gradients");

    gsc_scaler_destroy(scaler);
    return EXIT_SUCCESS;
}
