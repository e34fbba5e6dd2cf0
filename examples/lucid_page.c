/* SPDX-License-Identifier: Apache-2.0 */
/* The examples of the lucid.amp.GradScaler page, call by call. The page's Python stands above each part. */
/* example_lucid_page shows: page lucid 10, 11, 15, 18 */
#include <math.h>

#include <gradscaler/train.h>

#include "example.h"

enum { BATCHES = 3, ROWS = 8, FEATURES = 4 };

static gsc_tensor *random_tensor(gsc_random *random, int64_t rows, int64_t columns)
{
    gsc_tensor *tensor;
    must(gsc_tensor_create(GSC_FLOAT32, 2, (int64_t[]){rows, columns}, &tensor));
    must(gsc_random_fill_normal(random, gsc_tensor_data(tensor), 0, 1));
    return tensor;
}

static float first_value(const DLTensor *tensor) { return *(const float *)tensor->data; }

int main(void)
{
    gsc_random random = gsc_random_init(0, 0);

    /* model = nn.Linear(4, 1)
     * optimizer = optim.SGD(model.parameters(), lr=0.01) */
    gsc_module *model;
    must(gsc_module_linear(FEATURES, 1, true, &random, &model));
    gsc_tensor *params[] = {gsc_module_param(model, 0), gsc_module_param(model, 1)};
    gsc_param_group group = gsc_param_group_default_sgd(params, 2, 0.01);
    gsc_optim *optim;
    must(gsc_optim_create_sgd(&group, 1, &optim));
    const gsc_optimizer *optimizer = gsc_optim_optimizer(optim);

    /* dataloader = [(lucid.randn(8, 4), lucid.randn(8, 1)) for _ in range(3)] */
    gsc_tensor *xs[BATCHES], *ys[BATCHES];
    for (int i = 0; i < BATCHES; i++) {
        xs[i] = random_tensor(&random, ROWS, FEATURES);
        ys[i] = random_tensor(&random, ROWS, 1);
    }

    /* scaler = GradScaler() */
    gsc_scaler *scaler;
    must(gsc_scaler_create(NULL, &scaler));
    gsc_tape *tape; /* what Python does behind the scenes: it records the forward pass for backward() */
    must(gsc_tape_create(&tape));

    /* for x, y in dataloader:
     * The first scale is a guess, and too large for these batches: skipped steps at the start are how it is found. */
    int steps = 0;
    for (int i = 0; i < BATCHES; i++) {
        gsc_tape_clear(tape);
        gsc_tensor *x = gsc_tape_input(tape, gsc_tensor_data(xs[i])), *y = gsc_tape_input(tape, gsc_tensor_data(ys[i]));
        /*     optimizer.zero_grad() */
        gsc_optim_zero_grad(optim);
        /*     with autocast():
         *         out = model(x) */
        must(gsc_autocast_begin(GSC_FLOAT16, true));
        gsc_tensor *out = gsc_module_forward(model, x);
        must(gsc_autocast_end());
        /*     loss = loss_fn(out.float(), y) */
        gsc_tensor *loss = gsc_mse_loss(gsc_cast(out, GSC_FLOAT32), y);
        /*     scaler.scale(loss).backward() */
        must(gsc_tape_backward(tape, gsc_scale_loss(scaler, loss)));
        /*     scaler.step(optimizer) */
        gsc_step_result result;
        float before = first_value(gsc_tensor_data(params[0]));
        must(gsc_scaler_step(scaler, optimizer, NULL, &result));
        bool moved = first_value(gsc_tensor_data(params[0])) != before;
        /*     scaler.update() */
        must(gsc_scaler_update(scaler));

        bool stepped = result.outcome == GSC_STEPPED;
        steps += stepped;
        printf("batch %d: loss %.4f, %s, scale %g\n", i, gsc_tensor_item(loss), stepped ? "stepped" : "skipped",
               gsc_scaler_get_scale(scaler));
        expect(gsc_tensor_data(out)->dtype.bits == 16, "the forward pass ran in half precision");
        expect(gsc_tensor_grad(params[0])->dtype.bits == 32, "parameters and their gradients stay float32");
        expect(moved == stepped, "the parameters move exactly when the step was made");
    }

    expect(gsc_scaler_get_scale(scaler) == 65536 / (1 << (BATCHES - steps)), "each skipped step halved the scale");

    /* x, y = dataloader[0]
     * optimizer.zero_grad()
     * scaler.scale(loss_fn(model(x), y)).backward() */
    gsc_tape_clear(tape);
    gsc_tensor *x = gsc_tape_input(tape, gsc_tensor_data(xs[0])), *y = gsc_tape_input(tape, gsc_tensor_data(ys[0]));
    gsc_optim_zero_grad(optim);
    must(gsc_tape_backward(tape, gsc_scale_loss(scaler, gsc_mse_loss(gsc_module_forward(model, x), y))));
    /* scaler.unscale_(optimizer) */
    must(gsc_scaler_unscale(scaler, optimizer));
    /* norm = clip_grad_norm_(model.parameters(), max_norm=1.0) */
    DLTensor *grads[] = {gsc_tensor_grad(params[0]), gsc_tensor_grad(params[1])};
    double norm, clipped_norm;
    must(gsc_clip_grad_norm(grads, 2, 1.0, 2, &norm));
    must(gsc_grad_norm(grads, 2, 2, &clipped_norm));
    /* scaler.step(optimizer): sees that unscale_ already ran and leaves the gradients alone */
    float weight = first_value(gsc_tensor_data(params[0])), grad = first_value(grads[0]);
    must(gsc_scaler_step(scaler, optimizer, NULL, NULL));
    /* scaler.update() */
    must(gsc_scaler_update(scaler));

    printf("clipping: gradient norm %.4f before, %.4f after\n", norm, clipped_norm);
    expect(clipped_norm <= 1.0, "the clipped norm is at most max_norm");
    expect(norm > 1.0 || clipped_norm == norm, "gradients that are small enough are left alone");
    expect(first_value(grads[0]) == grad, "step does not divide the gradients a second time");
    expect(fabsf(first_value(gsc_tensor_data(params[0])) - (weight - 0.01f * grad)) < 1e-6f,
           "step applies the clipped gradients");

    gsc_tape_free(tape);
    gsc_scaler_destroy(scaler);
    for (int i = 0; i < BATCHES; i++) {
        gsc_tensor_free(xs[i]);
        gsc_tensor_free(ys[i]);
    }
    gsc_optim_free(optim);
    gsc_module_free(model);
    return EXIT_SUCCESS;
}
