/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h: what must hold while a thread is inside oneDNN. The includer defines _GNU_SOURCE or _POSIX_C_SOURCE, for
 * sigset_t. */
#ifndef GSC_TRAIN_DNNL_GUARD_H
#define GSC_TRAIN_DNNL_GUARD_H

#include <signal.h>

/* What leave restores. */
typedef struct gsc__dnnl_guard {
    int openmp_threads;
    sigset_t signals;
} gsc__dnnl_guard;

/* Around every call of oneDNN; not nested. While a thread is inside:
 *
 * No fork. A child would inherit oneDNN's locks and half-made primitives of threads that it has not got, and wait for
 * them for ever. fork waits until no thread is inside, as long as one slice or the making of one primitive takes.
 *
 * One OpenMP thread. oneDNN is mostly built with OpenMP. Its threads would compete with the library's own, ignore
 * gsc_set_num_threads, and not survive a fork. So the library splits products itself and lets OpenMP use one thread:
 * while primitives are made, which remember the number of threads, and while they run.
 *
 * Signals blocked. oneDNN's code for x86-64 may use the stack pointer as a pointer into the heap; a signal handler that
 * runs then overwrites heap memory (issue 4845 of uxlfoundation/oneDNN, fixed in 3.11.2). A handler that forks would
 * wait for its own thread. Signals wait until the thread leaves; another thread may take them before. Signals for the
 * thread's own faults, and SIGABRT, are not blocked. */
gsc__dnnl_guard gsc__dnnl_enter(void);
void gsc__dnnl_leave(gsc__dnnl_guard before);

#endif
