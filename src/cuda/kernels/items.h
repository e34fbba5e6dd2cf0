/* SPDX-License-Identifier: Apache-2.0 */
/* items.h: which tensor an item belongs to. */
#ifndef GSC_CUDA_KERNELS_ITEMS_H
#define GSC_CUDA_KERNELS_ITEMS_H

#include "cuda/device.h"

/* The last of `count` tensors whose first_item is at most `item`. Each has an item at least. */
template <typename Tensor> GSC_DEVICE uint32_t gsc__owner_of_item(const Tensor *tensors, uint32_t count, uint32_t item)
{
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (tensors[middle].first_item <= item)
            low = middle;
        else
            high = middle;
    }
    return low;
}

#endif
