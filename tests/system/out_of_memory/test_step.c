/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation of whole training steps fails once: batch, forward pass under autocast, backward pass, unscale, clip,
 * step, update. The call that failed is made again; in the end all is the same, to the last bit, as without a failure.
 */
/* out_of_memory_step shows: resume 10 */
#include "failing.h"

#include "asserts.h"
#include "gradscaler/train.h"

/* Large enough for the tape to need several chunks of memory. */
enum {
    FEATURES = 64,
    HIDDEN = 32,
    CLASSES = 4,
    EXAMPLES = 512,
    BATCH = 256,
    STEPS = 3,
    PARAMETERS = 5,
    LARGEST = 2048
};

typedef struct setting {
    const char *name;
    DLDataType autocast;
    gsc_status (*optim)(const gsc_param_group *groups, size_t n, gsc_optim **out);
    double scale;     /* 2^24: float16 overflows */
    bool unscales;    /* explicitly; else the optimizer's scale-aware step does */
    double clip_norm; /* 0: none */
} setting;

typedef struct run {
    const setting *setting;
    gsc_module *model;
    gsc_tensor *mix; /* a parameter for the ops that the model does not use */
    gsc_optim *optim;
    gsc_scaler *scaler;
    gsc_tape *tape;
    gsc_dataset *dataset;
    gsc_loader *loader;
    const DLTensor *x, *y; /* the batch */
} run;

/* All that must be the same. */
typedef struct outcome {
    float values[PARAMETERS][LARGEST];
    gsc_scaler_state state;
    gsc_scaler_stats stats;
    gsc_step_result result;
    size_t overflows;
} outcome;

static gsc_dataset *new_dataset(void)
{
    static float x[EXAMPLES * FEATURES], y[EXAMPLES * CLASSES];
    for (int i = 0; i < EXAMPLES * FEATURES; i++)
        x[i] = (float)(i % 7 - 3) / 4;
    for (int i = 0; i < EXAMPLES * CLASSES; i++)
        y[i] = (float)(i % 5) / 8;
    gsc_dataset *dataset;
    assert_ok(gsc_dataset_regression(x, y, EXAMPLES, FEATURES, CLASSES, &dataset));
    return dataset;
}

static gsc_optim *new_optim(run *r)
{
    gsc_tensor *params[PARAMETERS];
    for (size_t i = 0; i + 1 < PARAMETERS; i++)
        params[i] = gsc_module_param(r->model, i);
    params[PARAMETERS - 1] = r->mix;
    gsc_param_group group = r->setting->optim == gsc_optim_create_sgd
                                ? gsc_param_group_default_sgd(params, PARAMETERS, 0.1)
                                : gsc_param_group_default_adam(params, PARAMETERS, 0.1);
    if (r->setting->optim == gsc_optim_create_sgd)
        group.momentum = 0.5;
    gsc_optim *optim;
    assert_ok(r->setting->optim(&group, 1, &optim));
    return optim;
}

static void start(run *r, const setting *s)
{
    *r = (run){.setting = s};
    gsc_random random = gsc_random_init(1, 0);
    assert_ok(gsc_module_mlp((int64_t[]){FEATURES, HIDDEN, CLASSES}, 3, GSC_ACTIVATION_RELU, &random, &r->model));
    assert_int_equal(gsc_module_param_count(r->model), PARAMETERS - 1);
    assert_ok(gsc_tensor_create(GSC_FLOAT32, 2, (int64_t[]){CLASSES, CLASSES}, &r->mix));
    assert_ok(gsc_random_fill_uniform(&random, gsc_tensor_data(r->mix), -1, 1));
    assert_ok(gsc_tensor_set_requires_grad(r->mix, true));
    assert_ok(gsc_tensor_set_name(r->mix, "mix"));
    r->optim = new_optim(r);
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = s->scale;
    options.growth_interval = 2;
    assert_ok(gsc_scaler_create(&options, &r->scaler));
    assert_ok(gsc_tape_create(&r->tape));
    r->dataset = new_dataset();
    assert_ok(gsc_loader_create(r->dataset, BATCH, true, 3, &r->loader));
}

static void stop(run *r)
{
    gsc_loader_free(r->loader);
    gsc_dataset_free(r->dataset);
    gsc_tape_free(r->tape);
    gsc_scaler_destroy(r->scaler);
    gsc_optim_free(r->optim);
    gsc_tensor_free(r->mix);
    gsc_module_free(r->model);
}

