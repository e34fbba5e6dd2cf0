/* SPDX-License-Identifier: Apache-2.0 */
/* cuda_example.h: how the examples for GPUs check; see example.h. */
#ifndef GSC_EXAMPLES_CUDA_EXAMPLE_H
#define GSC_EXAMPLES_CUDA_EXAMPLE_H

#include <cuda_runtime.h>

#include "example.h"

static inline void must(cudaError_t error)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
    exit(EXIT_FAILURE);
}

/* Leaves the example out, with what CTest takes for "skipped", where there are fewer GPUs. */
static inline void need_gpus(int wanted)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count >= wanted)
        return;
    printf("left out: %d GPU%s needed, %d found (%s)\n", wanted, wanted == 1 ? " is" : "s are", count,
           cudaGetErrorString(error));
    exit(77);
}

template <typename T> T *device_array(size_t count)
{
    void *memory;
    must(cudaMalloc(&memory, count * sizeof(T)));
    must(cudaMemset(memory, 0, count * sizeof(T)));
    return (T *)memory;
}

static inline float first_value(const float *on_device)
{
    float value;
    must(cudaMemcpy(&value, on_device, sizeof value, cudaMemcpyDeviceToHost)); /* waits */
    return value;
}

#endif
