/* SPDX-License-Identifier: Apache-2.0 */
/* What every processor of the architecture has: SSE2 on x86-64, NEON on arm64. */
#define GSC_TARGET
#define GSC_TABLE gsc__update_kernels_baseline
#if defined(__aarch64__)
#define GSC_ISA_NAME "neon"
#else
#define GSC_ISA_NAME "baseline"
#endif
#include "train/optim/isa.h"
