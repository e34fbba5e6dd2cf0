/* SPDX-License-Identifier: Apache-2.0 */
/* scaler_rig.h: a scaler on device 0 and optimizers with gradients there, for tests of the scaler on the module.
 *
 *     rig r;
 *     rig_start(&r, NULL);                              // scale 8, growth interval 2
 *     add_grad(&r.optimizer, 0, GSC_FLOAT32, 4, "w");   // on device 0
 *     set_grad(&r.optimizer, 0, (double[]){8, 16, 0, 8});
 *     assert_ok(gsc_scaler_unscale(r.scaler, &r.optimizer.base));
 *     rig_stop(&r); */
#ifndef GSC_TESTS_SCALER_RIG_H
#define GSC_TESTS_SCALER_RIG_H

#include <stdlib.h>

#include "asserts.h"
#include "elements.h"
#include "gradscaler/cuda.h"
#include "gradscaler/gradscaler.h"
#include "standin/standin.h"

enum { MAX_GRADS = 8, MAX_ELEMENTS = 6000, ON_CPU = -1 };
#define DEVICE ((DLDevice){kDLCUDA, 0})

typedef struct device_grad {
    DLTensor tensor;
    int64_t shape[3], strides[3];
    const char *name;
    bool absent;
} device_grad;

typedef struct device_optimizer {
    gsc_optimizer base;
    device_grad grads[MAX_GRADS];
    size_t count;
    bool failing;
    int steps, scaled_steps; /* calls of each kind, failed ones included */
    gsc_step_args last_args;
    gsc_grad_scaling last_scaling;
} device_optimizer;

static inline size_t optimizer_grad_count(void *self) { return ((device_optimizer *)self)->count; }

static inline DLTensor *optimizer_grad(void *self, size_t index)
{
    device_grad *grad = &((device_optimizer *)self)->grads[index];
    return grad->absent ? NULL : &grad->tensor;
}

static inline const char *optimizer_name(void *self, size_t index)
{
    return ((device_optimizer *)self)->grads[index].name;
}

static inline gsc_status optimizer_status(const device_optimizer *optimizer)
{
    return optimizer->failing ? gsc_fail(GSC_ERR_VALUE, "this step was asked to fail") : GSC_OK;
}

static inline gsc_status optimizer_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    device_optimizer *optimizer = self;
    (void)value, (void)has_value;
    optimizer->steps++;
    optimizer->last_args = *args;
    return optimizer_status(optimizer);
}

static inline gsc_status optimizer_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling,
                                               double *value, bool *has_value)
{
    device_optimizer *optimizer = self;
    optimizer->scaled_steps++;
    optimizer->last_args = *args;
    optimizer->last_scaling = *scaling;
    *value = 5.0;
    *has_value = true;
    return optimizer_status(optimizer);
}

/* For a scale-aware one: optimizer->base.step_scaled = optimizer_step_scaled. */
static inline void optimizer_init(device_optimizer *optimizer)
{
    memset(optimizer, 0, sizeof *optimizer);
    optimizer->base = (gsc_optimizer){.self = optimizer,
                                      .grad_count = optimizer_grad_count,
                                      .grad = optimizer_grad,
                                      .name = optimizer_name,
                                      .step = optimizer_step};
}

static inline size_t bytes_of(const device_grad *grad, size_t elements)
{
    return elements * grad->tensor.dtype.bits / 8;
}

static inline size_t elements_of(const device_grad *grad)
{
    size_t count = 1;
    for (int d = 0; d < grad->tensor.ndim; d++)
        count *= (size_t)grad->tensor.shape[d];
    return count;
}

/* A compact gradient of one dimension. device: its number, or ON_CPU. */
static inline device_grad *add_grad(device_optimizer *optimizer, int device, DLDataType dtype, int64_t elements,
                                    const char *name)
{
    device_grad *grad = &optimizer->grads[optimizer->count++];
    grad->shape[0] = elements;
    grad->name = name;
    grad->tensor = (DLTensor){.device = {device == ON_CPU ? kDLCPU : kDLCUDA, device == ON_CPU ? 0 : device},
                              .ndim = 1,
                              .dtype = dtype,
                              .shape = grad->shape};
    const size_t bytes = bytes_of(grad, (size_t)elements);
    grad->tensor.data = device == ON_CPU ? malloc(bytes) : standin_alloc(device, bytes);
    return grad;
}

