/* SPDX-License-Identifier: Apache-2.0 */
/* isa.h: the instruction sets that loops are compiled for, each once. To add one: a line in GSC_ISAS, its four
 * properties below, and src/kernels/isa_<isa>.c. */
#ifndef GSC_BASE_ISA_H
#define GSC_BASE_ISA_H

#include <stdbool.h>
#include <string.h>

/* A property of an instruction set whose name is itself a macro. */
#define GSC_PASTE(property, isa) GSC_PASTE_EXPANDED(property, isa)
#define GSC_PASTE_EXPANDED(property, isa) property##isa

/* Best first. Each has
 *
 *     GSC_NAME_<isa>     what gsc_isa() returns
 *     GSC_TARGET_<isa>   the attribute of functions that are compiled for it
 *     GSC_F16C_<isa>     1 if it has VCVTPH2PS and VCVTPS2PH, which convert float16, else 0
 *     gsc__has_<isa>()   whether this processor, and its operating system, have it */
#if defined(__x86_64__)
#define GSC_ISAS(X) X(avx512) X(avx2) X(baseline)
#else
#define GSC_ISAS(X) X(baseline)
#endif

/* What every processor of the architecture has: SSE2 on x86-64, NEON on arm64. */
#if defined(__aarch64__)
#define GSC_NAME_baseline "neon"
#else
#define GSC_NAME_baseline "baseline"
#endif
#define GSC_TARGET_baseline
#define GSC_F16C_baseline 0
static inline bool gsc__has_baseline(void) { return true; }

#if defined(__x86_64__)

#include <cpuid.h>

static inline bool gsc__has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) != 0;
}

/* __builtin_cpu_supports asks the operating system too: whether it saves the wide registers. */
#define GSC_NAME_avx2 "avx2"
#define GSC_TARGET_avx2 __attribute__((target("avx2,f16c")))
#define GSC_F16C_avx2 1
static inline bool gsc__has_avx2(void) { return __builtin_cpu_supports("avx2") && gsc__has_f16c(); }

#define GSC_NAME_avx512 "avx512"
#define GSC_TARGET_avx512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,f16c")))
#define GSC_F16C_avx512 1
static inline bool gsc__has_avx512(void)
{
    return gsc__has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

#endif

/* GSC_F16C_<isa> of the instruction set that gsc_isa() calls `name`. */
static inline bool gsc__isa_has_f16c(const char *name)
{
#define GSC_RETURN_F16C(isa)                                                                                           \
    if (strcmp(name, GSC_NAME_##isa) == 0)                                                                             \
        return GSC_F16C_##isa;
    GSC_ISAS(GSC_RETURN_F16C)
#undef GSC_RETURN_F16C
    return false;
}

#endif
