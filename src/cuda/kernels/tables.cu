/* SPDX-License-Identifier: Apache-2.0 */
/* tables.cu: a record's tables in device memory. */
#include "cuda/kernels/items.h"

GSC_CUDA_KERNEL(upload)
{
    for (unsigned i = gsc__thread(); i < args.count; i += gsc__block_threads())
        args.to[i] = args.words[i];
}

GSC_CUDA_KERNEL(items)
{
    unsigned threads = gsc__grid_blocks() * gsc__block_threads();
    for (uint64_t i = (uint64_t)gsc__block() * gsc__block_threads() + gsc__thread(); i < args.item_count; i += threads)
        args.item_tensors[i] = gsc__owner_of_item(args.tensors, args.tensor_count, (uint32_t)i);
}