static inline void optimizer_free_grads(device_optimizer *optimizer)
{
    for (size_t i = 0; i < optimizer->count; i++) {
        DLTensor *tensor = &optimizer->grads[i].tensor;
        if (tensor->device.device_type == kDLCPU)
            free(tensor->data);
        else
            standin_free(tensor->data);
    }
    optimizer->count = 0;
}

/* The memory of a gradient as it lies there, whatever its strides, after all work enqueued so far. */
static inline void write_grad(const device_grad *grad, const void *bytes, size_t size)
{
    standin_run_all();
    if (grad->tensor.device.device_type == kDLCPU)
        memcpy(grad->tensor.data, bytes, size);
    else
        standin_upload(grad->tensor.data, bytes, size);
}

static inline void read_grad(const device_grad *grad, void *bytes, size_t size)
{
    standin_run_all();
    if (grad->tensor.device.device_type == kDLCPU)
        memcpy(bytes, grad->tensor.data, size);
    else
        standin_download(bytes, grad->tensor.data, size);
}

static inline void set_grad(device_optimizer *optimizer, size_t index, const double *values)
{
    static double host[MAX_ELEMENTS];
    device_grad *grad = &optimizer->grads[index];
    DLTensor copy = grad->tensor;
    const size_t count = elements_of(grad);
    assert_true(count <= MAX_ELEMENTS);
    copy.data = host;
    for (size_t i = 0; i < count; i++)
        element_set(&copy, i, values[i]);
    write_grad(grad, host, bytes_of(grad, count));
}

static inline void fill_grad(device_optimizer *optimizer, size_t index, double value)
{
    static double values[MAX_ELEMENTS];
    for (size_t i = 0; i < elements_of(&optimizer->grads[index]); i++)
        values[i] = value;
    set_grad(optimizer, index, values);
}

static inline double grad_at(const device_optimizer *optimizer, size_t index, size_t element)
{
    static double host[MAX_ELEMENTS];
    const device_grad *grad = &optimizer->grads[index];
    DLTensor copy = grad->tensor;
    copy.data = host;
    read_grad(grad, host, bytes_of(grad, elements_of(grad)));
    return element_get(&copy, element);
}

static inline float device_float(const DLTensor *tensor)
{
    float value;
    standin_run_all();
    standin_download(&value, tensor->data, sizeof value);
    return value;
}

static inline gsc_scaler_options device_options(void)
{
    gsc_scaler_options options = gsc_scaler_options_default();
    options.device = DEVICE;
    options.backend = gsc_cuda_backend();
    options.init_scale = 8.0;
    options.growth_interval = 2;
    return options;
}

static inline gsc_scaler *new_scaler(const gsc_scaler_options *options)
{
    gsc_scaler *scaler = NULL;
    assert_ok(gsc_scaler_create(options, &scaler));
    return scaler;
}

typedef struct rig {
    gsc_scaler *scaler;
    device_optimizer optimizer;
} rig;

static inline void rig_start(rig *r, const gsc_scaler_options *options)
{
    const gsc_scaler_options plain = device_options();
    r->scaler = new_scaler(options ? options : &plain);
    optimizer_init(&r->optimizer);
}

static inline void rig_stop(rig *r)
{
    gsc_scaler_destroy(r->scaler);
    optimizer_free_grads(&r->optimizer);
    assert_string_equal(standin_last_error(), "");
}

static inline gsc_scaler_state state_of(const gsc_scaler *scaler)
{
    gsc_scaler_state state;
    memset(&state, 0xff, sizeof state);
    assert_ok(gsc_scaler_state_dict(scaler, &state));
    return state;
}

/* Waits for the device first. */
static inline double scale_of(const gsc_scaler *scaler) { return state_of(scaler).scale; }

static inline gsc_scaler_stats stats_of(const gsc_scaler *scaler)
{
    gsc_scaler_stats stats;
    (void)state_of(scaler);
    gsc_scaler_get_stats(scaler, &stats);
    return stats;
}

/* On a GPU (tests/cuda/gpu) nothing is counted. */
static inline bool calls_are_counted(void) { return standin_seed_now() != 0; }
static inline uint64_t waits_so_far(void) { return calls_are_counted() ? standin_synchronisations() : 0; }

/* For tests of what is late: a GPU may be quick. */
static inline void needs_late_work(void) { (void)standin_pending(); }

/* The call succeeds, and waits for the device so often. */
#define assert_waits(expected, call)                                                                                   \
    do {                                                                                                               \
        uint64_t before_ = waits_so_far();                                                                             \
        assert_ok(call);                                                                                               \
        if (calls_are_counted())                                                                                       \
            assert_int_equal(waits_so_far() - before_, (expected));                                                    \
    } while (0)

#endif
