/* SPDX-License-Identifier: Apache-2.0 */
/* module_rig.h: gradients that exist twice, on the CPU and on a device of the stand-in, to compare what is done to
 * them.
 *
 *     twins both;
 *     twins_init(&both);
 *     char *memory = twins_add(&both, GSC_FLOAT32, 0, 1, (int64_t[]){100}, NULL, 0);      // fill it in
 *     twins_upload(&both);
 *     … gsc_unscale_grads(both.cpu, both.count, …); gsc_scaler_unscale(scaler, &both.optimizer) …
 *     twins_assert_equal(&both);                          // every byte, those around the elements, too
 *     twins_free(&both);
 */
#ifndef GSC_TESTS_MODULE_RIG_H
#define GSC_TESTS_MODULE_RIG_H

#include <stdlib.h>

#include "asserts.h"
#include "gradscaler/cuda.h"
#include "gradscaler/gradscaler.h"
#include "layouts.h"
#include "standin/standin.h"

typedef struct twin {
    char *host, *device; /* equal memory that has the elements; NULL: it is another tensor's */
    size_t bytes;
    DLTensor cpu, gpu;
    int64_t shape[4], strides[4];
} twin;

typedef struct twins {
    gsc_optimizer optimizer; /* of the tensors on devices */
    size_t count, capacity;
    twin *list;
    DLTensor **cpu, **gpu; /* filled in by twins_upload */
    int scaled_steps, steps;
    gsc_grad_scaling scaling; /* of the last step_scaled */
} twins;

static inline size_t twins_grad_count(void *self) { return ((twins *)self)->count; }
static inline DLTensor *twins_grad(void *self, size_t index) { return &((twins *)self)->list[index].gpu; }

static inline gsc_status twins_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)args, (void)value, (void)has_value;
    ((twins *)self)->steps++;
    return GSC_OK;
}

static inline gsc_status twins_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling,
                                           double *value, bool *has_value)
{
    (void)args, (void)value, (void)has_value;
    ((twins *)self)->scaled_steps++;
    ((twins *)self)->scaling = *scaling;
    return GSC_OK;
}

static inline void twins_init(twins *both)
{
    *both = (twins){0};
    both->optimizer =
        (gsc_optimizer){.self = both, .grad_count = twins_grad_count, .grad = twins_grad, .step = twins_step};
}

static inline twin *twins_append(twins *both)
{
    if (both->count == both->capacity) {
        both->capacity = both->capacity == 0 ? 16 : 2 * both->capacity;
        both->list = realloc(both->list, both->capacity * sizeof *both->list);
        assert_non_null(both->list);
    }
    twin *added = &both->list[both->count++];
    *added = (twin){0};
    return added;
}

/* Appends a tensor. strides NULL: compact. before: bytes in front of the lowest element, a multiple of its size. The
 * memory that is returned begins there, is filled with ones, and is to be filled in before twins_upload. */
static inline char *twins_add(twins *both, DLDataType dtype, int device, int ndim, const int64_t *shape,
                              const int64_t *strides, size_t before)
{
    twin *added = twins_append(both);
    const int64_t size = dtype.bits / 8;
    int64_t low = 0, high = 0, compact = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        added->shape[d] = shape[d];
        added->strides[d] = strides ? strides[d] : compact;
        compact *= shape[d];
        *(added->strides[d] < 0 ? &low : &high) += (shape[d] - 1) * added->strides[d];
    }
    added->bytes = before + (size_t)((high - low + 1) * size) + 16;
    added->host = malloc(added->bytes);
    added->device = standin_alloc(device, added->bytes);
    assert_non_null(added->host);
    memset(added->host, 1, added->bytes);
    added->cpu = tensor_over(added->host + before - low * size, dtype, ndim, NULL, NULL);
    added->gpu = tensor_over(added->device + before - low * size, dtype, ndim, NULL, NULL);
    added->gpu.device = (DLDevice){kDLCUDA, device};
    return added->host + before;
}

