/* SPDX-License-Identifier: Apache-2.0 */
#if defined(__x86_64__)
#define GSC_TARGET __attribute__((target("avx2,f16c")))
#define GSC_F16C
#define GSC_TABLE gsc_kernels_avx2
#define GSC_ISA_NAME "avx2"
#include "kernels/loops.h"
#else
typedef int gsc_no_avx2; /* C wants a declaration in every file */
#endif
