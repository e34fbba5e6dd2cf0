/* SPDX-License-Identifier: Apache-2.0 */
/* The fused optimizers where the driver fails: each call of each function of theirs fails in turn, with the driver's
 * text and nothing half done, and the next one goes on as if nothing had been. */
#include "optim_rig.h"
#include "standin/abi.h"

static const twin_spec specs[] = {{1100, GSC_FLOAT32_INIT, GSC_FLOAT32_INIT, 0, 0},
                                  {7, GSC_FLOAT32_INIT, GSC_FLOAT16_INIT, 0, 0},
                                  {33, GSC_FLOAT64_INIT, GSC_FLOAT64_INIT, 0, 0}};
enum { SPECS = sizeof specs / sizeof *specs };

static const rule_case *const sgd = &rule_cases[3], *const adam = &rule_cases[7];

static CUcontext context;
static CUstream stream;

static int open_device(void **state)
{
    (void)state;
    if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
        cuCtxSetCurrent(context) != CUDA_SUCCESS || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
        return -1;
    return 0;
}

/* What is tried; returns its status. */
typedef gsc_status action(twins *t);

/* Calls `what` with each of its calls of the driver failing in turn. */
static void fail_each(twins *t, action *what, const char *name)
{
    uint64_t k = 1;
    for (bool fired = true; fired; k++) {
        standin_reset_counts();
        standin_fail(NULL, k, CUDA_ERROR_LAUNCH_FAILED);
        const gsc_status status = what(t);
        fired = standin_fail_fired();
        standin_fail(NULL, 0, 0);
        if (fired && status == GSC_ERR_DEVICE) {
            assert_message("CUDA: could not ");
            assert_message("CUDA_ERROR_LAUNCH_FAILED");
            compare_twins(t, k); /* neither side has changed */
        } else if (fired) {
            assert_ok(status); /* marking its end and leaving the context, its last two calls, make no difference */
            assert_true(k + 1 >= standin_calls());
            break;
        } else
            assert_ok(status);
    }
    if (k < 3)
        fail_msg("%s has failed only %d times", name, (int)k - 1);
}

static gsc_status make_step(twins *t) { return gsc_cuda_optim_step(t->gpu); }

static gsc_status change_lr(twins *t)
{
    const double before = gsc_cuda_optim_get_lr(t->gpu, 0);
    const gsc_status status = gsc_cuda_optim_set_lr(t->gpu, 0, 0.125);
    assert_true(gsc_cuda_optim_get_lr(t->gpu, 0) == (status == GSC_OK ? 0.125 : before));
    return status;
}

static gsc_status change_counts(twins *t) { return gsc_cuda_optim_set_step_counts(t->gpu, (int64_t[]){7, 8, 9}); }

static gsc_status read_counts(twins *t)
{
    int64_t counts[SPECS] = {-1, -1, -1};
    const gsc_status status = gsc_cuda_optim_get_step_counts(t->gpu, counts);
    for (size_t k = 0; k < SPECS; k++)
        assert_true(status == GSC_OK || counts[k] == -1);
    return status;
}

/* The CPU makes what the device has made. */
static void follow_step(twins *t) { assert_ok(gsc_optim_step(t->cpu)); }

static void each_call_of_the_driver_fails(void **state)
{
    (void)state;
    const rule_case *const rules[] = {sgd, adam};
    for (size_t r = 0; r < 2; r++) {
        twins *t = twins_create(rules[r], specs, SPECS);
        for (size_t step = 0; step < 3; step++) {
            set_grads(t, step, 1);
            if (step == 1)
                drop_grad(t, 1); /* so that addresses go up again */
            fail_each(t, make_step, "step");
            follow_step(t);
            compare_twins(t, step);
        }
        fail_each(t, change_lr, "set_lr");
        assert_ok(gsc_optim_set_lr(t->cpu, 0, 0.125));
        fail_each(t, change_counts, "set_step_counts");
        for (size_t k = 0; k < SPECS; k++)
            assert_ok(gsc_optim_set_step_count(t->cpu, k, (int64_t)k + 7));
        compare_twins(t, 3);
        fail_each(t, read_counts, "get_step_counts");
        fail_each(t, make_step, "step");
        follow_step(t);
        compare_twins(t, 4);
        twins_free(t);
    }
}

