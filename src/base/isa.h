/* SPDX-License-Identifier: Apache-2.0 */
/* isa.h: the instruction sets that loops are compiled for, each once. A library has one file isa_<name>.c for each. To
 * add one: a line in GSC_ISAS, a function gsc__has_<name>, and that file in src/kernels and src/train/optim. */
#ifndef GSC_BASE_ISA_H
#define GSC_BASE_ISA_H

#include <stdbool.h>

/* Best first. X(name of the files and tables, what gsc_isa() returns) */
#if defined(__x86_64__)
#define GSC_ISAS(X)                                                                                                    \
    X(avx512, "avx512")                                                                                                \
    X(avx2, "avx2")                                                                                                    \
    X(baseline, "baseline")
#elif defined(__aarch64__)
#define GSC_ISAS(X) X(baseline, "neon") /* every processor of the architecture has it */
#else
#define GSC_ISAS(X) X(baseline, "baseline")
#endif

#if defined(__x86_64__)

#include <cpuid.h>

static inline bool gsc__has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
}

/* __builtin_cpu_supports asks the operating system too: whether it saves the wide registers. */
static inline bool gsc__has_avx2(void) { return __builtin_cpu_supports("avx2") && gsc__has_f16c(); }

static inline bool gsc__has_avx512(void)
{
    return gsc__has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

#endif

static inline bool gsc__has_baseline(void) { return true; }

#endif