/* Appends elements [first, first + length) of the memory of tensor `whole`, which is compact and then shortened to
 * less. Each allocation makes the stand-in slower, so many tensors should share one. */
static inline void twins_view(twins *both, size_t whole, int64_t first, int64_t length)
{
    twin *part = twins_append(both);
    const twin *memory = &both->list[whole];
    const size_t bytes = (size_t)first * (memory->cpu.dtype.bits / 8);
    part->cpu = memory->cpu;
    part->gpu = memory->gpu;
    part->cpu.data = (char *)memory->cpu.data + bytes;
    part->gpu.data = (char *)memory->gpu.data + bytes;
    part->shape[0] = length;
    part->strides[0] = 1;
}

/* Cuts the last tensor, which is compact, into tensors of `length` elements. */
static inline void twins_cut(twins *both, int64_t length)
{
    const size_t whole = both->count - 1;
    const int64_t count = both->list[whole].shape[0];
    both->list[whole].shape[0] = length < count ? length : count;
    for (int64_t first = length; first < count; first += length)
        twins_view(both, whole, first, count - first < length ? count - first : length);
}

static inline void twins_upload(twins *both)
{
    both->cpu = realloc(both->cpu, both->count * sizeof *both->cpu);
    both->gpu = realloc(both->gpu, both->count * sizeof *both->gpu);
    for (size_t i = 0; i < both->count; i++) {
        twin *one = &both->list[i];
        one->cpu.shape = one->gpu.shape = one->shape;
        one->cpu.strides = one->gpu.strides = one->strides;
        both->cpu[i] = &one->cpu;
        both->gpu[i] = &one->gpu;
        if (one->host)
            standin_upload(one->device, one->host, one->bytes);
    }
}

/* After the work has run: all bytes are equal. */
static inline void twins_assert_equal(const twins *both)
{
    for (size_t i = 0; i < both->count; i++) {
        const twin *one = &both->list[i];
        if (!one->host)
            continue;
        char *found = malloc(one->bytes);
        assert_non_null(found);
        standin_download(found, one->device, one->bytes);
        for (size_t k = 0; k < one->bytes; k++)
            if (found[k] != one->host[k])
                fail_msg("tensor %zu of %zu (seed %llu): byte %zu of %zu is %02x instead of %02x", i, both->count,
                         (unsigned long long)standin_seed_now(), k, one->bytes, (unsigned char)found[k],
                         (unsigned char)one->host[k]);
        free(found);
    }
}

static inline void twins_free(twins *both)
{
    for (size_t i = 0; i < both->count; i++) {
        free(both->list[i].host);
        if (both->list[i].device)
            standin_free(both->list[i].device);
    }
    free(both->list);
    free(both->cpu);
    free(both->gpu);
}

/* A scaler on device 0 that takes float16 gradients. */
static inline gsc_scaler *device_scaler(double scale)
{
    gsc_scaler *scaler;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.device = (DLDevice){kDLCUDA, 0};
    options.backend = gsc_cuda_backend();
    options.init_scale = scale;
    options.allow_fp16_grads = true;
    assert_ok(gsc_scaler_create(&options, &scaler));
    return scaler;
}

static inline gsc_scaler *cpu_scaler(double scale)
{
    gsc_scaler *scaler;
    gsc_scaler_options options = gsc_scaler_options_default();
    options.init_scale = scale;
    options.allow_fp16_grads = true;
    assert_ok(gsc_scaler_create(&options, &scaler));
    return scaler;
}

/* At the end of each test: no misuse of the device, nothing left over. */
static inline int assert_clean(void **state)
{
    (void)state;
    standin_live live = standin_live_now();
    if (standin_errors() > 0)
        fail_msg("the stand-in has found: %s", standin_last_error());
    assert_int_equal(live.device_allocations + live.host_allocations + live.streams + live.events + live.modules +
                         live.graphs + live.graph_execs + live.retains,
                     0);
    return 0;
}

#endif
