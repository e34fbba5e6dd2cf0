/* SPDX-License-Identifier: Apache-2.0 */
#if defined(__x86_64__)
#define GSC_TARGET GSC_TARGET_avx2
#define GSC_VECTOR 32
#define GSC_F16C GSC_F16C_avx2
#define GSC_MAX_I16(a, b) ((halves)_mm256_max_epi16((__m256i)(a), (__m256i)(b)))
#define GSC_MAX_I32(a, b) ((bits_f32)_mm256_max_epi32((__m256i)(a), (__m256i)(b)))
#define GSC_TABLE gsc__kernels_avx2
#define GSC_ISA_NAME "avx2"
#include "kernels/loops.h"
#else
typedef int gsc__no_avx2; /* C wants a declaration in every file */
#endif
