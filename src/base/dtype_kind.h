/* SPDX-License-Identifier: Apache-2.0 */
/* dtype_kind.h: the element types as a small index, and what is known of each. */
#ifndef GSC_BASE_DTYPE_KIND_H
#define GSC_BASE_DTYPE_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/half.h"
#include "gradscaler/dtype.h"

typedef enum gsc__kind {
    GSC_F32,
    GSC_F64,
    GSC_BF16,
    GSC_F16,
    GSC_KINDS,           /* the floating-point types: what kernels are indexed by */
    GSC_I64 = GSC_KINDS, /* labels, in the train layer alone */
    GSC_NO_KIND
} gsc__kind;

static inline bool gsc__kind_is_float(gsc__kind kind) { return kind < GSC_KINDS; }

/* GSC_NO_KIND: another dtype, or more than one lane. */
static inline gsc__kind gsc__kind_of(DLDataType dtype)
{
    if (dtype.lanes != 1)
        return GSC_NO_KIND;
    if (dtype.code == kDLFloat)
        return dtype.bits == 32 ? GSC_F32 : dtype.bits == 64 ? GSC_F64 : dtype.bits == 16 ? GSC_F16 : GSC_NO_KIND;
    if (dtype.code == kDLBfloat && dtype.bits == 16)
        return GSC_BF16;
    return dtype.code == kDLInt && dtype.bits == 64 ? GSC_I64 : GSC_NO_KIND;
}

static inline DLDataType gsc__kind_dtype(gsc__kind kind)
{
    switch (kind) {
    case GSC_F32: return (DLDataType){kDLFloat, 32, 1};
    case GSC_F64: return (DLDataType){kDLFloat, 64, 1};
    case GSC_BF16: return (DLDataType){kDLBfloat, 16, 1};
    case GSC_F16: return (DLDataType){kDLFloat, 16, 1};
    case GSC_I64: return (DLDataType){kDLInt, 64, 1};
    default: return (DLDataType){0, 0, 0};
    }
}

static inline const char *gsc__kind_name(gsc__kind kind)
{
    static const char *const names[] = {"float32", "float64", "bfloat16", "float16", "int64", "none"};
    return names[kind];
}

/* Bytes of an element; 0 for GSC_NO_KIND. */
GSC_INLINE size_t gsc__kind_size(gsc__kind kind)
{
    switch (kind) {
    case GSC_F32: return sizeof(float);
    case GSC_F64: return sizeof(double);
    case GSC_BF16:
    case GSC_F16: return sizeof(uint16_t);
    case GSC_I64: return sizeof(int64_t);
    default: return 0;
    }
}

/* The bits of +infinity; greater magnitudes are NaNs. Of a floating-point kind. */
GSC_INLINE uint64_t gsc__kind_infinity(gsc__kind kind)
{
    switch (kind) {
    case GSC_F32: return 0x7f800000u;
    case GSC_F64: return 0x7ff0000000000000u;
    case GSC_BF16: return 0x7f80u;
    default: return 0x7c00u;
    }
}

/* One element, of any kind but GSC_NO_KIND, as a double. */
GSC_INLINE double gsc__element(gsc__kind kind, const void *data, size_t index)
{
    switch (kind) {
    case GSC_F32: return (double)((const float *)data)[index];
    case GSC_F64: return ((const double *)data)[index];
    case GSC_BF16: return (double)gsc__bf16_to_f32(((const uint16_t *)data)[index]);
    case GSC_I64: return (double)((const int64_t *)data)[index];
    default: return (double)gsc__f16_to_f32(((const uint16_t *)data)[index]);
    }
}

/* Whether the tensor's elements are on the CPU. */
static inline bool gsc__is_on_cpu(const DLTensor *tensor) { return tensor->device.device_type == kDLCPU; }

/* Or on that device. The CPU is one device, whatever its number. */
static inline bool gsc__is_on(const DLTensor *tensor, DLDevice device)
{
    return tensor->device.device_type == device.device_type &&
           (device.device_type == kDLCPU || tensor->device.device_id == device.device_id);
}

#endif
