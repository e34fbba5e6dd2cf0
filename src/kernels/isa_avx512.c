/* SPDX-License-Identifier: Apache-2.0 */
/* isa_avx512.c: the kernels for AVX-512. */
#include "kernels/kernels.h"

#if defined(__x86_64__)
#define GSC_ISA avx512
#define GSC_VECTOR 64
#define GSC_MAX_I16(a, b) _mm512_max_epi16((__m512i)(a), (__m512i)(b))
#define GSC_MAX_I32(a, b) _mm512_max_epi32((__m512i)(a), (__m512i)(b))
#define GSC_MAX_I64(a, b) _mm512_max_epi64((__m512i)(a), (__m512i)(b))
#define GSC_ADD_BIT16(a, b)                                                                                            \
    _mm512_mask_add_epi32((__m512i)(a), _mm512_test_epi32_mask((__m512i)(b), _mm512_set1_epi32(1 << 16)),              \
                          (__m512i)(a), _mm512_set1_epi32(1))
#include "kernels/loops.h"
#endif