static gsc_status step_on_stream(twins *t)
{
    return step_scaled(gsc_cuda_optim_optimizer(t->gpu), &(gsc_grad_scaling){.multiplier = 1, .stream = stream});
}

static gsc_status go_to_stream(twins *t) { return gsc_cuda_optim_set_stream(t->gpu, stream); }

/* The optimizer stays on its stream. */
static void changing_the_stream_fails(void **state)
{
    (void)state;
    static const char *const functions[] = {"cuStreamIsCapturing", "cuStreamWaitEvent"};
    static action *const actions[] = {go_to_stream, step_on_stream};
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
        for (size_t a = 0; a < sizeof actions / sizeof *actions; a++) {
            twins *t = twins_create(sgd, specs, SPECS);
            set_grads(t, 0, 1);
            assert_ok(gsc_cuda_optim_step(t->gpu));
            follow_step(t);
            standin_fail(functions[f], 1, CUDA_ERROR_LAUNCH_FAILED);
            assert_fails(GSC_ERR_DEVICE, actions[a](t), functions[f], "CUDA_ERROR_LAUNCH_FAILED");
            assert_true(standin_fail_fired());
            compare_twins(t, f);
            assert_ok(gsc_cuda_optim_step(t->gpu));
            assert_ok(actions[a](t));
            assert_ok(gsc_cuda_optim_step(t->gpu));
            for (size_t step = 0; step < 2 + a; step++)
                follow_step(t);
            compare_twins(t, f);
            twins_free(t);
        }
}

/* A step whose end could not be marked was made, and another stream waits for it, too. */
static void marking_the_end_fails(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++) {
        standin_seed(seed);
        twins *t = twins_create(adam, specs, SPECS);
        set_grads(t, 0, 1);
        standin_fail("cuEventRecord", 1, CUDA_ERROR_LAUNCH_FAILED);
        assert_ok(gsc_cuda_optim_step(t->gpu));
        assert_true(standin_fail_fired());
        standin_reset_counts();
        assert_ok(go_to_stream(t));
        assert_int_equal(standin_synchronisations(), 1);
        assert_ok(gsc_cuda_optim_step(t->gpu));
        assert_ok(gsc_cuda_optim_set_stream(t->gpu, NULL));
        assert_int_equal(standin_synchronisations(), 1); /* this end is marked */
        for (size_t step = 0; step < 2; step++)
            follow_step(t);
        compare_twins(t, seed);
        twins_free(t);
    }
}

/* Lists that need several launches, of which the second fails: the first has arrived, and counts for nothing. */
static void half_of_a_list_arrives(void **state)
{
    (void)state;
    enum { MANY = 600 };
    static twin_spec many[MANY];
    static int64_t counts[MANY];
    for (size_t k = 0; k < MANY; k++) {
        many[k] = (twin_spec){2, GSC_FLOAT32, GSC_FLOAT32, 0, 0};
        counts[k] = 77;
    }
    twins *t = twins_create(adam, many, MANY);
    set_grads(t, 0, 1);
    assert_ok(gsc_cuda_optim_step(t->gpu));
    follow_step(t);
    DLTensor *first = t->grads[0], *last = t->grads[MANY - 1];
    t->grads[0] = t->grads[MANY - 1] = NULL;
    standin_fail("cuLaunchKernel", 2, CUDA_ERROR_LAUNCH_FAILED);
    assert_fails(GSC_ERR_DEVICE, gsc_cuda_optim_step(t->gpu), "CUDA: could not send the addresses of gradients");
    t->grads[0] = first;
    t->grads[MANY - 1] = last;
    assert_ok(gsc_cuda_optim_step(t->gpu)); /* with the gradients of the first step */
    follow_step(t);
    compare_twins(t, 1);
    standin_fail("cuLaunchKernel", 2, CUDA_ERROR_LAUNCH_FAILED);
    assert_fails(GSC_ERR_DEVICE, gsc_cuda_optim_set_step_counts(t->gpu, counts), "CUDA: could not send step counts");
    compare_twins(t, 2);
    twins_free(t);
}

