/* SPDX-License-Identifier: Apache-2.0 */
/* isa_baseline.c: the kernels for what every processor of the architecture has: SSE2 on x86-64, NEON on arm64. */
#define GSC_ISA baseline
#define GSC_VECTOR 16
#if defined(__x86_64__)
#define GSC_MAX_I16(a, b) _mm_max_epi16((__m128i)(a), (__m128i)(b))
/* float64 kernels take 1.6 times as long in the caches, and 10 % longer in memory, as with MAXPD; but that loses NaNs.
 */
#define GSC_NO_COMPARE_I64
#endif
#include "kernels/loops.h"
