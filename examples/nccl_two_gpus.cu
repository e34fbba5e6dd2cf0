/* SPDX-License-Identifier: Apache-2.0 */
/* Two GPUs, a rank each: gradients are averaged by NCCL, and so is the scaler's decision: an overflow on one rank skips
 * the step on both, and neither host waits for it. NOT YET RUN ON A GPU: compiled by nvcc alone.
 *
 *     nvcc nccl_two_gpus.cu $(pkg-config --cflags --libs gradscaler-cuda) -lnccl */
#include <nccl.h>

#include <pthread.h>

#include <gradscaler/cuda.h>
#include <gradscaler/gradscaler.h>

#include "cuda_example.h"

enum { RANKS = 2, WEIGHTS = 100000, STEPS = 200, BROKEN_STEP = 100, THREADS = 256 };

static void must(ncclResult_t result)
{
    if (result == ncclSuccess)
        return;
    fprintf(stderr, "NCCL: %s\n", ncclGetErrorString(result));
    exit(EXIT_FAILURE);
}

/* Each rank draws the weights to a target of its own; divided by the ranks before the sum (docs/ranks.md). */
__global__ void backward(const float *weights, float *grads, const float *scale, float target)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < WEIGHTS)
        grads[i] = *scale * (weights[i] - target) / RANKS;
}

/* What goes wrong on one rank alone, after the gradients were averaged. */
__global__ void spoil(float *grads) { grads[77] = INFINITY; }

typedef struct rank {
    int number;
    ncclComm_t comm;
    pthread_t thread;
    float *weights, *grads;
    cudaStream_t stream;
    gsc_scaler *scaler;
    gsc_cuda_optim *optim;
    gsc_scaler_stats stats;
    double scale;
    float weight;
} rank;

static void train(rank *r)
{
    DLTensor scale;
    must(gsc_scaler_scale_view(r->scaler, {kDLCUDA, r->number}, &scale));
    for (int step = 0; step < STEPS; step++) {
        const bool broken = step == BROKEN_STEP && r->number == 1;
        backward<<<(WEIGHTS + THREADS - 1) / THREADS, THREADS, 0, r->stream>>>(
            r->weights, r->grads, (const float *)scale.data, (float)r->number);
        must(cudaGetLastError());
        must(ncclAllReduce(r->grads, r->grads, WEIGHTS, ncclFloat, ncclSum, r->comm, r->stream));
        if (broken)
            spoil<<<1, 1, 0, r->stream>>>(r->grads);
        must(cudaGetLastError());
        must(gsc_scaler_step(r->scaler, gsc_cuda_optim_optimizer(r->optim), NULL, NULL));
        must(gsc_scaler_update(r->scaler));
    }
    gsc_scaler_state state;
    must(gsc_scaler_state_dict(r->scaler, &state)); /* waits, and brings the host's numbers up to date */
    r->scale = state.scale;
    gsc_scaler_get_stats(r->scaler, &r->stats);
    r->weight = first_value(r->weights);
}

static void *run_rank(void *argument)
{
    rank *r = (rank *)argument;
    const DLDevice device = {kDLCUDA, r->number};
    must(cudaSetDevice(r->number));
    must(cudaStreamCreate(&r->stream));
    r->weights = device_array<float>(WEIGHTS);
    r->grads = device_array<float>(WEIGHTS);
    must(cudaDeviceSynchronize()); /* the arrays are zero */

    int64_t shape[] = {WEIGHTS};
    DLTensor weights = {}, grads = {};
    weights.data = r->weights;
    grads.data = r->grads;
    weights.device = grads.device = device;
    weights.ndim = grads.ndim = 1;
    weights.shape = grads.shape = shape;
    weights.dtype = grads.dtype = GSC_FLOAT32;
    DLTensor *const params[] = {&weights}, *const gradients[] = {&grads};
    const gsc_cuda_param_group group = gsc_cuda_param_group_default_sgd(params, gradients, 1, 0.1);
    must(gsc_cuda_optim_create_sgd(&group, 1, &r->optim));

    gsc_comm comm = gsc_nccl_comm(r->comm, NULL); /* on the scaler's stream */
    gsc_scaler_options options = gsc_scaler_options_default();
    options.device = device;
    options.backend = gsc_cuda_backend();
    options.comm = &comm;
    must(gsc_scaler_create(&options, &r->scaler));
    must(gsc_scaler_set_stream(r->scaler, device, r->stream));
    must(gsc_cuda_optim_set_stream(r->optim, r->stream));
    train(r);
    gsc_scaler_destroy(r->scaler);
    gsc_nccl_comm_free(&comm);
    gsc_cuda_optim_free(r->optim);
    must(cudaFree(r->weights));
    must(cudaFree(r->grads));
    must(cudaStreamDestroy(r->stream));
    return NULL;
}

int main()
{
    need_gpus(RANKS);
    rank ranks[RANKS] = {};
    ncclComm_t comms[RANKS];
    const int devices[RANKS] = {0, 1};
    must(ncclCommInitAll(comms, RANKS, devices));
    for (int i = 0; i < RANKS; i++) {
        ranks[i].number = i;
        ranks[i].comm = comms[i];
        expect(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]) == 0, "a thread per rank");
    }
    for (int i = 0; i < RANKS; i++)
        expect(pthread_join(ranks[i].thread, NULL) == 0, "and each comes to its end");
    for (int i = 0; i < RANKS; i++) {
        printf("rank %d: %lld steps, %lld skipped, scale %g, weight %g\n", i, (long long)ranks[i].stats.steps,
               (long long)ranks[i].stats.skipped_steps, ranks[i].scale, (double)ranks[i].weight);
        expect(ranks[i].stats.skipped_steps == 1, "the overflow on rank 1 skips one step on both");
        expect(ranks[i].weight == ranks[0].weight, "and the weights stay the same");
        must(ncclCommDestroy(comms[i]));
    }
    expect(ranks[0].weight > 0.49f && ranks[0].weight < 0.51f, "they are between the targets");
    return EXIT_SUCCESS;
}
