/* SPDX-License-Identifier: Apache-2.0 */
/* optim_rig.h: the same optimizer twice, on the CPU and on a device, with the same parameters and
 * gradients. */
#ifndef GSC_TESTS_OPTIM_RIG_H
#define GSC_TESTS_OPTIM_RIG_H

#include <stdlib.h>

#include "base/dtype_kind.h"
#include "gradscaler/cuda.h"
#include "optim_rules.h"
#include "standin/standin.h"

static int twins_device; /* where the device's side lies */

/* A parameter of one dimension. */
typedef struct twin_spec {
    size_t count;
    DLDataType dtype, grad_dtype;
    size_t shift, grad_shift; /* elements that parameter and gradient lie after an aligned address */
} twin_spec;

typedef struct twin {
    twin_spec spec;
    gsc_tensor *cpu;
    int64_t shape;
    DLTensor param, grad; /* on the device */
} twin;

typedef struct twins {
    size_t count;
    twin *all;
    gsc_tensor **cpu_params;
    DLTensor **params, **grads;
    gsc_optim *cpu;
    gsc_cuda_optim *gpu;
    /* On the device; few allocations, since the stand-in protects each around each operation. */
    char *param_memory, *grad_memory;
    size_t param_bytes, grad_bytes;
    unsigned char *expected, *expected_grads; /* what is in them, as far as the optimizer leaves it alone */
    double *multiplier64;
    float *multiplier, *found_inf;
} twins;

typedef gsc_status cuda_create_function(const gsc_cuda_param_group *groups, size_t n, gsc_cuda_optim **out);

static inline cuda_create_function *cuda_create_of(create_function *create)
{
    if (create == gsc_optim_create_sgd)
        return gsc_cuda_optim_create_sgd;
    return create == gsc_optim_create_adam ? gsc_cuda_optim_create_adam : gsc_cuda_optim_create_adamw;
}

static inline gsc_cuda_param_group cuda_group_of(const gsc_param_group *group, DLTensor *const *params,
                                                 DLTensor *const *grads, size_t count)
{
    return (gsc_cuda_param_group){.params = params,
                                  .grads = grads,
                                  .count = count,
                                  .lr = group->lr,
                                  .weight_decay = group->weight_decay,
                                  .momentum = group->momentum,
                                  .dampening = group->dampening,
                                  .nesterov = group->nesterov,
                                  .beta1 = group->beta1,
                                  .beta2 = group->beta2,
                                  .eps = group->eps};
}

static inline size_t bytes_of_tensor(const DLTensor *tensor)
{
    size_t bytes = tensor->dtype.bits / 8u;
    for (int32_t d = 0; d < tensor->ndim; d++)
        bytes *= (size_t)tensor->shape[d];
    return bytes;
}

static inline void *address_of_tensor(const DLTensor *tensor) { return (char *)tensor->data + tensor->byte_offset; }

static inline DLTensor tensor_on_device(int device, void *memory, DLDataType dtype, int64_t *shape, size_t shift)
{
    return (DLTensor){.data = memory,
                      .device = {kDLCUDA, device},
                      .ndim = 1,
                      .dtype = dtype,
                      .shape = shape,
                      .byte_offset = shift * dtype.bits / 8u};
}

/* Bytes that elements take with what is before them. */
static inline size_t room_for(size_t elements, DLDataType dtype) { return (elements * dtype.bits / 8u / 64 + 1) * 64; }

static inline size_t param_room(const twin_spec *spec) { return room_for(spec->count + spec->shift, spec->dtype); }

static inline size_t grad_room(const twin_spec *spec)
{
    return room_for(spec->count + spec->grad_shift, spec->grad_dtype);
}

static inline void make_twin(twin *it, size_t index, void *memory, void *grad_memory)
{
    const twin_spec *spec = &it->spec;
    it->cpu = new_param(spec->dtype, spec->count, "w");
    for (size_t i = 0; i < spec->count; i++)
        element_set(gsc_tensor_data(it->cpu), i, sample(99, index, i));
    it->shape = (int64_t)spec->count;
    it->param = tensor_on_device(twins_device, memory, spec->dtype, &it->shape, spec->shift);
    it->grad = tensor_on_device(twins_device, grad_memory, spec->grad_dtype, &it->shape, spec->grad_shift);
    if (spec->count > 0)
        standin_upload(address_of_tensor(&it->param), gsc_tensor_data(it->cpu)->data, bytes_of_tensor(&it->param));
}

static inline void *filled_memory(size_t bytes, unsigned char **copy)
{
    void *memory = standin_alloc(twins_device, bytes);
    *copy = malloc(bytes);
    assert_non_null(*copy);
    memset(*copy, 0xa5, bytes);
    standin_upload(memory, *copy, bytes);
    return memory;
}

