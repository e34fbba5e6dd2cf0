/* SPDX-License-Identifier: Apache-2.0 */
/* isa_avx2.c: the kernels for AVX2. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#define GSC_ISA avx2
#define GSC_VECTOR 32
#define GSC_MAX_I16(a, b) _mm256_max_epi16((__m256i)(a), (__m256i)(b))
#define GSC_MAX_I32(a, b) _mm256_max_epi32((__m256i)(a), (__m256i)(b))
#include "kernels/loops.h"
#endif
