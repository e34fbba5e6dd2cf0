/* SPDX-License-Identifier: Apache-2.0 */
#if defined(__x86_64__)
#define GSC_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define GSC_TABLE gsc__update_kernels_avx512
#define GSC_ISA_NAME "avx512"
#include "train/optim/isa.h"
#else
typedef int gsc__no_update_avx512; /* C wants a declaration in every file */
#endif