static inline void make_twins(twins *t, const twin_spec *specs)
{
    t->param_bytes = t->grad_bytes = 64;
    for (size_t k = 0; k < t->count; k++) {
        t->param_bytes += param_room(&specs[k]);
        t->grad_bytes += grad_room(&specs[k]);
    }
    t->param_memory = filled_memory(t->param_bytes, &t->expected);
    t->grad_memory = filled_memory(t->grad_bytes, &t->expected_grads);
    t->multiplier64 = standin_alloc(twins_device, 2 * sizeof(double));
    t->multiplier = (float *)(t->multiplier64 + 1);
    t->found_inf = t->multiplier + 1;
    char *memory = t->param_memory, *grad_memory = t->grad_memory;
    for (size_t k = 0; k < t->count; k++) {
        t->all[k].spec = specs[k];
        make_twin(&t->all[k], k, memory, grad_memory);
        memory += param_room(&specs[k]);
        grad_memory += grad_room(&specs[k]);
        t->cpu_params[k] = t->all[k].cpu;
        t->params[k] = &t->all[k].param;
    }
}

static inline twins *twins_create(const rule_case *rule, const twin_spec *specs, size_t count)
{
    twins *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->count = count;
    t->all = calloc(count, sizeof *t->all);
    t->cpu_params = calloc(count, sizeof *t->cpu_params);
    t->params = calloc(count, sizeof *t->params);
    t->grads = calloc(count, sizeof *t->grads);
    assert_true(t->all && t->cpu_params && t->params && t->grads);
    make_twins(t, specs);
    gsc_param_group group = rule->group;
    group.params = t->cpu_params;
    group.count = count;
    assert_ok(rule->create(&group, 1, &t->cpu));
    const gsc_cuda_param_group cuda_group = cuda_group_of(&group, t->params, t->grads, count);
    assert_ok(cuda_create_of(rule->create)(&cuda_group, 1, &t->gpu));
    return t;
}

static inline void twins_free(twins *t)
{
    gsc_optim_free(t->cpu);
    gsc_cuda_optim_free(t->gpu);
    for (size_t k = 0; k < t->count; k++)
        gsc_tensor_free(t->all[k].cpu);
    standin_free(t->param_memory);
    standin_free(t->grad_memory);
    standin_free(t->multiplier64);
    free(t->expected);
    free(t->expected_grads);
    free(t->all);
    free(t->cpu_params);
    free(t->params);
    free(t->grads);
    free(t);
}

/* Gives a parameter this gradient, rounded to the device's dtype, on both sides. */
static inline void set_grad(twins *t, size_t k, const double *values)
{
    twin *it = &t->all[k];
    unsigned char *bytes = calloc(it->spec.count + 1, sizeof(double));
    assert_non_null(bytes);
    DLTensor rounded = it->grad;
    rounded.data = bytes;
    rounded.byte_offset = 0;
    if (!gsc_tensor_grad(it->cpu))
        add_grad(it->cpu);
    for (size_t i = 0; i < it->spec.count; i++) {
        element_set(&rounded, i, values[i]);
        element_set(gsc_tensor_grad(it->cpu), i, element_get(&rounded, i));
    }
    if (it->spec.count > 0)
        standin_upload(address_of_tensor(&it->grad), bytes, bytes_of_tensor(&it->grad));
    memcpy(t->expected_grads + ((char *)address_of_tensor(&it->grad) - t->grad_memory), bytes,
           bytes_of_tensor(&it->grad));
    free(bytes);
    t->grads[k] = &it->grad;
}

static inline void drop_grad(twins *t, size_t k)
{
    gsc_tensor_zero_grad(t->all[k].cpu);
    t->grads[k] = NULL;
}

/* Ordinary numbers times `scale`, and here and there one that is not. */
static inline void set_grads(twins *t, size_t step, double scale)
{
    static const double special[] = {0, -0.0, 0x1p-140, -0x1p-126, 0x1p-24, 60000};
    for (size_t k = 0; k < t->count; k++) {
        const size_t count = t->all[k].spec.count;
        double *values = calloc(count + 1, sizeof *values);
        assert_non_null(values);
        for (size_t i = 0; i < count; i++)
            values[i] = (i + step) % 13 == 5 ? special[(i + step) / 13 % 6] : sample(step, k, i) * scale;
        set_grad(t, k, values);
        free(values);
    }
}

/* The same bits; and finite ones, since a NaN would hide what comes after it. */
static inline void compare_tensor(const DLTensor *cpu, const DLTensor *gpu, const char *what, size_t k, size_t step)
{
    const size_t bytes = bytes_of_tensor(gpu), size = gpu->dtype.bits / 8u;
    unsigned char *copy = malloc(bytes + 1);
    assert_non_null(copy);
    if (bytes > 0)
        standin_download(copy, address_of_tensor(gpu), bytes);
    DLTensor local = *gpu;
    local.data = copy;
    local.byte_offset = 0;
    for (size_t i = 0; i < bytes / size; i++) {
        const double a = element_get(cpu, i), b = element_get(&local, i);
        if (memcmp((const char *)cpu->data + i * size, copy + i * size, size) != 0 || !isfinite(b))
            fail_msg("step %zu, parameter %zu, %s, element %zu: %a, on the CPU %a (seed %llu)", step, k, what, i, b, a,
                     (unsigned long long)standin_seed_now());
    }
    free(copy);
}

