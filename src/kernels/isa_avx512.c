/* SPDX-License-Identifier: Apache-2.0 */
#if defined(__x86_64__)
#define GSC_TARGET GSC_TARGET_avx512
#define GSC_VECTOR 64
#define GSC_F16C GSC_F16C_avx512
#define GSC_MAX_I16(a, b) ((halves)_mm512_max_epi16((__m512i)(a), (__m512i)(b)))
#define GSC_MAX_I32(a, b) ((bits_f32)_mm512_max_epi32((__m512i)(a), (__m512i)(b)))
#define GSC_MAX_I64(a, b) ((bits_f64)_mm512_max_epi64((__m512i)(a), (__m512i)(b)))
#define GSC_TABLE gsc__kernels_avx512
#define GSC_ISA_NAME "avx512"
#include "kernels/loops.h"
#else
typedef int gsc__no_avx512; /* C wants a declaration in every file */
#endif
