/* SPDX-License-Identifier: Apache-2.0 */
/* What the module says where there is no GPU that it can use, and scalers in several threads. */
#include <pthread.h>

#include "module_rig.h"

#include "standin/abi.h"

static gsc_status create(int device_id, gsc_scaler **out)
{
    gsc_scaler_options options = gsc_scaler_options_default();
    options.device = (DLDevice){kDLCUDA, device_id};
    options.backend = gsc_cuda_backend();
    return gsc_scaler_create(&options, out);
}

/* In a child process, where cmocka must not be used: an abort is a failure. */
static void expect_refusal(int device_id, gsc_status status, const char *first, const char *second)
{
    gsc_scaler *scaler = NULL;
    gsc_status found = create(device_id, &scaler);
    if (found == status && !scaler && strncmp(gsc_last_error(), "gsc_scaler_create: ", 19) == 0 &&
        strstr(gsc_last_error(), first) && strstr(gsc_last_error(), second))
        return;
    fprintf(stderr, "%s: %s\n", gsc_status_name(found), gsc_last_error());
    abort();
}

static void expect_success(void)
{
    gsc_scaler *scaler = NULL;
    if (create(0, &scaler) != GSC_OK)
        abort();
    gsc_scaler_destroy(scaler);
}

static void no_device(void *ctx)
{
    (void)ctx;
    standin_set_devices(0);
    expect_refusal(0, GSC_ERR_DEVICE, "nvidia-smi", "CUDA_ERROR_NO_DEVICE");
}

static void old_driver(void *ctx)
{
    (void)ctx;
    standin_set_version(11080);
    expect_refusal(0, GSC_ERR_DEVICE, "it is for CUDA 11.8", "CUDA 12 or later");
}

static void other_devices(void *ctx)
{
    (void)ctx;
    expect_refusal(2, GSC_ERR_DEVICE, "no CUDA device 2", "0 to 1");
    expect_refusal(-1, GSC_ERR_DEVICE, "no CUDA device -1", "0 to 1");
    expect_success();
}

static void little_memory(void *ctx)
{
    (void)ctx;
    standin_set_memory(1);
    expect_refusal(0, GSC_ERR_MEMORY, "allocate device memory", "CUDA_ERROR_OUT_OF_MEMORY");
}

static void kernels_of_a_newer_toolkit(void *ctx)
{
    (void)ctx;
    standin_fail("cuModuleLoadData", 1, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    expect_refusal(0, GSC_ERR_DEVICE, "update the driver", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
    expect_success();
}

/* A driver that did not start is tried again. */
static void a_second_try(void *ctx)
{
    (void)ctx;
    standin_fail("cuInit", 1, CUDA_ERROR_UNKNOWN);
    expect_refusal(0, GSC_ERR_DEVICE, "does not start", "CUDA_ERROR_UNKNOWN");
    expect_success();
}

/* rule 1.3 */
static void what_is_missing_is_told(void **state)
{
    (void)state;
    void (*const bodies[])(void *) = {no_device,   old_driver, other_devices, little_memory, kernels_of_a_newer_toolkit,
                                      a_second_try};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        if (standin_dies(bodies[i], NULL) != 0)
            fail_msg("case %zu of what is missing", i);
}

enum { THREADS = 4, ROUNDS = 15, LENGTH = 3000 };

typedef struct worker {
    pthread_t thread;
    int number;
    twins both;
    gsc_status status;
    double scale;
} worker;

static gsc_status work(worker *self)
{
    gsc_scaler *scaler = NULL;
    gsc_scaler_options options = gsc_scaler_options_default();
    gsc_scaler_state state;
    options.device = (DLDevice){kDLCUDA, self->number % 2};
    options.backend = gsc_cuda_backend();
    options.init_scale = 2;
    options.growth_interval = self->number + 1;
    gsc_status status = gsc_scaler_create(&options, &scaler);
    for (int i = 0; i < ROUNDS && status == GSC_OK; i++) {
        status = gsc_scaler_step(scaler, &self->both.optimizer, NULL, NULL);
        if (status == GSC_OK)
            status = gsc_scaler_update(scaler);
    }
    if (status == GSC_OK)
        status = gsc_scaler_state_dict(scaler, &state);
    self->scale = status == GSC_OK ? state.scale : 0;
    gsc_scaler_destroy(scaler);
    return status;
}

static void *run_worker(void *self)
{
    ((worker *)self)->status = work(self);
    return NULL;
}

/* rule 15.1 */
static void scalers_in_threads_are_independent(void **state)
{
    (void)state;
    worker workers[THREADS];
    for (int t = 0; t < THREADS; t++) {
        workers[t] = (worker){.number = t};
        twins_init(&workers[t].both);
        float *x = (void *)twins_add(&workers[t].both, GSC_FLOAT32, t % 2, 1, (int64_t[]){LENGTH}, NULL, 0);
        for (int i = 0; i < LENGTH; i++)
            x[i] = (float)(i + t);
        twins_upload(&workers[t].both);
        workers[t].both.optimizer.self = &workers[t].both;
    }
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&workers[t].thread, NULL, run_worker, &workers[t]), 0);
    for (int t = 0; t < THREADS; t++)
        assert_int_equal(pthread_join(workers[t].thread, NULL), 0);
    for (int t = 0; t < THREADS; t++) {
        double scale = 2;
        assert_status(workers[t].status, GSC_OK);
        for (int i = 0; i < ROUNDS; i++) {
            assert_ok(gsc_unscale_grads(workers[t].both.cpu, 1, scale, NULL));
            scale *= (i + 1) % (t + 1) == 0 ? 2 : 1;
        }
        assert_exact(workers[t].scale, scale);
        twins_assert_equal(&workers[t].both);
        twins_free(&workers[t].both);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_missing_is_told), /* first: the children load the driver anew */
        cmocka_unit_test_teardown(scalers_in_threads_are_independent, assert_clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