/* Creation gives everything back. */
static void each_call_of_creation_fails(void **state)
{
    (void)state;
    twins *t = twins_create(adam, specs, SPECS);
    gsc_cuda_optim_free(t->gpu); /* the only user of the device: contexts, kernels and memory come and go */
    const standin_live before = standin_live_now();
    assert_int_equal(before.retains, 1); /* by this test */
    assert_int_equal(before.modules + before.device_allocations + before.host_allocations, 0);
    const gsc_cuda_param_group group = cuda_group_of(&adam->group, t->params, t->grads, SPECS);
    uint64_t k = 1;
    for (bool fired = true; fired; k++) {
        gsc_cuda_optim *out = NULL;
        standin_fail(NULL, k, CUDA_ERROR_UNKNOWN);
        const gsc_status status = gsc_cuda_optim_create_adam(&group, 1, &out);
        fired = standin_fail_fired();
        standin_fail(NULL, 0, 0);
        if (status == GSC_OK)
            gsc_cuda_optim_free(out); /* nothing has failed, or what cannot fail: leaving the context */
        else {
            assert_null(out);
            assert_status(status, GSC_ERR_DEVICE);
        }
        const standin_live after = standin_live_now();
        assert_memory_equal(&before, &after, sizeof before);
    }
    assert_true(k > 10);
    standin_fail("cuMemAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    assert_fails(GSC_ERR_MEMORY, gsc_cuda_optim_create_adam(&group, 1, &t->gpu), "cuMemAlloc");
    standin_fail(NULL, 0, 0);
    assert_ok(gsc_cuda_optim_create_adam(&group, 1, &t->gpu));
    compare_twins(t, 0);
    twins_free(t);
}

/* A kernel that dies takes its context along: that is told at the next call, and what was there can be freed. */
static void a_kernel_fails(void **state)
{
    (void)state;
    twins *t = twins_create(adam, specs, SPECS);
    int64_t counts[SPECS];
    set_grads(t, 0, 1);
    standin_fail_kernel("gsc__kernel_optim_adam", 1, CUDA_ERROR_LAUNCH_FAILED);
    assert_ok(gsc_cuda_optim_step(t->gpu)); /* enqueued */
    assert_fails(GSC_ERR_DEVICE, gsc_cuda_optim_get_step_counts(t->gpu, counts), "CUDA: could not read step counts",
                 "CUDA_ERROR_LAUNCH_FAILED");
    assert_fails(GSC_ERR_DEVICE, gsc_cuda_optim_step(t->gpu), "CUDA_ERROR_LAUNCH_FAILED");
    assert_fails(GSC_ERR_DEVICE, gsc_cuda_optim_set_lr(t->gpu, 0, 1), "CUDA_ERROR_LAUNCH_FAILED");
    gsc_cuda_optim_free(t->gpu);
    t->gpu = NULL;
    twins_free(t);
    standin_revive(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_of_the_driver_fails),
        cmocka_unit_test(changing_the_stream_fails),
        cmocka_unit_test(marking_the_end_fails),
        cmocka_unit_test(half_of_a_list_arrives),
        cmocka_unit_test(each_call_of_creation_fails),
        cmocka_unit_test(a_kernel_fails), /* the last: its context and the stream are gone */
    };
    return cmocka_run_group_tests(tests, open_device, NULL);
}
