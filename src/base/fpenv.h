/* SPDX-License-Identifier: Apache-2.0 */
/* fpenv.h: a known floating-point environment for the library's arithmetic: round to nearest even, subnormals kept, no
 * traps. A program linked with -ffast-math flushes subnormals in the whole process; the library's results stay the
 * same.
 *
 *     gsc__fpenv saved = gsc__fpenv_enter();
 *     … arithmetic …
 *     gsc__fpenv_leave(saved);      // before any callback, which runs in the caller's environment
 *
 * or, for the rest of a function, also where an exception passes through it:
 *
 *     GSC_FPENV_SCOPE;
 *
 * Compilers do not know that arithmetic depends on the environment, and may move arithmetic between registers across
 * both calls. They do not move calls of functions in other files, nor reads and writes of memory that other files can
 * reach. Inputs and results of all other arithmetic go through gsc__fpenv_pin. */
#ifndef GSC_BASE_FPENV_H
#define GSC_BASE_FPENV_H

#if defined(__x86_64__)

#include <xmmintrin.h>

typedef unsigned int gsc__fpenv;

/* MXCSR at process start, by the ABI: all exceptions masked, nearest-even, neither FTZ nor DAZ. */
#define GSC_MXCSR_DEFAULT 0x1f80u
#define GSC_MXCSR_CONTROL 0xffc0u /* all but the sticky exception flags */

static inline gsc__fpenv gsc__fpenv_enter(void)
{
    gsc__fpenv saved = _mm_getcsr();
    if ((saved & GSC_MXCSR_CONTROL) != GSC_MXCSR_DEFAULT)
        _mm_setcsr(GSC_MXCSR_DEFAULT);
    return saved;
}

static inline void gsc__fpenv_leave(gsc__fpenv saved) { _mm_setcsr(saved); }

#elif defined(__aarch64__)

#include <stdint.h>

typedef struct gsc__fpenv {
    uint64_t control, status;
} gsc__fpenv;

static inline gsc__fpenv gsc__fpenv_enter(void)
{
    gsc__fpenv saved;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(saved.control), "=r"(saved.status) : : "memory");
    if (saved.control != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return saved;
}

static inline void gsc__fpenv_leave(gsc__fpenv saved)
{
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(saved.control), "r"(saved.status) : "memory");
}

#else

#include <fenv.h>

typedef fenv_t gsc__fpenv;

static inline gsc__fpenv gsc__fpenv_enter(void)
{
    gsc__fpenv saved;
    fegetenv(&saved);
    fesetenv(FE_DFL_ENV);
    return saved;
}

static inline void gsc__fpenv_leave(gsc__fpenv saved) { fesetenv(&saved); }

#endif

static inline void gsc__fpenv_scope_end(const gsc__fpenv *saved) { gsc__fpenv_leave(*saved); }

#define GSC_FPENV_SCOPE                                                                                                \
    __attribute__((unused, cleanup(gsc__fpenv_scope_end))) const gsc__fpenv fpenv_scope = gsc__fpenv_enter()

/* Returns value. The compiler moves no arithmetic that value comes from, or goes into, across this call. */
static inline double gsc__fpenv_pin(double value)
{
    volatile double pinned = value;
    return pinned;
}

#endif
