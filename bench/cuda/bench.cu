/* SPDX-License-Identifier: Apache-2.0 */
/* bench.cu: make bench-cuda. What the module's work takes on this GPU, beside the least that it needs: copying the same
 * bytes. NOT YET RUN ON A GPU: compiled by nvcc alone.
 *
 * Exit status 0: every bar is held; 1: one is missed, or a call failed; 77: there is no GPU. */
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include <gradscaler/cuda.h>
#include <gradscaler/gradscaler.h>

#include "cuda_example.h"

namespace
{

const DLDevice gpu = {kDLCUDA, 0};
const int rounds = 21, quick_rounds = 3;

/* Milliseconds that the device needs for one run of the work: the median over the rounds, of `repeats` runs each. */
double measure(cudaStream_t stream, int round_count, int repeats, const std::function<void()> &work)
{
    cudaEvent_t begin, end;
    must(cudaEventCreate(&begin));
    must(cudaEventCreate(&end));
    work(); /* memory, caches, clocks */
    std::vector<double> times;
    for (int round = 0; round < round_count; round++) {
        must(cudaEventRecord(begin, stream));
        for (int i = 0; i < repeats; i++)
            work();
        must(cudaEventRecord(end, stream));
        must(cudaEventSynchronize(end));
        float milliseconds;
        must(cudaEventElapsedTime(&milliseconds, begin, end));
        times.push_back((double)milliseconds / repeats);
    }
    must(cudaEventDestroy(begin));
    must(cudaEventDestroy(end));
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}

bool all_held = true;

void print_row(const char *work, double milliseconds, double reference, const char *what)
{
    printf("%-58s %10.4f ms  %5.2f x %s\n", work, milliseconds, milliseconds / reference, what);
}

void print_bar(const char *claim, bool held)
{
    all_held = all_held && held;
    printf("    bar: %s: %s\n", claim, held ? "held" : "MISSED");
}

/* Gradients of one dtype, in one piece of memory or each apart, and a scaler whose scale does not change. */
struct gradients {
    std::vector<DLTensor> tensors;
    std::vector<int64_t> counts;
    std::vector<void *> memory;
    gsc_optimizer optimizer = {};
    gsc_scaler *scaler = NULL;
    cudaStream_t stream;

    gradients(cudaStream_t on, size_t tensor_count, int64_t elements, DLDataType dtype)
        : tensors(tensor_count), counts(tensor_count, elements), stream(on)
    {
        for (size_t i = 0; i < tensor_count; i++) {
            memory.push_back(device_array<char>((size_t)elements * dtype.bits / 8)); /* zeros */
            tensors[i].data = memory[i];
            tensors[i].device = gpu;
            tensors[i].ndim = 1;
            tensors[i].dtype = dtype;
            tensors[i].shape = &counts[i];
        }
        must(cudaDeviceSynchronize());
        optimizer.self = this;
        optimizer.grad_count = [](void *self) { return ((gradients *)self)->tensors.size(); };
        optimizer.grad = [](void *self, size_t i) { return &((gradients *)self)->tensors[i]; };
        optimizer.step = [](void *, const gsc_step_args *, double *, bool *) { return GSC_OK; };
        optimizer.step_scaled = [](void *, const gsc_step_args *, const gsc_grad_scaling *, double *, bool *) {
            return GSC_OK; /* the scaler's own work is what is timed */
        };
        gsc_scaler_options options = gsc_scaler_options_default();
        options.device = gpu;
        options.backend = gsc_cuda_backend();
        options.allow_fp16_grads = true;
        options.min_scale = options.init_scale = options.max_scale = 65536;
        must(gsc_scaler_create(&options, &scaler));
        must(gsc_scaler_set_stream(scaler, gpu, stream));
    }
    ~gradients()
    {
        gsc_scaler_destroy(scaler);
        for (void *piece : memory)
            cudaFree(piece);
    }
    gradients(const gradients &) = delete;
    gradients &operator=(const gradients &) = delete;

