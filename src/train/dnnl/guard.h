/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h: what has to hold on the calling thread while oneDNN works: one OpenMP thread, no signal handlers. The
 * includer defines _GNU_SOURCE or _POSIX_C_SOURCE, for sigset_t. */
#ifndef GSC_TRAIN_DNNL_GUARD_H
#define GSC_TRAIN_DNNL_GUARD_H

#include <signal.h>

/* oneDNN is mostly built with OpenMP. Its threads would compete with the library's own, ignore gsc_set_num_threads, and
 * not survive a fork. So the library splits products itself and has OpenMP use one thread: around making primitives,
 * which remember the number of threads, and around running them. Returns what release takes. */
int gsc__hold_openmp(void);
void gsc__release_openmp(int threads);

/* oneDNN's code for x86-64 may use the stack pointer as a pointer into the heap; a signal handler that runs then
 * overwrites heap memory (issue 4845 of uxlfoundation/oneDNN, fixed in 3.11.2). So signals wait until the product is
 * computed, or another thread takes them; signals that the thread itself causes are not held. Returns what release
 * takes. */
sigset_t gsc__hold_signals(void);
void gsc__release_signals(sigset_t before);

#endif
