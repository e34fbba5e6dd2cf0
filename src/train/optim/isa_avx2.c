/* SPDX-License-Identifier: Apache-2.0 */
#if defined(__x86_64__)
#define GSC_TARGET __attribute__((target("avx2")))
#define GSC_TABLE gsc__update_kernels_avx2
#define GSC_ISA_NAME "avx2"
#include "train/optim/isa.h"
#else
typedef int gsc__no_update_avx2; /* C wants a declaration in every file */
#endif
