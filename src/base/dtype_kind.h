/* SPDX-License-Identifier: Apache-2.0 */
/* kind.h: the four element types as a small index, and reading one element of any of them. */
#ifndef GSC_BASE_DTYPE_KIND_H
#define GSC_BASE_DTYPE_KIND_H

#include <stddef.h>
#include <stdint.h>

#include "base/half.h"

typedef enum gsc__kind { GSC_F32, GSC_F64, GSC_BF16, GSC_F16, GSC_KINDS } gsc__kind;

static inline size_t gsc__kind_size(gsc__kind kind)
{
    return kind == GSC_F64 ? sizeof(double) : kind == GSC_F32 ? sizeof(float) : sizeof(uint16_t);
}

/* The bits of +infinity; greater magnitudes are NaNs. */
static inline uint64_t gsc__kind_infinity(gsc__kind kind)
{
    switch (kind) {
    case GSC_F32: return 0x7f800000u;
    case GSC_F64: return 0x7ff0000000000000u;
    case GSC_BF16: return 0x7f80u;
    default: return 0x7c00u;
    }
}

static inline double gsc__element(gsc__kind kind, const void *data, size_t index)
{
    switch (kind) {
    case GSC_F32: return (double)((const float *)data)[index];
    case GSC_F64: return ((const double *)data)[index];
    case GSC_BF16: return (double)gsc__bf16_to_f32(((const uint16_t *)data)[index]);
    default: return (double)gsc__f16_to_f32(((const uint16_t *)data)[index]);
    }
}

#endif
