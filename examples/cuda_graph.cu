/* SPDX-License-Identifier: Apache-2.0 */
/* A whole training step captured in a CUDA graph and replayed: backward pass, check, clip, AdamW and the scale's update
 * follow one another on the device, and the host waits for nothing. NOT YET RUN ON A GPU: compiled by nvcc alone.
 *
 *     nvcc cuda_graph.cu $(pkg-config --cflags --libs gradscaler-cuda) */
#include <cuda_fp16.h>

#include <gradscaler/cuda.h>
#include <gradscaler/gradscaler.h>

#include "cuda_example.h"

enum { WEIGHTS = 100000, STEPS = 500, BROKEN_STEP = 100, THREADS = 256 };
static const DLDevice gpu = {kDLCUDA, 0};

/* The gradient of 1e-8 * (weight - 1)^2 / 2, times the scale, in half precision: gradients of float32 weights may be
 * float16 here. *step counts the replays, whose launches all have the same arguments. */
__global__ void backward(const float *weights, __half *grads, const float *scale, const int *step)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < WEIGHTS)
        grads[i] = __float2half(*scale * 1e-8f * (weights[i] - 1));
    if (*step == BROKEN_STEP && i == 77)
        grads[i] = __float2half(INFINITY);
}

__global__ void count_step(int *step) { ++*step; }

typedef struct training {
    float *weights;
    __half *grads;
    int *step;
    const float *scale;
    gsc_scaler *scaler;
    const gsc_optimizer *optimizer;
    cudaStream_t stream;
} training;

/* Enqueues one step. Nothing in it waits; the outcome is GSC_PENDING. */
static void enqueue_step(const training *t)
{
    backward<<<(WEIGHTS + THREADS - 1) / THREADS, THREADS, 0, t->stream>>>(t->weights, t->grads, t->scale, t->step);
    must(cudaGetLastError());
    gsc_step_args args = {};
    args.clip_norm = 1; /* folded into the optimizer's multiplier */
    gsc_step_result result;
    must(gsc_scaler_step(t->scaler, t->optimizer, &args, &result));
    expect(result.outcome == GSC_PENDING, "the device decides");
    must(gsc_scaler_update(t->scaler));
    count_step<<<1, 1, 0, t->stream>>>(t->step);
    must(cudaGetLastError());
}

static void replay_steps(const training *t)
{
    /* The first step allocates what the scaler needs for these gradients; it is not captured. */
    enqueue_step(t);
    must(cudaStreamSynchronize(t->stream));

    cudaGraph_t graph;
    cudaGraphExec_t captured;
    must(cudaStreamBeginCapture(t->stream, cudaStreamCaptureModeGlobal));
    enqueue_step(t);
    must(cudaStreamEndCapture(t->stream, &graph));
    must(cudaGraphInstantiate(&captured, graph, 0));
    for (int step = 1; step < STEPS; step++)
        must(cudaGraphLaunch(captured, t->stream));

    /* Now it waits. */
    must(cudaStreamSynchronize(t->stream));
    must(cudaGraphExecDestroy(captured));
    must(cudaGraphDestroy(graph));
}

static void train(training *t)
{
    int64_t shape[] = {WEIGHTS};
    DLTensor weights = {}, grads = {};
    weights.data = t->weights;
    grads.data = t->grads;
    weights.device = grads.device = gpu;
    weights.ndim = grads.ndim = 1;
    weights.shape = grads.shape = shape;
    weights.dtype = GSC_FLOAT32;
    grads.dtype = GSC_FLOAT16;
    DLTensor *const params[] = {&weights}, *const gradients[] = {&grads};
    gsc_cuda_param_group group = gsc_cuda_param_group_default_adam(params, gradients, 1, 0.01);
    group.eps = 1e-12; /* below these gradients */
    gsc_cuda_optim *optim;
    must(gsc_cuda_optim_create_adamw(&group, 1, &optim));
    must(gsc_cuda_optim_set_stream(optim, t->stream));
    t->optimizer = gsc_cuda_optim_optimizer(optim);

    gsc_scaler_options options = gsc_scaler_options_default();
    options.device = gpu;
    options.backend = gsc_cuda_backend();
    options.allow_fp16_grads = true; /* they are read, not unscaled in place: nothing underflows */
    must(gsc_scaler_create(&options, &t->scaler));
    must(gsc_scaler_set_stream(t->scaler, gpu, t->stream));
    DLTensor scale;
    must(gsc_scaler_scale_view(t->scaler, gpu, &scale));
    t->scale = (const float *)scale.data;

    replay_steps(t);

    gsc_scaler_state state;
    gsc_scaler_stats stats;
    must(gsc_scaler_state_dict(t->scaler, &state)); /* brings the host's numbers up to date */
    gsc_scaler_get_stats(t->scaler, &stats);
    printf("%lld steps, %lld skipped, scale %g\n", (long long)stats.steps, (long long)stats.skipped_steps, state.scale);
    expect(stats.steps == STEPS - 1 && stats.skipped_steps == 1, "one step was skipped");
    expect(state.scale == 32768, "and the scale backed off once");
    gsc_scaler_destroy(t->scaler);
    gsc_cuda_optim_free(optim);
}

int main()
{
    need_gpus(1);
    training t = {};
    t.weights = device_array<float>(WEIGHTS);
    t.grads = device_array<__half>(WEIGHTS);
    t.step = device_array<int>(1);
    must(cudaDeviceSynchronize()); /* the arrays are zero */
    must(cudaStreamCreate(&t.stream));
    train(&t);
    const float weight = first_value(t.weights);
    printf("weight %g (wanted: 1)\n", (double)weight);
    expect(weight > 0.9f && weight < 1.1f, "half precision brings the gradients through, since they are scaled");
    must(cudaStreamDestroy(t.stream));
    must(cudaFree(t.weights));
    must(cudaFree(t.grads));
    must(cudaFree(t.step));
    return EXIT_SUCCESS;
}
