/* SPDX-License-Identifier: Apache-2.0 */
/* What every processor of the architecture has: SSE2 on x86-64, NEON on arm64. */
#define GSC_TARGET GSC_TARGET_baseline
#define GSC_VECTOR 16
#define GSC_F16C GSC_F16C_baseline
#if defined(__x86_64__)
#define GSC_MAX_I16(a, b) ((halves)_mm_max_epi16((__m128i)(a), (__m128i)(b)))
#define GSC_MAX_I64(a, b) max_without_compare(a, b)
#endif
#define GSC_TABLE gsc__kernels_baseline
#if defined(__aarch64__)
#define GSC_ISA_NAME "neon"
#else
#define GSC_ISA_NAME "baseline"
#endif
#include "kernels/loops.h"