/* The test, or a scaler, has changed gradients. */
static inline void accept_grads(twins *t)
{
    standin_run_all();
    standin_download(t->expected_grads, t->grad_memory, t->grad_bytes);
}

/* Nothing else has changed: gradients, and what lies between parameters. */
static inline void compare_rest(twins *t)
{
    unsigned char *grads = malloc(t->grad_bytes), *params = malloc(t->param_bytes);
    assert_true(grads && params);
    standin_download(grads, t->grad_memory, t->grad_bytes);
    standin_download(params, t->param_memory, t->param_bytes);
    for (size_t k = 0; k < t->count; k++) { /* these were compared with the CPU's */
        const DLTensor *param = &t->all[k].param;
        const size_t start = (size_t)((char *)address_of_tensor(param) - t->param_memory);
        memcpy(t->expected + start, params + start, bytes_of_tensor(param));
    }
    assert_memory_equal(grads, t->expected_grads, t->grad_bytes);
    assert_memory_equal(params, t->expected, t->param_bytes);
    free(grads);
    free(params);
}

/* Runs all work, and compares parameters, states and step counts. */
static inline void compare_twins(twins *t, size_t step)
{
    standin_run_all();
    int64_t *counts = calloc(t->count, sizeof *counts);
    assert_non_null(counts);
    assert_ok(gsc_cuda_optim_get_step_counts(t->gpu, counts));
    for (size_t k = 0; k < t->count; k++) {
        compare_tensor(gsc_tensor_data(t->all[k].cpu), &t->all[k].param, "data", k, step);
        assert_int_equal(counts[k], gsc_optim_get_step_count(t->cpu, k));
        const char *name;
        for (size_t s = 0; (name = gsc_optim_state_name(t->cpu, k, s)); s++) {
            assert_string_equal(gsc_cuda_optim_state_name(t->gpu, k, s), name);
            compare_tensor(gsc_optim_state(t->cpu, k, name), gsc_cuda_optim_state(t->gpu, k, name), name, k, step);
        }
        assert_null(gsc_cuda_optim_state_name(t->gpu, k, gsc_cuda_optim_state_name(t->gpu, k, 1) ? 2 : 1));
    }
    free(counts);
    compare_rest(t);
}

/* What a scaler would hand over. */
typedef struct scaling_tensors {
    DLTensor multiplier, multiplier64, found_inf;
} scaling_tensors;

static int64_t one_element = 1;

static inline gsc_grad_scaling scaling_of(const twins *t, scaling_tensors *tensors, double multiplier, float found_inf,
                                          void *stream)
{
    const float narrow = (float)multiplier;
    standin_upload(t->multiplier, &narrow, sizeof narrow);
    standin_upload(t->multiplier64, &multiplier, sizeof multiplier);
    standin_upload(t->found_inf, &found_inf, sizeof found_inf);
    tensors->multiplier = tensor_on_device(twins_device, t->multiplier, GSC_FLOAT32, &one_element, 0);
    tensors->multiplier64 = tensor_on_device(twins_device, t->multiplier64, GSC_FLOAT64, &one_element, 0);
    tensors->found_inf = tensor_on_device(twins_device, t->found_inf, GSC_FLOAT32, &one_element, 0);
    return (gsc_grad_scaling){.multiplier = NAN,
                              .multiplier_dev = &tensors->multiplier,
                              .multiplier64_dev = &tensors->multiplier64,
                              .found_inf_dev = &tensors->found_inf,
                              .stream = stream};
}

static inline gsc_status step_scaled(const gsc_optimizer *optimizer, const gsc_grad_scaling *scaling)
{
    double value = 0;
    bool has_value = false;
    return optimizer->step_scaled(optimizer->self, &(gsc_step_args){0}, scaling, &value, &has_value);
}

/* One step on both sides, or none where something was found. */
static inline void step_twins(twins *t, double multiplier, float found_inf, void *stream)
{
    scaling_tensors tensors;
    const gsc_grad_scaling scaling = scaling_of(t, &tensors, multiplier, found_inf, stream);
    assert_ok(step_scaled(gsc_cuda_optim_optimizer(t->gpu), &scaling));
    if (found_inf == 0)
        assert_ok(step_scaled(gsc_optim_optimizer(t->cpu), &(gsc_grad_scaling){.multiplier = multiplier}));
    standin_run_all(); /* before the device's scalars change */
}

#endif