/* Uses each op once. */
static gsc_tensor *forward(run *r)
{
    gsc_tensor *x = gsc_tape_input(r->tape, r->x), *target = gsc_tape_input(r->tape, r->y);
    gsc_tensor *logits = gsc_module_forward(r->model, x);
    gsc_tensor *mixed = gsc_tanh(gsc_add(gsc_matmul(logits, r->mix), gsc_mul(logits, logits)));
    gsc_tensor *flat = gsc_reshape(gsc_cast(mixed, GSC_FLOAT32), 1, (int64_t[]){-1});
    gsc_tensor *wide = gsc_reshape(flat, 2, (int64_t[]){BATCH, CLASSES});
    static int64_t labels[BATCH]; /* all 0 */
    const DLTensor described = {
        .data = labels, .device = {kDLCPU, 0}, .ndim = 1, .dtype = GSC_INT64, .shape = (int64_t[]){BATCH}};
    gsc_tensor *losses =
        gsc_add(gsc_mse_loss(wide, target), gsc_cross_entropy_loss(logits, gsc_tape_input(r->tape, &described)));
    return gsc_add(losses, gsc_add(gsc_sum(gsc_mul(gsc_tape_param(r->tape, r->mix), r->mix)), gsc_mean(flat)));
}

static gsc_status compute_gradients(run *r)
{
    gsc_tape_clear(r->tape);
    gsc_optim_zero_grad(r->optim);
    assert_ok(gsc_autocast_begin(r->setting->autocast, true));
    gsc_tensor *loss = gsc_scale_loss(r->scaler, forward(r));
    assert_ok(gsc_autocast_end());
    if (!loss) {
        assert_memory_message();
        return GSC_ERR_MEMORY;
    }
    return gsc_tape_backward(r->tape, loss);
}

static gsc_status unscale(run *r)
{
    const gsc_optimizer *optimizer = gsc_optim_optimizer(r->optim);
    return r->setting->unscales ? gsc_scaler_unscale(r->scaler, optimizer) : GSC_OK;
}

static gsc_status step(run *r)
{
    const gsc_step_args args = {.clip_norm = r->setting->clip_norm, .clip_norm_type = 3};
    return gsc_scaler_step(r->scaler, gsc_optim_optimizer(r->optim), &args, NULL);
}

static gsc_status update(run *r) { return gsc_scaler_update(r->scaler); }

/* Makes the call, and once more if it failed; the only failure allowed is GSC_ERR_MEMORY. */
static void insist(gsc_status (*call)(run *r), run *r)
{
    gsc_status status = call(r);
    if (status == GSC_OK)
        return;
    assert_true(atomic_load(&failing_happened));
    assert_out_of_memory(status);
    assert_ok(call(r));
}

static void observe(run *r, outcome *out)
{
    const gsc_optimizer *optimizer = gsc_optim_optimizer(r->optim);
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < PARAMETERS; i++) {
        gsc_tensor *param = i + 1 < PARAMETERS ? gsc_module_param(r->model, i) : r->mix;
        assert_true(gsc_tensor_count(param) <= LARGEST);
        memcpy(out->values[i], gsc_tensor_data(param)->data, gsc_tensor_count(param) * sizeof(float));
    }
    assert_ok(gsc_scaler_state_dict(r->scaler, &out->state));
    gsc_scaler_get_stats(r->scaler, &out->stats);
    assert_ok(gsc_scaler_result(r->scaler, optimizer, &out->result));
    out->overflows = gsc_scaler_overflows(r->scaler, optimizer, NULL, 0);
}

/* Trains with the n-th allocation failing (negative: none); whether one did. */
static bool train(const setting *s, int n, outcome *out)
{
    run r;
    start(&r, s);
    failing_start(n);
    for (int i = 0; i < STEPS; i++) {
        if (i % 2 == 0)
            gsc_loader_start(r.loader, (uint64_t)i);
        assert_int_equal(gsc_loader_next(r.loader, &r.x, &r.y), BATCH);
        insist(compute_gradients, &r);
        insist(unscale, &r);
        insist(step, &r);
        insist(update, &r);
    }
    bool failed = failing_stop();
    observe(&r, out);
    stop(&r);
    return failed;
}

static void check_setting(const setting *s)
{
    static outcome expected, actual;
    assert_false(train(s, -1, &expected));
    assert_int_equal(expected.stats.updates, STEPS);
    assert_int_equal(expected.stats.skipped_steps > 0, s->scale > 65536);
    int n = 0;
    while (train(s, n, &actual)) {
        if (memcmp(&actual, &expected, sizeof actual) != 0)
            fail_msg("%s: another result after failure %d", s->name, n);
        n++;
    }
    print_message("%s: %d allocations failed, one at a time\n", s->name, n);
    assert_true(n >= 5);
}

/* trial T41 */
static void test_each_allocation_of_a_training_step(void **state)
{
    (void)state;
    const setting settings[] = {
        {"float16, SGD", GSC_FLOAT16, gsc_optim_create_sgd, 1024, false, 0},
        {"float16, Adam, unscale, clipping", GSC_FLOAT16, gsc_optim_create_adam, 1024, true, 1},
        {"float16, AdamW, overflow", GSC_FLOAT16, gsc_optim_create_adamw, 16777216, false, 1},
        {"bfloat16, SGD, clipping", GSC_BFLOAT16, gsc_optim_create_sgd, 65536, false, 0.5},
        {"float16, SGD, unscale, overflow", GSC_FLOAT16, gsc_optim_create_sgd, 16777216, true, 0},
    };
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        check_setting(&settings[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation_of_a_training_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