    void unscale_and_update()
    {
        must(gsc_scaler_unscale(scaler, &optimizer));
        must(gsc_scaler_update(scaler));
    }
    void step_and_update(double clip_norm)
    {
        gsc_step_args args = {};
        args.clip_norm = clip_norm;
        gsc_step_result result;
        must(gsc_scaler_step(scaler, &optimizer, &args, &result));
        expect(result.outcome == GSC_PENDING, "step_scaled does not wait");
        must(gsc_scaler_update(scaler));
    }
};

struct dtype_row {
    const char *name;
    DLDataType dtype;
};

/* Unscaling reads and writes each element once, as copying does. */
void bench_bandwidth(cudaStream_t stream, size_t bytes, int round_count, bool judged)
{
    char *from = device_array<char>(bytes), *to = device_array<char>(bytes);
    const double copy = measure(stream, round_count, 10,
                                [&] { must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream)); });
    must(cudaFree(from));
    must(cudaFree(to));
    printf("copy of %zu MiB: %.4f ms, %.0f GB/s read and written\n", bytes >> 20, copy,
           2 * (double)bytes / copy * 1e-6);
    const dtype_row rows[] = {
        {"float32", GSC_FLOAT32}, {"bfloat16", GSC_BFLOAT16}, {"float16", GSC_FLOAT16}, {"float64", GSC_FLOAT64}};
    for (const dtype_row &row : rows) {
        gradients grads(stream, 1, (int64_t)(bytes * 8 / row.dtype.bits), row.dtype);
        const double time = measure(stream, round_count, 10, [&] { grads.unscale_and_update(); });
        char work[100];
        snprintf(work, sizeof work, "unscale + check + update, one %s tensor", row.name);
        print_row(work, time, copy, "copy");
        if (judged)
            print_bar("at least 0.9 of the copy's bandwidth", copy / time >= 0.9);
        const double check = measure(stream, round_count, 10, [&] { grads.step_and_update(0); });
        snprintf(work, sizeof work, "check alone (step_scaled) + update, one %s tensor", row.name);
        print_row(work, check, copy, "copy");
        const double norm = measure(stream, round_count, 10, [&] { grads.step_and_update(1); });
        snprintf(work, sizeof work, "check + norm + clip (step_scaled) + update, %s", row.name);
        print_row(work, norm, copy, "copy");
    }
}

void bench_many(cudaStream_t stream, int round_count)
{
    gradients one(stream, 1, 640000, GSC_FLOAT32), many(stream, 10000, 64, GSC_FLOAT32);
    const double single = measure(stream, round_count, 20, [&] { one.unscale_and_update(); });
    const double spread = measure(stream, round_count, 20, [&] { many.unscale_and_update(); });
    print_row("unscale + check + update, 1 x 640,000 float32", single, single, "itself");
    print_row("the same, 10,000 x 64", spread, single, "one tensor");

    /* The host looks at 10,000 tensors for each of these calls; in a graph only the device's time is left. */
    const auto captured = [&](gradients &grads) {
        cudaGraph_t graph;
        cudaGraphExec_t step;
        must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
        grads.unscale_and_update();
        must(cudaStreamEndCapture(stream, &graph));
        must(cudaGraphInstantiate(&step, graph, 0));
        const double time = measure(stream, round_count, 20, [&] { must(cudaGraphLaunch(step, stream)); });
        must(cudaGraphExecDestroy(step));
        must(cudaGraphDestroy(graph));
        return time;
    };
    const double single_graph = captured(one), spread_graph = captured(many);
    print_row("captured: 1 x 640,000", single_graph, single, "one tensor, not captured");
    print_row("captured: 10,000 x 64", spread_graph, single_graph, "one tensor, captured");
    print_bar("10,000 tensors take at most 2 x the time of one", spread <= 2 * single);
}

