/* SPDX-License-Identifier: Apache-2.0 */
/* tables.cu: a record's tables in device memory. */
#include "cuda/device.h"

GSC_CUDA_KERNEL(upload)
{
    for (unsigned i = gsc__thread(); i < args.count; i += gsc__block_threads())
        args.to[i] = args.words[i];
}

/* The last tensor whose first item is at most `item`. Each tensor has an item. */
GSC_DEVICE uint32_t tensor_of_item(const gsc__cuda_tensor *tensors, uint32_t count, uint32_t item)
{
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (tensors[middle].first_item <= item)
            low = middle;
        else
            high = middle;
    }
    return low;
}

GSC_CUDA_KERNEL(items)
{
    unsigned threads = gsc__grid_blocks() * gsc__block_threads();
    for (uint64_t i = (uint64_t)gsc__block() * gsc__block_threads() + gsc__thread(); i < args.item_count; i += threads)
        args.item_tensors[i] = tensor_of_item(args.tensors, args.tensor_count, (uint32_t)i);
}
