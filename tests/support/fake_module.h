/* SPDX-License-Identifier: Apache-2.0 */
/* fake_module.h: the fake module's memory, devices and records, for fake_backend.h. */
#ifndef GSC_TESTS_FAKE_MODULE_H
#define GSC_TESTS_FAKE_MODULE_H

#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first include"
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/backend.h"
#include "gradients/norm.h"

enum { FAKE_MEMORY = 1 << 20, FAKE_MAX_TENSORS = 64, FAKE_MAX_DIMS = 64 };
#define FAKE_DEVICE ((DLDevice){kDLCUDA, 0})
#define FAKE_OTHER_DEVICE ((DLDevice){kDLCUDA, 1})

typedef struct fake_module_state {
    char *memory; /* PROT_NONE but within the module's functions */
    size_t used;
    int open;                         /* functions that are running */
    int calls, fail_at;               /* of functions that can fail; fail_at 0: none fails */
    const char *failed;               /* the function that did */
    int settles, waits;               /* settle; all that wait */
    int scans, sent, replaced;        /* scans; those that were handed new tensors; replace */
    int agreements, decisions, clips; /* calls of these */
    bool arrives;                     /* what update shows arrives at once */
    void *last_stream;
    int live_devices, live_records;
} fake_module_state;

static fake_module_state fake_module;

struct gsc__device {
    gsc__device_options options;
    gsc__schedule schedule;
    gsc__schedule_rules rules;
    gsc_scaler_stats stats;
    gsc__skip_window window;
    uint64_t words[64];
    bool overflow, checked, comm_failed; /* of this iteration */
    uint64_t repeats, last_repeats;
    int64_t epoch;
    gsc__device_snapshot now, arrived; /* arrived: what peek shows */
    bool has_arrived;
    gsc__device_happening log[GSC_DEVICE_LOG], arrived_log[GSC_DEVICE_LOG];
    void *stream;
    float *scale_view; /* on the device */
};

struct gsc__device_record {
    gsc__device *device;
    uint64_t number;
    gsc__device_tensor tensors[FAKE_MAX_TENSORS];
    gsc__device_dim dims[FAKE_MAX_TENSORS][FAKE_MAX_DIMS];
    size_t count;
    bool scanned, agreed, failed, reduced; /* what has happened since the last scan */
    double r;                              /* that norms multiply by */
    bool here_found_inf, here_checked;
    double here_max_abs, here_scale;
    float values[5];
    double sums[3], exponent;
    float sum_f32, exponent_f32;
    int64_t shape[1];
    int64_t overflow_epoch, comm_epoch;
    double coefficient;
    gsc__device_verdict now, settled;
    gsc_overflow found[FAKE_MAX_TENSORS], report[FAKE_MAX_TENSORS];
    size_t found_count, report_count;
    float *multiplier, *found_inf; /* on the device */
    DLTensor multiplier_tensor, found_inf_tensor;
};

static inline void fake_protect(void)
{
    if (mprotect(fake_module.memory, FAKE_MEMORY, fake_module.open > 0 ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
        abort();
}

static inline void fake_open(void)
{
    fake_module.open++;
    fake_protect();
}

static inline void fake_close(void)
{
    fake_module.open--;
    fake_protect();
}

static inline void fake_backend_reset(void)
{
    if (fake_module.memory)
        munmap(fake_module.memory, FAKE_MEMORY);
    memset(&fake_module, 0, sizeof fake_module);
    fake_module.memory = mmap(NULL, FAKE_MEMORY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (fake_module.memory == MAP_FAILED)
        abort();
}

static inline void *fake_device_alloc(size_t bytes)
{
    void *memory = fake_module.memory + fake_module.used;
    fake_module.used += (bytes + 63) / 64 * 64;
    if (fake_module.used > FAKE_MEMORY)
        abort();
    return memory;
}

static inline void fake_device_write(void *to, const void *from, size_t bytes)
{
    fake_open();
    memcpy(to, from, bytes);
    fake_close();
}

static inline void fake_device_read(void *to, const void *from, size_t bytes)
{
    fake_open();
    memcpy(to, from, bytes);
    fake_close();
}

static inline gsc_status fake_call(const char *function)
{
    if (++fake_module.calls != fake_module.fail_at)
        return GSC_OK;
    fake_module.failed = function;
    return gsc_fail(GSC_ERR_DEVICE, "the fake's %s failed: an illegal address (700)", function);
}

#define FAKE_CALL(function)                                                                                            \
    do {                                                                                                               \
        gsc_status fake_status_ = fake_call(function);                                                                 \
        if (fake_status_ != GSC_OK)                                                                                    \
            return fake_status_;                                                                                       \
    } while (0)

/* A broken contract of the core. */
#define FAKE_DEMAND(condition)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fake_backend.h:%d: the core does not keep this: %s\n", __LINE__, #condition);             \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Element i of the row-major order, or (logical false) the i-th one from `start` on with its row-major index. */
static inline char *fake_at(const gsc__device_tensor *tensor, uint64_t i, uint64_t *row_major)
{
    int64_t offset = tensor->ndim == 0 ? (int64_t)i : 0, index = tensor->row_major_start;
    for (int32_t d = 0; d < tensor->ndim; d++) {
        int64_t position = (int64_t)(i % (uint64_t)tensor->dims[d].shape);
        i /= (uint64_t)tensor->dims[d].shape;
        offset += position * tensor->dims[d].stride;
        index += position * tensor->dims[d].row_major;
    }
    *row_major = tensor->ndim == 0 ? (uint64_t)offset : (uint64_t)index;
    return (char *)tensor->start + offset * (int64_t)gsc__kind_size(tensor->kind);
}

static inline void fake_store(gsc__kind kind, void *at, double value)
{
    switch (kind) {
    case GSC_F32: *(float *)at = (float)value; break;
    case GSC_F64: *(double *)at = value; break;
    case GSC_BF16: *(uint16_t *)at = gsc__f32_to_bf16((float)value); break;
    default: *(uint16_t *)at = gsc__f32_to_f16((float)value); break;
    }
}

static inline double fake_times(gsc__kind kind, double value, double r)
{
    if (kind == GSC_F64)
        return value * r;
    float product = (float)value * (float)r;
    double stored;
    fake_store(kind, &stored, (double)product);
    return gsc__element(kind, &stored, 0);
}

static inline void fake_halt(gsc__device *device, gsc__halt halt)
{
    if (device->now.halt != GSC_HALT_NONE)
        return;
    device->now.halt = halt;
    device->now.halts++;
}

static inline void fake_comm_failed(gsc__device_record *record)
{
    record->comm_epoch = record->device->epoch;
    record->device->comm_failed = true;
}

static inline DLTensor fake_values(gsc__device_record *record, void *values, DLDataType dtype, int64_t n)
{
    record->shape[0] = n;
    return (DLTensor){
        .data = values, .device = record->device->options.device, .ndim = 1, .dtype = dtype, .shape = record->shape};
}

#endif
