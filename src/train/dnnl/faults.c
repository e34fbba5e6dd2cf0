/* SPDX-License-Identifier: Apache-2.0 */
/* faults.c: which products of half dtypes not to leave to a version of oneDNN. */
#include "train/dnnl/faults.h"

#include <string.h>

#include <oneapi/dnnl/dnnl_types.h>

bool gsc__dnnl_is_fast(gsc__kind kind, const char *implementation, unsigned isa)
{
    /* The plain loops are "ref:any" and the like. */
    if (strstr(implementation, "ref"))
        return false;
    /* "gemm:jit" takes bfloat16 on every processor with AVX-512. Without instructions for it, it converts and rounds in
     * the innermost loop, which takes 3 to 5 times as long as float32. */
    bool has_bf16 = (isa & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
    return kind != GSC_BF16 || has_bf16 || !strstr(implementation, "gemm:jit");
}

bool gsc__dnnl_is_right(int64_t k, const char *implementation, int major, int minor)
{
    /* Before version 3.1, AMX's code cuts k into blocks of TILE_K, with the remainder rounded up to an even size. If
     * that fills a block, it keeps the tiles of the block before, which in the last rows or columns are of another
     * size: SIGILL (issue 1661 of uxlfoundation/oneDNN). Seen with k = 63; it may cut any k with this remainder so. */
    enum { TILE_K = 32 };
    bool is_old = major < 3 || (major == 3 && minor < 1);
    bool rounded_to_block = k > TILE_K && k % TILE_K == TILE_K - 1;
    return !(is_old && strstr(implementation, "amx") && rounded_to_block);
}