/* A capture refuses whatever waits for the device: that it succeeds is the proof. */
void bench_captured_step(cudaStream_t stream, int round_count)
{
    const int64_t elements = 10000000;
    float *weights = device_array<float>((size_t)elements), *grads = device_array<float>((size_t)elements);
    must(cudaDeviceSynchronize());
    DLTensor weight = {}, grad = {};
    weight.data = weights;
    grad.data = grads;
    weight.device = grad.device = gpu;
    weight.ndim = grad.ndim = 1;
    weight.shape = grad.shape = (int64_t *)&elements;
    weight.dtype = grad.dtype = GSC_FLOAT32;
    DLTensor *const params[] = {&weight}, *const gradient[] = {&grad};
    const gsc_cuda_param_group group = gsc_cuda_param_group_default_adam(params, gradient, 1, 1e-3);
    gsc_cuda_optim *optim;
    must(gsc_cuda_optim_create_adamw(&group, 1, &optim));
    must(gsc_cuda_optim_set_stream(optim, stream));
    gsc_scaler_options options = gsc_scaler_options_default();
    options.device = gpu;
    options.backend = gsc_cuda_backend();
    gsc_scaler *scaler;
    must(gsc_scaler_create(&options, &scaler));
    must(gsc_scaler_set_stream(scaler, gpu, stream));
    const auto step = [&] {
        gsc_step_args args = {};
        args.clip_norm = 1;
        must(gsc_scaler_step(scaler, gsc_cuda_optim_optimizer(optim), &args, NULL));
        must(gsc_scaler_update(scaler));
    };
    const double direct = measure(stream, round_count, 10, step);

    cudaGraph_t graph;
    cudaGraphExec_t captured;
    must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    step();
    must(cudaStreamEndCapture(stream, &graph));
    must(cudaGraphInstantiate(&captured, graph, 0));
    const double replayed = measure(stream, round_count, 10, [&] { must(cudaGraphLaunch(captured, stream)); });
    must(cudaStreamSynchronize(stream));
    print_row("check + norm + clip + AdamW + update, 10 M float32", direct, direct, "itself");
    print_row("the same, captured and replayed", replayed, direct, "not captured");
    gsc_scaler_state state;
    gsc_scaler_stats stats;
    must(gsc_scaler_state_dict(scaler, &state));
    gsc_scaler_get_stats(scaler, &stats);
    const int64_t steps = 2 * (1 + 10 * (int64_t)round_count);
    print_bar("no host synchronisation in a captured step, and each replay counts", stats.steps == steps);

    must(cudaGraphExecDestroy(captured));
    must(cudaGraphDestroy(graph));
    gsc_scaler_destroy(scaler);
    gsc_cuda_optim_free(optim);
    must(cudaFree(weights));
    must(cudaFree(grads));
}

} // namespace

int main(int argc, char **argv)
{
    const bool quick = argc == 2 && strcmp(argv[1], "--quick") == 0;
    if (argc > 1 && !quick) {
        fprintf(stderr, "usage: bench-cuda [--quick]\n");
        return 2;
    }
    need_gpus(1);
    cudaDeviceProp properties;
    must(cudaGetDeviceProperties(&properties, 0));
    printf("%s, compute capability %d.%d, %d multiprocessors; gradscaler %s\n\n", properties.name, properties.major,
           properties.minor, properties.multiProcessorCount, gsc_version());
    cudaStream_t stream;
    must(cudaStreamCreate(&stream));
    const int round_count = quick ? quick_rounds : rounds;
    bench_bandwidth(stream, quick ? (size_t)1 << 24 : (size_t)1 << 30, round_count, !quick);
    printf("\n");
    bench_many(stream, round_count);
    printf("\n");
    bench_captured_step(stream, round_count);
    must(cudaStreamDestroy(stream));
    return all_held ? EXIT_SUCCESS : EXIT_FAILURE;
}
