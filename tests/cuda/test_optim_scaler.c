/* SPDX-License-Identifier: Apache-2.0 */
/* A whole iteration on the device: scaler and fused optimizer against those of the CPU. Overflows, growth, clipping,
 * unscale before step: the same parameters, states and scale to the bit, and no wait. */
#include "gradscaler/train.h"
#include "optim_rig.h"
#include "standin/abi.h"

static const twin_spec specs[] = {{1500, GSC_FLOAT32_INIT, GSC_FLOAT32_INIT, 0, 0},
                                  {33, GSC_FLOAT64_INIT, GSC_FLOAT64_INIT, 0, 0},
                                  {5000, GSC_FLOAT32_INIT, GSC_FLOAT32_INIT, 0, 0},
                                  {7, GSC_FLOAT32_INIT, GSC_FLOAT32_INIT, 1, 1}};
enum { SPECS = sizeof specs / sizeof *specs, ITERATIONS = 14, RULES = sizeof rule_cases / sizeof *rule_cases };

typedef struct scalers {
    gsc_scaler *cpu, *gpu;
} scalers;

static scalers make_scalers(void)
{
    scalers both;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = 3000; /* its reciprocal is not exact */
    options.growth_interval = 3;
    assert_ok(gsc_scaler_create(&options, &both.cpu));
    options.device = (DLDevice){kDLCUDA, 0};
    options.backend = gsc_cuda_backend();
    assert_ok(gsc_scaler_create(&options, &both.gpu));
    return both;
}

/* Whether the gradients of this iteration overflow. */
static bool spoil(twins *t, size_t iteration)
{
    static const double bad[] = {1, INFINITY, NAN};
    double values[33] = {bad[iteration % 3]};
    if (iteration % 5 != 2)
        return false;
    for (size_t i = 1; i < 33; i++)
        values[i] = 1;
    values[iteration % 33] = iteration == 7 ? NAN : -INFINITY;
    set_grad(t, 1, values);
    return true;
}

/* One iteration on each side. No host synchronisation on the device's. */
static void iterate(const scalers *both, twins *t, size_t iteration, double clip_norm)
{
    const gsc_optimizer *cpu = gsc_optim_optimizer(t->cpu), *gpu = gsc_cuda_optim_optimizer(t->gpu);
    const gsc_step_args args = {.clip_norm = clip_norm};
    gsc_step_result on_cpu, on_gpu;
    set_grads(t, iteration, gsc_scaler_get_scale(both->cpu));
    if (iteration == 4)
        drop_grad(t, 0);
    const bool overflows = spoil(t, iteration), unscales_first = iteration % 4 == 3;
    if (unscales_first)
        assert_ok(gsc_scaler_unscale(both->cpu, cpu));
    assert_ok(gsc_scaler_step(both->cpu, cpu, &args, &on_cpu));
    assert_ok(gsc_scaler_update(both->cpu));
    standin_reset_counts();
    if (unscales_first)
        assert_ok(gsc_scaler_unscale(both->gpu, gpu));
    assert_ok(gsc_scaler_step(both->gpu, gpu, &args, &on_gpu));
    assert_ok(gsc_scaler_update(both->gpu));
    if (standin_synchronisations() + (iteration > 0 ? standin_allocations() : 0) > 0)
        fail_msg("iteration %zu: %d synchronisations, %d allocations", iteration, (int)standin_synchronisations(),
                 (int)standin_allocations());
    assert_int_equal(on_cpu.outcome, overflows ? GSC_SKIPPED_OVERFLOW : GSC_STEPPED);
    assert_int_equal(on_gpu.outcome, GSC_PENDING);
    if (unscales_first)
        accept_grads(t);
    compare_twins(t, iteration);
    assert_ok(gsc_scaler_result(both->gpu, gpu, &on_gpu));
    assert_int_equal(on_gpu.outcome, on_cpu.outcome);
    assert_true(clip_norm == 0 || overflows || on_gpu.grad_norm == on_cpu.grad_norm);
    assert_exact(gsc_scaler_get_scale(both->gpu), gsc_scaler_get_scale(both->cpu));
}

