/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of the tensorplay.GradScaler page, call by call. The page's comments stand at their calls. */
/* example_tensorplay_page shows: page tensorplay 5, 26 */
#include <gradscaler/train.h>

#include "example.h"

enum { EPOCHS = 20, BATCHES = 3, ROWS = 8, FEATURES = 4 };

/* Everything that the page takes as given. */
typedef struct training {
    gsc_module *model;
    gsc_tensor *params[2];
    gsc_optim *optim;
    gsc_tensor *inputs[BATCHES], *targets[BATCHES];
    gsc_tape *tape;
} training;

static gsc_tensor *random_tensor(gsc_random *random, int64_t rows, int64_t columns)
{
    gsc_tensor *tensor;
    must(gsc_tensor_create(GSC_FLOAT32, 2, (int64_t[]){rows, columns}, &tensor));
    must(gsc_random_fill_normal(random, gsc_tensor_data(tensor), 0, 1));
    return tensor;
}

static void training_init(training *t)
{
    gsc_random random = gsc_random_init(0, 0);
    must(gsc_module_linear(FEATURES, 1, true, &random, &t->model));
    t->params[0] = gsc_module_param(t->model, 0);
    t->params[1] = gsc_module_param(t->model, 1);
    gsc_param_group group = gsc_param_group_default_sgd(t->params, 2, 0.01);
    must(gsc_optim_create_sgd(&group, 1, &t->optim));
    for (int i = 0; i < BATCHES; i++) {
        t->inputs[i] = random_tensor(&random, ROWS, FEATURES);
        t->targets[i] = random_tensor(&random, ROWS, 1);
    }
    must(gsc_tape_create(&t->tape));
}

static void training_free(training *t)
{
    gsc_tape_free(t->tape);
    for (int i = 0; i < BATCHES; i++) {
        gsc_tensor_free(t->inputs[i]);
        gsc_tensor_free(t->targets[i]);
    }
    gsc_optim_free(t->optim);
    gsc_module_free(t->model);
}

/* output = model(input); loss = loss_fn(output, target) */
static gsc_tensor *forward(training *t, int batch)
{
    gsc_tape_clear(t->tape);
    gsc_tensor *input = gsc_tape_input(t->tape, gsc_tensor_data(t->inputs[batch]));
    gsc_tensor *target = gsc_tape_input(t->tape, gsc_tensor_data(t->targets[batch]));
    gsc_tensor *output = gsc_module_forward(t->model, input);
    return gsc_mse_loss(output, target);
}

/* The page's loop; returns the mean loss of the last epoch, *first is that of the first. */
static double train(training *t, gsc_scaler *scaler, double *first)
{
    double mean = 0;
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        mean = 0;
        for (int batch = 0; batch < BATCHES; batch++) {
            gsc_optim_zero_grad(t->optim);
            gsc_tensor *loss = forward(t, batch);

            /* Scales loss. Calls backward() on scaled loss to create scaled gradients. */
            must(gsc_tape_backward(t->tape, gsc_scale_loss(scaler, loss)));

            /* step first unscales gradients of the optimizer's params. If gradients don't contain infs/NaNs, the
             * optimizer's step is then called, otherwise it is skipped. */
            must(gsc_scaler_step(scaler, gsc_optim_optimizer(t->optim), NULL, NULL));

            /* Updates the scale for next iteration. */
            must(gsc_scaler_update(scaler));
            mean += gsc_tensor_item(loss) / (double)BATCHES;
        }
        if (epoch == 0)
            *first = mean;
    }
    return mean;
}

/* The page's second example: unscale_ to enable clipping of unscaled gradients. */
static double clipped_step(training *t, gsc_scaler *scaler, double max_norm)
{
    gsc_optim_zero_grad(t->optim);
    must(gsc_tape_backward(t->tape, gsc_scale_loss(scaler, forward(t, 0))));
    must(gsc_scaler_unscale(scaler, gsc_optim_optimizer(t->optim)));
    DLTensor *grads[] = {gsc_tensor_grad(t->params[0]), gsc_tensor_grad(t->params[1])};
    must(gsc_clip_grad_norm(grads, 2, max_norm, 2, NULL));
    must(gsc_scaler_step(scaler, gsc_optim_optimizer(t->optim), NULL, NULL));
    must(gsc_scaler_update(scaler));

    double norm;
    must(gsc_grad_norm(grads, 2, 2, &norm));
    return norm;
}

int main(void)
{
    training t;
    training_init(&t);

    /* Creates a GradScaler once at the beginning of training. */
    gsc_scaler *scaler;
    must(gsc_scaler_create(NULL, &scaler));

    double first = 0, last = train(&t, scaler, &first);
    printf("%d epochs: loss %.4f -> %.4f, scale %g\n", EPOCHS, first, last, gsc_scaler_get_scale(scaler));
    expect(last < first, "the loss falls");
    expect(gsc_scaler_get_scale(scaler) == 65536, "without overflow the scale stays until 2000 clean steps");

    const double max_norm = 0.125;
    double norm = clipped_step(&t, scaler, max_norm);
    printf("clipped to %g: gradient norm %.4f\n", max_norm, norm);
    expect(norm > 0 && norm <= max_norm, "the optimizer got clipped gradients");

    gsc_scaler_stats stats;
    gsc_scaler_get_stats(scaler, &stats);
    expect(stats.updates == EPOCHS * BATCHES + 1 && stats.steps == stats.updates, "every step was made");

    gsc_scaler_destroy(scaler);
    training_free(&t);
    return EXIT_SUCCESS;
}
