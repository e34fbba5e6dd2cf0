/* SPDX-License-Identifier: Apache-2.0 */
/* Training in float16 with a dynamic scale, told step by step: a table of step, loss, scale, and whether the step was
 * skipped (1) on standard output. docs/plot-scale draws it.
 *
 *     example_scale_trace [DIR]     DIR: the pictures of MNIST or Fashion-MNIST; without it, a random linear function
 */
#include <math.h>

#include <gradscaler/train.h>

#include "example.h"

enum { FEATURES = 16, EXAMPLES = 4096, BATCH = 128, EPOCHS = 4, CLASSES = 10 };

/* y = x · w for random x and w. */
static gsc_dataset *linear_function(void)
{
    static float x[EXAMPLES * FEATURES], y[EXAMPLES], w[FEATURES];
    gsc_random random = gsc_random_init(0, 1);
    for (int f = 0; f < FEATURES; f++)
        w[f] = (float)gsc_random_normal(&random);
    for (int i = 0; i < EXAMPLES; i++)
        for (int f = 0; f < FEATURES; f++) {
            x[i * FEATURES + f] = (float)gsc_random_normal(&random);
            y[i] += w[f] * x[i * FEATURES + f];
        }
    gsc_dataset *dataset;
    must(gsc_dataset_regression(x, y, EXAMPLES, FEATURES, 1, &dataset));
    return dataset;
}

static gsc_dataset *pictures(const char *folder)
{
    gsc_dataset *dataset;
    must(gsc_dataset_mnist(folder, "train", CLASSES, &dataset));
    return dataset;
}

static gsc_module *network(const gsc_dataset *dataset)
{
    int64_t classes = gsc_dataset_classes(dataset);
    const int64_t sizes[] = {gsc_dataset_features(dataset), 512, 256, classes > 0 ? classes : 1};
    gsc_random random = gsc_random_init(0, 0);
    gsc_module *model;
    must(gsc_module_mlp(sizes, 4, GSC_ACTIVATION_RELU, &random, &model));
    return model;
}

static gsc_optim *adam(gsc_module *model)
{
    gsc_tensor *params[6];
    size_t n = gsc_module_param_count(model);
    expect(n == sizeof params / sizeof params[0], "three layers have three weights and three biases");
    for (size_t i = 0; i < n; i++)
        params[i] = gsc_module_param(model, i);
    gsc_param_group group = gsc_param_group_default_adam(params, n, 1e-3);
    gsc_optim *optim;
    must(gsc_optim_create_adam(&group, 1, &optim));
    return optim;
}

/* Matrix products in half precision; the loss casts to float32 by itself. */
static gsc_tensor *compute_loss(gsc_module *model, gsc_tape *tape, const DLTensor *x, const DLTensor *y)
{
    must(gsc_autocast_begin(GSC_FLOAT16, true));
    gsc_tensor *out = gsc_module_forward(model, gsc_tape_input(tape, x));
    gsc_tensor *target = gsc_tape_input(tape, y);
    gsc_tensor *loss = y->dtype.code == kDLInt ? gsc_cross_entropy_loss(out, target) : gsc_mse_loss(out, target);
    must(gsc_autocast_end());
    return loss;
}

int main(int argc, char **argv)
{
    gsc_dataset *dataset = argc > 1 ? pictures(argv[1]) : linear_function();
    gsc_module *model = network(dataset);
    gsc_optim *optim = adam(model);
    gsc_loader *loader;
    must(gsc_loader_create(dataset, BATCH, true, 0, &loader));
    gsc_tape *tape;
    must(gsc_tape_create(&tape));
    gsc_scaler_options options = gsc_scaler_options_default();
    options.growth_interval = 50; /* short runs should show it */
    gsc_scaler *scaler;
    must(gsc_scaler_create(&options, &scaler));

    double first_loss = NAN, last_loss = NAN;
    int step = 0;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        const DLTensor *x, *y;
        gsc_loader_start(loader, epoch);
        while (gsc_loader_next(loader, &x, &y) > 0) {
            gsc_tape_clear(tape);
            gsc_optim_zero_grad(optim);
            gsc_tensor *loss = compute_loss(model, tape, x, y);
            must(gsc_tape_backward(tape, gsc_scale_loss(scaler, loss)));
            double scale = gsc_scaler_get_scale(scaler);
            gsc_step_result result;
            must(gsc_scaler_step(scaler, gsc_optim_optimizer(optim), NULL, &result));
            must(gsc_scaler_update(scaler));
            last_loss = gsc_tensor_item(loss);
            first_loss = step == 0 ? last_loss : first_loss;
            printf("%d\t%.5f\t%g\t%d\n", step++, last_loss, scale, result.outcome == GSC_SKIPPED_OVERFLOW);
        }
    }
    gsc_scaler_stats stats;
    gsc_scaler_get_stats(scaler, &stats);
    expect(last_loss < first_loss / 2, "training lowers the loss");
    expect(stats.growths > 0 && stats.backoffs > 0, "the scale grows and falls");
    expect(stats.steps + stats.skipped_steps == step, "a step is made or skipped");

    gsc_scaler_destroy(scaler);
    gsc_tape_free(tape);
    gsc_loader_free(loader);
    gsc_optim_free(optim);
    gsc_module_free(model);
    gsc_dataset_free(dataset);
    return EXIT_SUCCESS;
}
