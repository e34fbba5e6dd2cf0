/* SPDX-License-Identifier: Apache-2.0 */
/* Raw device pointers and own kernels: what it takes to put a scaler into a training loop on a GPU that exists already.
 * The five places are numbered. NOT YET RUN ON A GPU: compiled by nvcc alone.
 *
 * The loop draws WEIGHTS weights towards 1. Its gradients are about 1e-8, which half precision rounds to zero: without
 * scaling nothing is learned.
 *
 *     nvcc cuda_raw.cu $(pkg-config --cflags --libs gradscaler-cuda) */
#include <cuda_fp16.h>

#include <gradscaler/cuda.h>
#include <gradscaler/gradscaler.h>

#include "cuda_example.h"

enum { WEIGHTS = 100000, STEPS = 200, BROKEN_STEP = 100, THREADS = 256 };

/* The gradient of 1e-8 * (weight - 1)^2 / 2, times the scale, as half precision has it. */
__global__ void backward(const float *weights, float *grads, const float *scale, bool broken)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < WEIGHTS)
        grads[i] = __half2float(__float2half(*scale * 1e-8f * (weights[i] - 1)));
    if (broken && i == 77)
        grads[i] = INFINITY;
}

__global__ void sgd(float *weights, const float *grads)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < WEIGHTS)
        weights[i] -= 1e7f * grads[i];
}

static double train(bool enabled)
{
    const int blocks = (WEIGHTS + THREADS - 1) / THREADS;
    float *weights = device_array<float>(WEIGHTS), *grads = device_array<float>(WEIGHTS);
    cudaStream_t stream;
    must(cudaStreamCreate(&stream));
    must(cudaDeviceSynchronize()); /* the arrays are zero */

    /* 1: a scaler for this device, and the stream of the loop. */
    const DLDevice device = {kDLCUDA, 0};
    gsc_scaler_options options = gsc_scaler_options_default();
    options.device = device;
    options.backend = gsc_cuda_backend();
    options.enabled = enabled;
    gsc_scaler *scaler;
    must(gsc_scaler_create(&options, &scaler));
    must(gsc_scaler_set_stream(scaler, device, stream));
    /* 2: where the scale is on the device: what the host knows of it may lag. */
    DLTensor scale;
    must(gsc_scaler_scale_view(scaler, device, &scale));
    /* 3: where the gradients are. */
    const gsc_buffer buffers[] = {{grads, WEIGHTS, GSC_FLOAT32, "weights"}};

    for (int step = 0; step < STEPS; step++) {
        const bool broken = enabled && step == BROKEN_STEP;
        backward<<<blocks, THREADS, 0, stream>>>(weights, grads, (const float *)scale.data, broken);
        must(cudaGetLastError());

        /* 4: unscales, checks, decides; waits for the verdict. (A step that takes it on the device: cuda_graph.cu.) */
        gsc_step_result result;
        must(gsc_scaler_step_buffers(scaler, weights, buffers, 1, NULL, &result));
        if (result.outcome != GSC_SKIPPED_OVERFLOW)
            sgd<<<blocks, THREADS, 0, stream>>>(weights, grads);
        must(cudaGetLastError());
        /* 5: adapts the scale, on the device. */
        must(gsc_scaler_update(scaler));

        if (broken) {
            gsc_overflow hit;
            expect(result.outcome == GSC_SKIPPED_OVERFLOW, "the broken step is skipped");
            expect(gsc_scaler_overflows(scaler, (const gsc_optimizer *)weights, &hit, 1) == 1, "and reported");
            printf("  step %d skipped: %llu infinities in the gradient of '%s', the first at %llu\n", step,
                   (unsigned long long)hit.inf_count, hit.name, (unsigned long long)hit.first_index);
            expect(hit.inf_count == 1 && hit.first_index == 77, "with its place");
        }
    }
    must(cudaStreamSynchronize(stream));
    const double weight = (double)first_value(weights);
    printf("  weight %g (wanted: 1)\n", weight);

    gsc_scaler_destroy(scaler);
    must(cudaStreamDestroy(stream));
    must(cudaFree(weights));
    must(cudaFree(grads));
    return weight;
}

int main()
{
    need_gpus(1);
    printf("without scaling:\n");
    expect(train(false) == 0, "half precision loses the gradients");
    printf("with scaling:\n");
    expect(train(true) > 0.9, "the scaler brings them through");
    return EXIT_SUCCESS;
}
