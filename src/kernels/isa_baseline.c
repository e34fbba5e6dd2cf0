/* SPDX-License-Identifier: Apache-2.0 */
/* isa_baseline.c: the kernels for what every processor of the architecture has: SSE2 on x86-64, NEON on arm64. */
#define GSC_ISA baseline
#define GSC_VECTOR 16
#if defined(__x86_64__)
#define GSC_MAX_I16(a, b) _mm_max_epi16((__m128i)(a), (__m128i)(b))
#define GSC_NO_COMPARE_I64
#endif
#include "kernels/loops.h"
