/* SPDX-License-Identifier: Apache-2.0 */
/* layouts.h: DLTensors of any layout over a test's memory. */
#ifndef GSC_TESTS_LAYOUTS_H
#define GSC_TESTS_LAYOUTS_H

#include "gradscaler/dtype.h"

/* shape and strides (may be NULL: compact) are borrowed. */
static inline DLTensor tensor_over(void *data, DLDataType dtype, int ndim, const int64_t *shape, const int64_t *strides)
{
    DLTensor tensor = {.data = data, .device = {kDLCPU, 0}, .ndim = ndim, .dtype = dtype};
    tensor.shape = (int64_t *)(uintptr_t)shape;
    tensor.strides = (int64_t *)(uintptr_t)strides;
    return tensor;
}

/* A small generator that every platform agrees on: xorshift64*. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

#endif