/* rule 7.7 */
static void iterations_have_the_bits_of_the_cpu(void **state)
{
    (void)state;
    static const double clip_norms[] = {0.5, 0, 1e6, 1e-42}; /* clips; none; does not; the multiplier is split */
    for (size_t r = 0; r < RULES; r++) {
        standin_seed(r + 1);
        twins *t = twins_create(&rule_cases[r], specs, SPECS);
        const scalers both = make_scalers();
        for (size_t i = 0; i < ITERATIONS; i++)
            iterate(&both, t, i, clip_norms[i / 2 % 4]);
        gsc_scaler_destroy(both.cpu);
        gsc_scaler_destroy(both.gpu);
        twins_free(t);
    }
}

/* A captured iteration, replayed: the schedule, the skips and the step counts go on. */
static void a_captured_iteration(void **state)
{
    (void)state;
    CUcontext context;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    assert_int_equal(cuInit(0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    twins *t = twins_create(&rule_cases[RULES - 1], specs, SPECS);
    const scalers both = make_scalers();
    const gsc_optimizer *cpu = gsc_optim_optimizer(t->cpu), *gpu = gsc_cuda_optim_optimizer(t->gpu);
    const gsc_step_args args = {.clip_norm = 0.5};
    assert_ok(gsc_scaler_set_stream(both.gpu, (DLDevice){kDLCUDA, 0}, stream));
    iterate(&both, t, 0, 0.5); /* memory is allocated here */
    assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_ok(gsc_scaler_step(both.gpu, gpu, &args, NULL));
    assert_ok(gsc_scaler_update(both.gpu));
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    for (size_t i = 1; i < ITERATIONS; i++) {
        set_grads(t, i, gsc_scaler_get_scale(both.cpu));
        spoil(t, i);
        assert_ok(gsc_scaler_step(both.cpu, cpu, &args, NULL));
        assert_ok(gsc_scaler_update(both.cpu));
        assert_int_equal(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        compare_twins(t, i);
    }
    gsc_scaler_state state_of_gpu, state_of_cpu;
    assert_ok(gsc_scaler_state_dict(both.gpu, &state_of_gpu));
    assert_ok(gsc_scaler_state_dict(both.cpu, &state_of_cpu));
    assert_memory_equal(&state_of_gpu, &state_of_cpu, sizeof state_of_cpu);
    assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    gsc_scaler_destroy(both.cpu);
    gsc_scaler_destroy(both.gpu);
    twins_free(t);
    assert_int_equal(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
}

/* Where the scaler is on another device, gradients are unscaled in place, and the step is a plain one. */
static void the_scaler_is_on_another_device(void **state)
{
    (void)state;
    static const twin_spec narrow[] = {{1500, GSC_FLOAT32_INIT, GSC_FLOAT32_INIT, 0, 0},
                                       {7, GSC_FLOAT32_INIT, GSC_FLOAT32_INIT, 1, 1}};
    twins_device = 1;
    twins *t = twins_create(&rule_cases[RULES - 1], narrow, 2);
    const scalers both = make_scalers();
    for (size_t i = 0; i < 4; i++) {
        gsc_step_result on_cpu, on_gpu;
        set_grads(t, i, gsc_scaler_get_scale(both.cpu));
        if (i == 2)
            set_grad(t, 1, (const double[]){1, 2, NAN, 4, 5, 6, 7});
        assert_ok(gsc_scaler_step(both.cpu, gsc_optim_optimizer(t->cpu), NULL, &on_cpu));
        assert_ok(gsc_scaler_step(both.gpu, gsc_cuda_optim_optimizer(t->gpu), NULL, &on_gpu));
        assert_int_equal(on_gpu.outcome, on_cpu.outcome);
        assert_ok(gsc_scaler_update(both.cpu));
        assert_ok(gsc_scaler_update(both.gpu));
        accept_grads(t);
        compare_twins(t, i);
    }
    gsc_scaler_destroy(both.cpu);
    gsc_scaler_destroy(both.gpu);
    twins_free(t);
    twins_device = 0;
}

/* A scaler that is off steps plainly. */
static void a_disabled_scaler_steps(void **state)
{
    (void)state;
    twins *t = twins_create(&rule_cases[RULES - 1], specs, SPECS);
    gsc_scaler_options options = gsc_scaler_options_default();
    options.enabled = false;
    options.device = (DLDevice){kDLCUDA, 0};
    options.backend = gsc_cuda_backend();
    gsc_scaler *scaler;
    assert_ok(gsc_scaler_create(&options, &scaler));
    set_grads(t, 0, 1);
    assert_ok(gsc_scaler_step(scaler, gsc_cuda_optim_optimizer(t->gpu), NULL, NULL));
    assert_ok(gsc_optim_step(t->cpu));
    compare_twins(t, 0);
    gsc_scaler_destroy(scaler);
    twins_free(t);
}

/* ---- Streams ---- */

typedef struct stream_case {
    bool enabled, own_stream; /* own: the scaler's is the legacy default stream, the optimizer had another one */
    int device;               /* the optimizer's; the scaler is on 0 */
    double clip_norm;
} stream_case;

static CUstream new_stream(int device, CUcontext *context)
{
    CUstream stream;
    assert_int_equal(cuDevicePrimaryCtxRetain(context, device), CUDA_SUCCESS);
    assert_int_equal(cuCtxSetCurrent(*context), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    return stream;
}

/* Two iterations on `stream`: gradients of 8 come and go there. One weight, SGD with lr 1: its end. */
static float train_on_stream(gsc_scaler *scaler, gsc_cuda_optim *optim, const stream_case *c, CUstream stream, float *w,
                             float *g)
{
    const gsc_step_args args = {.clip_norm = c->clip_norm};
    const float rubbish = 1000;
    float weight = 0;
    standin_upload(w, &weight, sizeof weight);
    standin_upload(g, &rubbish, sizeof rubbish);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(cuMemsetD8Async((CUdeviceptr)(uintptr_t)g, 0x40, sizeof *g, stream),
                         CUDA_SUCCESS); /* 3.0039 */
        assert_ok(gsc_scaler_step(scaler, gsc_cuda_optim_optimizer(optim), &args, NULL));
        assert_ok(gsc_scaler_update(scaler));
        assert_int_equal(cuMemsetD8Async((CUdeviceptr)(uintptr_t)g, 0x41, sizeof *g, stream), CUDA_SUCCESS);
    }
    standin_run_all();
    standin_download(&weight, w, sizeof weight);
    return weight;
}

static void step_on_the_scalers_stream(const stream_case *c, uint64_t seed)
{
    CUcontext context;
    CUstream stream = new_stream(c->device, &context), used = c->own_stream ? NULL : stream;
    float *w = standin_alloc(c->device, sizeof *w), *g = standin_alloc(c->device, sizeof *g);
    DLTensor weight = tensor_on_device(c->device, w, GSC_FLOAT32, &one_element, 0), grad = weight;
    grad.data = g;
    DLTensor *const params[] = {&weight}, *const grads[] = {&grad};
    const gsc_cuda_param_group group = gsc_cuda_param_group_default_sgd(params, grads, 1, 1);
    gsc_cuda_optim *optim;
    assert_ok(gsc_cuda_optim_create_sgd(&group, 1, &optim));
    gsc_scaler_options options = gsc_scaler_options_default();
    options.enabled = c->enabled;
    options.init_scale = 1;
    options.device = (DLDevice){kDLCUDA, 0};
    options.backend = gsc_cuda_backend();
    gsc_scaler *scaler;
    assert_ok(gsc_scaler_create(&options, &scaler));
    if (c->own_stream)
        assert_ok(gsc_cuda_optim_set_stream(optim, stream));
    else
        assert_ok(gsc_scaler_set_stream(scaler, (DLDevice){kDLCUDA, c->device}, stream));
    const float step = c->clip_norm > 0 ? 1 : 0x1.808080p1f, end = train_on_stream(scaler, optim, c, used, w, g);
    if (fabsf(end + 2 * step) > 1e-5f)
        fail_msg("enabled %d, device %d, clip %g, own stream %d, seed %d: %g, expected %g", c->enabled, c->device,
                 c->clip_norm, c->own_stream, (int)seed, (double)end, (double)(-2 * step));
    gsc_scaler_destroy(scaler);
    gsc_cuda_optim_free(optim);
    standin_free(w);
    standin_free(g);
    assert_int_equal(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(c->device), CUDA_SUCCESS);
}

/* Whether the gradients are unscaled in place, on the fly or not at all. */
static void steps_are_on_the_scalers_stream(void **state)
{
    (void)state;
    static const stream_case cases[] = {{.enabled = true},
                                        {.enabled = false},
                                        {.enabled = true, .device = 1},
                                        {.enabled = false, .device = 1},
                                        {.enabled = false, .clip_norm = 1},
                                        {.enabled = true, .device = 1, .clip_norm = 1},
                                        {.enabled = true, .own_stream = true},
                                        {.enabled = false, .own_stream = true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            standin_seed(seed);
            step_on_the_scalers_stream(&cases[i], seed);
        }
}

/* ---- Captures ---- */

static CUgraphExec capture_iteration(gsc_scaler *scaler, const twins *t, CUstream stream, double clip_norm)
{
    const gsc_step_args args = {.clip_norm = clip_norm};
    CUgraph graph;
    CUgraphExec exec;
    assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    assert_ok(gsc_scaler_step(scaler, gsc_cuda_optim_optimizer(t->gpu), &args, NULL));
    assert_ok(gsc_scaler_update(scaler));
    assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    assert_int_equal(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
    return exec;
}

static void replay_and_compare(const scalers *both, twins *t, CUstream stream, double clip_norm)
{
    const gsc_step_args args = {.clip_norm = clip_norm};
    CUgraphExec exec = capture_iteration(both->gpu, t, stream, clip_norm);
    for (size_t i = 1; i < 4; i++) {
        set_grads(t, i, gsc_scaler_get_scale(both->cpu));
        assert_ok(gsc_scaler_step(both->cpu, gsc_optim_optimizer(t->cpu), &args, NULL));
        assert_ok(gsc_scaler_update(both->cpu));
        assert_int_equal(cuGraphLaunch(exec, stream), CUDA_SUCCESS);
        compare_twins(t, i);
    }
    assert_int_equal(cuGraphExecDestroy(exec), CUDA_SUCCESS);
}

/* The iteration before the capture need not clip: the memory for a norm is there. A step of a scaler that is off is
 * captured as that of any other. */
static void captures_of_other_steps(void **state)
{
    (void)state;
    for (int enabled = 0; enabled < 2; enabled++) {
        CUcontext context;
        CUstream stream = new_stream(0, &context);
        twins *t = twins_create(&rule_cases[RULES - 1], specs, SPECS);
        scalers both = {0};
        gsc_scaler_options options = gsc_scaler_options_default();
        options.enabled = enabled != 0;
        options.init_scale = 3000;
        assert_ok(gsc_scaler_create(&options, &both.cpu));
        options.device = (DLDevice){kDLCUDA, 0};
        options.backend = gsc_cuda_backend();
        assert_ok(gsc_scaler_create(&options, &both.gpu));
        assert_ok(gsc_scaler_set_stream(both.gpu, options.device, stream));
        set_grads(t, 0, gsc_scaler_get_scale(both.cpu));
        assert_ok(gsc_scaler_step(both.cpu, gsc_optim_optimizer(t->cpu), NULL, NULL));
        assert_ok(gsc_scaler_step(both.gpu, gsc_cuda_optim_optimizer(t->gpu), NULL, NULL));
        assert_ok(gsc_scaler_update(both.cpu));
        assert_ok(gsc_scaler_update(both.gpu));
        compare_twins(t, 0);
        replay_and_compare(&both, t, stream, enabled ? 0.5 : 0);
        if (!enabled) { /* it has never seen a list */
            const gsc_step_args args = {.clip_norm = 0.5};
            CUgraph graph;
            assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
            assert_fails(GSC_ERR_STATE, gsc_scaler_step(both.gpu, gsc_cuda_optim_optimizer(t->gpu), &args, NULL),
                         "run one whole iteration before the capture, with the same calls and the same clipping");
            assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
            assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
        }
        gsc_scaler_destroy(both.cpu);
        gsc_scaler_destroy(both.gpu);
        twins_free(t);
        assert_int_equal(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
        assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(iterations_have_the_bits_of_the_cpu), cmocka_unit_test(a_captured_iteration),
        cmocka_unit_test(the_scaler_is_on_another_device),     cmocka_unit_test(a_disabled_scaler_steps),
        cmocka_unit_test(steps_are_on_the_scalers_stream),     cmocka_unit_test(captures_of_other_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
