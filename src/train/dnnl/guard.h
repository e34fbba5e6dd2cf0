/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h: the state of the calling thread while oneDNN works: one OpenMP thread, and signals blocked. The includer
 * defines _GNU_SOURCE or _POSIX_C_SOURCE, for sigset_t. */
#ifndef GSC_TRAIN_DNNL_GUARD_H
#define GSC_TRAIN_DNNL_GUARD_H

#include <signal.h>

/* oneDNN is mostly built with OpenMP. Its threads would compete with the library's own, ignore gsc_set_num_threads, and
 * not survive a fork. So the library splits products itself and lets OpenMP use one thread: while primitives are made,
 * which remember the number of threads, and while they run. Returns the number of threads before, for restore. */
int gsc__openmp_use_one_thread(void);
void gsc__openmp_restore(int threads);

/* oneDNN's code for x86-64 may use the stack pointer as a pointer into the heap; a signal handler that runs then
 * overwrites heap memory (issue 4845 of uxlfoundation/oneDNN, fixed in 3.11.2). So signals are blocked on this thread
 * until the product is computed; another thread may take them before. Signals for the thread's own faults, and SIGABRT,
 * are not blocked. Returns the signal mask before, for restore. */
sigset_t gsc__signals_block(void);
void gsc__signals_restore(sigset_t before);

#endif
