/* SPDX-License-Identifier: Apache-2.0 */
/* The fused optimizers only enqueue: nothing waits, nothing is allocated, a step can be captured and replayed, streams
 * follow one another. */
#include "optim_rig.h"
#include "standin/abi.h"

static const twin_spec specs[] = {{1500, GSC_FLOAT32_INIT, GSC_FLOAT32_INIT, 0, 0},
                                  {7, GSC_FLOAT32_INIT, GSC_BFLOAT16_INIT, 0, 0},
                                  {33, GSC_FLOAT64_INIT, GSC_FLOAT64_INIT, 0, 0}};
enum { SPECS = sizeof specs / sizeof *specs };

static const rule_case *const adamw = &rule_cases[sizeof rule_cases / sizeof *rule_cases - 1];

#define assert_cuda(call) assert_int_equal((call), CUDA_SUCCESS)

static CUcontext context;

static int open_device(void **state)
{
    (void)state;
    assert_cuda(cuInit(0));
    assert_cuda(cuDevicePrimaryCtxRetain(&context, 0));
    assert_cuda(cuCtxSetCurrent(context));
    return 0;
}

static int close_device(void **state)
{
    (void)state;
    assert_cuda(cuDevicePrimaryCtxRelease_v2(0));
    return 0;
}

/* Blocking streams wait for the legacy default stream and it for them; these do not. */
static CUstream new_stream(void)
{
    CUstream stream;
    assert_cuda(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static void nothing_waits_and_nothing_is_allocated(void **state)
{
    (void)state;
    twins *t = twins_create(adamw, specs, SPECS);
    CUstream stream = new_stream();
    const int64_t counts[SPECS] = {3, 4, 5};
    set_grads(t, 0, 1);
    scaling_tensors tensors;
    const gsc_grad_scaling scaling = scaling_of(t, &tensors, 1, 0, stream);
    standin_reset_counts();
    assert_ok(gsc_cuda_optim_step(t->gpu));
    assert_ok(gsc_cuda_optim_set_lr(t->gpu, 0, 0.5));
    assert_ok(gsc_cuda_optim_set_step_counts(t->gpu, counts));
    assert_ok(step_scaled(gsc_cuda_optim_optimizer(t->gpu), &scaling));
    assert_ok(gsc_cuda_optim_set_stream(t->gpu, NULL));
    assert_ok(gsc_cuda_optim_step(t->gpu));
    assert_int_equal(standin_synchronisations(), 0);
    assert_int_equal(standin_allocations(), 0);
    int64_t read[SPECS];
    assert_ok(gsc_cuda_optim_get_step_counts(t->gpu, read)); /* says that it waits */
    assert_true(standin_synchronisations() > 0);
    assert_int_equal(read[0], 5);
    twins_free(t);
    assert_cuda(cuStreamDestroy_v2(stream));
}

static void step_in_launches(twins *t, uint64_t launches)
{
    standin_reset_counts();
    assert_ok(gsc_cuda_optim_step(t->gpu));
    assert_int_equal(standin_launches(), launches);
}

/* Two launches, and one more for each 160 parameters from the first to the last whose gradient is elsewhere than in the
 * step before. */
static void a_step_is_few_launches(void **state)
{
    (void)state;
    enum { MANY = 500 };
    static twin_spec many[MANY];
    for (size_t k = 0; k < MANY; k++)
        many[k] = (twin_spec){3, GSC_FLOAT32, GSC_FLOAT32, 0, 0};
    twins *t = twins_create(adamw, many, MANY);
    set_grads(t, 0, 1);
    step_in_launches(t, 4 + 2);
    step_in_launches(t, 2);
    DLTensor *last = t->grads[MANY - 1];
    t->grads[MANY - 1] = NULL;
    step_in_launches(t, 1 + 2);
    step_in_launches(t, 2);
    t->grads[MANY - 1] = last;
    t->grads[250] = NULL;
    step_in_launches(t, 2 + 2);
    t->grads[0] = NULL;
    step_in_launches(t, 1 + 2);
    twins_free(t);
}

/* Gradients that move, go and come back between steps are those that are read. */
static void gradients_may_move(void **state)
{
    (void)state;
    twins *t = twins_create(adamw, specs, SPECS);
    char *elsewhere = standin_alloc(0, 1500 * sizeof(float));
    for (size_t step = 0; step < 8; step++) {
        set_grads(t, step, 1);
        if (step % 2 == 1) {
            unsigned char copy[1500 * sizeof(float)];
            standin_download(copy, t->all[0].grad.data, sizeof copy);
            standin_upload(elsewhere, copy, sizeof copy);
            memset(copy, 0xff, sizeof copy); /* where it was is not read */
            standin_upload(t->all[0].grad.data, copy, sizeof copy);
            accept_grads(t);
            DLTensor moved = t->all[0].grad;
            moved.data = elsewhere;
            t->grads[0] = &moved;
            if (step == 5)
                drop_grad(t, 1);
            step_twins(t, 1, 0, NULL);
        } else
            step_twins(t, 1, 0, NULL);
        compare_twins(t, step);
    }
    standin_free(elsewhere);
    twins_free(t);
}

/* So may parameters: the next step changes them where they are now. */
static void parameters_may_move(void **state)
{
    (void)state;
    twins *t = twins_create(adamw, specs, SPECS);
    unsigned char copy[1500 * sizeof(float)];
    char *elsewhere = standin_alloc(0, sizeof copy);
    set_grads(t, 0, 1);
    step_twins(t, 1, 0, NULL);
    const DLTensor before = t->all[0].param;
    standin_download(copy, before.data, sizeof copy);
    standin_upload(elsewhere, copy, sizeof copy);
    t->all[0].param.data = elsewhere;
    step_twins(t, 1, 0, NULL);
    compare_tensor(gsc_tensor_data(t->all[0].cpu), &t->all[0].param, "moved data", 0, 1);
    unsigned char after[sizeof copy];
    standin_download(after, before.data, sizeof after);
    assert_memory_equal(after, copy, sizeof copy);
    twins_free(t);
    standin_free(elsewhere);
}

static CUgraphExec capture_step(twins *t, const gsc_grad_scaling *scaling, CUstream stream)
{
    CUgraph graph;
    CUgraphExec exec;
    assert_ok(gsc_cuda_optim_set_stream(t->gpu, stream));
    assert_cuda(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(step_scaled(gsc_cuda_optim_optimizer(t->gpu), scaling));
    assert_cuda(cuStreamEndCapture(stream, &graph));
    assert_cuda(cuGraphInstantiateWithFlags(&exec, graph, 0));
    assert_cuda(cuGraphDestroy(graph));
    return exec;
}

/* A replay counts on, uses the learning rate set last and skips where something is found; steps between that are not
 * captured have gradients of their own. */
static void replay_steps(uint64_t seed)
{
    standin_seed(seed);
    twins *t = twins_create(adamw, specs, SPECS);
    CUstream stream = new_stream();
    scaling_tensors tensors;
    set_grads(t, 0, 1);
    step_twins(t, 0.5, 0, stream); /* before the capture */
    const gsc_grad_scaling scaling = scaling_of(t, &tensors, 0.25, 0, stream);
    CUgraphExec exec = capture_step(t, &scaling, stream);
    compare_twins(t, 1); /* a capture makes no step */
    for (size_t replay = 0; replay < 6; replay++) {
        const float found_inf = replay == 2;
        const double lr = 0.1 / (double)(replay + 1);
        set_grads(t, replay, 4);
        (void)scaling_of(t, &tensors, 0.25, found_inf, stream);
        assert_ok(gsc_cuda_optim_set_lr(t->gpu, 0, lr));
        assert_ok(gsc_optim_set_lr(t->cpu, 0, lr));
        assert_cuda(cuGraphLaunch(exec, stream));
        if (found_inf == 0)
            assert_ok(step_scaled(gsc_optim_optimizer(t->cpu), &(gsc_grad_scaling){.multiplier = 0.25}));
        compare_twins(t, replay);
        if (replay == 1) { /* a replay that no count has waited for, and a step on another stream, which waits for it */
            CUevent replayed;
            assert_cuda(cuEventCreate(&replayed, CU_EVENT_DISABLE_TIMING));
            set_grads(t, 9, 4);
            assert_cuda(cuGraphLaunch(exec, stream));
            assert_cuda(cuEventRecord(replayed, stream));
            assert_cuda(cuStreamWaitEvent(NULL, replayed, 0));
            assert_cuda(cuEventDestroy_v2(replayed));
            assert_ok(gsc_cuda_optim_set_stream(t->gpu, NULL));
            assert_ok(gsc_cuda_optim_step(t->gpu));
            assert_ok(step_scaled(gsc_optim_optimizer(t->cpu), &(gsc_grad_scaling){.multiplier = 0.25}));
            assert_ok(gsc_optim_step(t->cpu));
            assert_ok(gsc_cuda_optim_set_stream(t->gpu, stream));
            compare_twins(t, replay);
        }
        if (replay == 3) { /* without the second gradient, which the graph has */
            DLTensor *second = t->grads[1];
            drop_grad(t, 1);
            step_twins(t, 0.25, 0, stream);
            compare_twins(t, replay);
            t->grads[1] = second;
        }
    }
    assert_cuda(cuGraphExecDestroy(exec));
    twins_free(t);
    assert_cuda(cuStreamDestroy_v2(stream));
}

static void a_captured_step_is_replayed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 10; seed++)
        replay_steps(seed);
}

/* A graph cannot wait for work outside of it: so that is told. */
static void a_capture_on_another_stream_is_refused(void **state)
{
    (void)state;
    twins *t = twins_create(adamw, specs, SPECS);
    CUstream used = new_stream(), captured = new_stream();
    CUgraph graph;
    scaling_tensors tensors;
    set_grads(t, 0, 1);
    step_twins(t, 1, 0, used);
    const gsc_grad_scaling scaling = scaling_of(t, &tensors, 1, 0, captured);
    assert_cuda(cuStreamBeginCapture_v2(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_fails(GSC_ERR_STATE, step_scaled(gsc_cuda_optim_optimizer(t->gpu), &scaling),
                 "optimizer step: the stream is capturing a graph", "gsc_cuda_optim_set_stream");
    assert_fails(GSC_ERR_STATE, gsc_cuda_optim_set_stream(t->gpu, captured),
                 "gsc_cuda_optim_set_stream: the stream is capturing a graph");
    assert_cuda(cuStreamEndCapture(captured, &graph)); /* the capture is as it was */
    assert_cuda(cuGraphDestroy(graph));
    assert_ok(step_scaled(gsc_cuda_optim_optimizer(t->gpu), &scaling));
    assert_ok(step_scaled(gsc_optim_optimizer(t->cpu), &(gsc_grad_scaling){.multiplier = 1}));
    compare_twins(t, 1);
    /* What has enqueued nothing follows anywhere; counts cannot be read from a graph that has not run. */
    int64_t counts[SPECS] = {-1};
    assert_cuda(cuStreamBeginCapture_v2(used, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_ok(gsc_cuda_optim_set_stream(t->gpu, used));
    assert_fails(GSC_ERR_STATE, gsc_cuda_optim_get_step_counts(t->gpu, counts), "capturing a graph, which has not run");
    assert_int_equal(counts[0], -1);
    assert_cuda(cuStreamEndCapture(used, &graph));
    assert_cuda(cuGraphDestroy(graph));
    twins_free(t);
    assert_cuda(cuStreamDestroy_v2(used));
    assert_cuda(cuStreamDestroy_v2(captured));
}

/* Work on a new stream follows that on the old one, in whatever order streams run; setters too. */
static void streams_follow_one_another(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        standin_seed(seed);
        standin_set_early((int)(seed % 3) * 30);
        twins *t = twins_create(adamw, specs, SPECS);
        CUstream streams[3] = {NULL, new_stream(), new_stream()};
        set_grads(t, 0, 1);
        for (size_t step = 0; step < 6; step++) {
            const double lr = 0.02 * (double)(step + 1);
            assert_ok(gsc_cuda_optim_set_lr(t->gpu, 0, lr));
            assert_ok(gsc_optim_set_lr(t->cpu, 0, lr));
            if (step == 3) {
                const int64_t counts[SPECS] = {10, 20, 30};
                assert_ok(gsc_cuda_optim_set_step_counts(t->gpu, counts));
                for (size_t k = 0; k < SPECS; k++)
                    assert_ok(gsc_optim_set_step_count(t->cpu, k, counts[k]));
            }
            assert_ok(gsc_cuda_optim_set_stream(t->gpu, streams[(step + seed) % 3]));
            assert_ok(gsc_cuda_optim_step(t->gpu));
            assert_ok(gsc_optim_step(t->cpu));
        }
        compare_twins(t, seed);
        twins_free(t);
        for (int i = 1; i < 3; i++)
            assert_cuda(cuStreamDestroy_v2(streams[i]));
    }
    standin_set_early(0);
}

/* A stream may go once another has taken its place, and whether or not the optimizer was told. */
static void streams_may_be_destroyed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        standin_seed(seed);
        twins *t = twins_create(adamw, specs, SPECS);
        CUstream last = new_stream();
        set_grads(t, 0, 1);
        step_twins(t, 0.5, 0, last);
        for (size_t step = 0; step < 3; step++) {
            CUstream next = new_stream();
            assert_cuda(cuStreamDestroy_v2(last));
            last = next;
            if (step == 1) { /* the setter's stream is the optimizer's */
                assert_ok(gsc_cuda_optim_set_stream(t->gpu, next));
                assert_ok(gsc_cuda_optim_set_lr(t->gpu, 0, 0.25));
                assert_ok(gsc_optim_set_lr(t->cpu, 0, 0.25));
            }
            step_twins(t, 0.5, 0, next);
        }
        assert_cuda(cuStreamDestroy_v2(last));
        assert_ok(gsc_cuda_optim_set_stream(t->gpu, NULL));
        compare_twins(t, seed);
        twins_free(t);
    }
}

/* So may the stream that a capture was on, after its graph. */
static void the_stream_of_a_capture_may_be_destroyed(void **state)
{
    (void)state;
    twins *t = twins_create(adamw, specs, SPECS);
    CUstream stream = new_stream();
    scaling_tensors tensors;
    set_grads(t, 0, 1);
    step_twins(t, 0.5, 0, stream);
    const gsc_grad_scaling scaling = scaling_of(t, &tensors, 0.5, 0, stream);
    CUgraphExec exec = capture_step(t, &scaling, stream);
    assert_cuda(cuGraphExecDestroy(exec));
    assert_cuda(cuStreamDestroy_v2(stream));
    assert_ok(gsc_cuda_optim_set_stream(t->gpu, NULL));
    step_twins(t, 0.5, 0, NULL);
    compare_twins(t, 1);
    twins_free(t);
}

/* Within a capture there is no event to wait for. */
static void a_capture_keeps_its_stream(void **state)
{
    (void)state;
    twins *t = twins_create(adamw, specs, SPECS);
    CUstream first = new_stream(), second = new_stream();
    CUgraph graph;
    CUevent fork, join;
    scaling_tensors tensors;
    int64_t counts[SPECS];
    set_grads(t, 0, 1);
    step_twins(t, 1, 0, first);
    assert_ok(gsc_cuda_optim_get_step_counts(t->gpu, counts)); /* nothing is left that was enqueued before */
    const gsc_grad_scaling scaling = scaling_of(t, &tensors, 1, 0, first);
    assert_cuda(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    assert_cuda(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    assert_cuda(cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_GLOBAL));
    assert_cuda(cuEventRecord(fork, first));
    assert_cuda(cuStreamWaitEvent(second, fork, 0));
    assert_ok(step_scaled(gsc_cuda_optim_optimizer(t->gpu), &scaling));
    assert_fails(GSC_ERR_STATE, gsc_cuda_optim_set_stream(t->gpu, second), "the stream is capturing a graph");
    assert_cuda(cuEventRecord(join, second));
    assert_cuda(cuStreamWaitEvent(first, join, 0));
    assert_cuda(cuStreamEndCapture(first, &graph));
    assert_cuda(cuGraphDestroy(graph));
    assert_ok(gsc_cuda_optim_set_stream(t->gpu, second));
    assert_cuda(cuEventDestroy_v2(fork));
    assert_cuda(cuEventDestroy_v2(join));
    twins_free(t);
    assert_cuda(cuStreamDestroy_v2(first));
    assert_cuda(cuStreamDestroy_v2(second));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_waits_and_nothing_is_allocated),
        cmocka_unit_test(a_step_is_few_launches),
        cmocka_unit_test(gradients_may_move),
        cmocka_unit_test(parameters_may_move),
        cmocka_unit_test(a_captured_step_is_replayed),
        cmocka_unit_test(a_capture_on_another_stream_is_refused),
        cmocka_unit_test(streams_follow_one_another),
        cmocka_unit_test(streams_may_be_destroyed),
        cmocka_unit_test(the_stream_of_a_capture_may_be_destroyed),
        cmocka_unit_test(a_capture_keeps_its_stream),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
