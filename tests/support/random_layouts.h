/* SPDX-License-Identifier: Apache-2.0 */
/* random_layouts.h: small tensors with any shape and strides, and where their elements lie. */
#ifndef GSC_TESTS_RANDOM_LAYOUTS_H
#define GSC_TESTS_RANDOM_LAYOUTS_H

#include "layouts.h"

/* Element k of a tensor in row-major order, from its definition. */
static inline int64_t offset_of(const DLTensor *tensor, int64_t k)
{
    int64_t offset = 0;
    for (int d = tensor->ndim - 1; d >= 0; d--) {
        offset += k % tensor->shape[d] * tensor->strides[d];
        k /= tensor->shape[d];
    }
    return offset;
}

static inline int64_t count_of(const DLTensor *tensor)
{
    int64_t count = 1;
    for (int d = 0; d < tensor->ndim; d++)
        count *= tensor->shape[d];
    return count;
}

typedef struct random_tensor {
    int64_t shape[4], strides[4];
    DLTensor tensor;
} random_tensor;

static inline void make_random(random_tensor *out, float *memory, uint64_t *seed, DLDataType dtype, int64_t most_stride)
{
    int ndim = (int)(next_random(seed) % 5);
    for (int d = 0; d < ndim; d++) {
        out->shape[d] = (int64_t)(next_random(seed) % 5) + 1;
        out->strides[d] = (int64_t)(next_random(seed) % (uint64_t)(2 * most_stride + 1)) - most_stride;
    }
    out->tensor = tensor_over(memory, dtype, ndim, out->shape, out->strides);
}

#endif
