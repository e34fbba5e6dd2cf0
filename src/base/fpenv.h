/* SPDX-License-Identifier: Apache-2.0 */
/* fpenv.h: arithmetic in a known floating-point environment, whatever the caller's is: round to nearest even,
 * subnormals kept, no traps. A program linked with -ffast-math flushes subnormals process-wide; its results must not
 * differ.
 *
 *     gsc__fpenv caller = gsc__fpenv_enter();
 *     … arithmetic …
 *     gsc__fpenv_leave(caller);      // before any callback, so that it runs in the caller's environment
 *
 * Compilers do not know that arithmetic depends on the environment: what happens in registers alone may be moved across
 * both calls. Arithmetic in functions of other files, and from memory to memory of others, stays; elsewhere pass the
 * inputs and the results through gsc__fpenv_pin. */
#ifndef GSC_BASE_FPENV_H
#define GSC_BASE_FPENV_H

#if defined(__x86_64__)

#include <xmmintrin.h>

typedef unsigned int gsc__fpenv;

/* MXCSR as the ABI has it at process start: all exceptions masked, nearest-even, neither FTZ nor DAZ. */
#define GSC_MXCSR_DEFAULT 0x1f80u
#define GSC_MXCSR_CONTROL 0xffc0u /* all but the sticky exception flags */

static inline gsc__fpenv gsc__fpenv_enter(void)
{
    gsc__fpenv caller = _mm_getcsr();
    if ((caller & GSC_MXCSR_CONTROL) != GSC_MXCSR_DEFAULT)
        _mm_setcsr(GSC_MXCSR_DEFAULT);
    return caller;
}

static inline void gsc__fpenv_leave(gsc__fpenv caller) { _mm_setcsr(caller); }

#elif defined(__aarch64__)

#include <stdint.h>

typedef struct gsc__fpenv {
    uint64_t control, status;
} gsc__fpenv;

static inline gsc__fpenv gsc__fpenv_enter(void)
{
    gsc__fpenv caller;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(caller.control), "=r"(caller.status) : : "memory");
    if (caller.control != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return caller;
}

static inline void gsc__fpenv_leave(gsc__fpenv caller)
{
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(caller.control), "r"(caller.status) : "memory");
}

#else

#include <fenv.h>

typedef fenv_t gsc__fpenv;

static inline gsc__fpenv gsc__fpenv_enter(void)
{
    gsc__fpenv caller;
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    return caller;
}

static inline void gsc__fpenv_leave(gsc__fpenv caller) { fesetenv(&caller); }

#endif

/* The same value; arithmetic that it comes from or goes into stays on its side of this. */
static inline double gsc__fpenv_pin(double value)
{
    volatile double pinned = value;
    return pinned;
}

#endif
