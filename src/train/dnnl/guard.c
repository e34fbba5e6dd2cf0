/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c: forks, OpenMP and the calling thread's signals while oneDNN works. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "train/dnnl/guard.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* oneDNN has no setting for its number of threads; it takes OpenMP's. Which OpenMP runtime oneDNN was linked with is
 * known at run time only, so its functions are looked up. NULL: no OpenMP runtime is loaded. */
static struct {
    int (*get_max_threads)(void);
    void (*set_num_threads)(int);
} openmp;

static void find_openmp(void)
{
    void *get = dlsym(RTLD_DEFAULT, "omp_get_max_threads"), *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (!get || !set)
        return;
    memcpy(&openmp.get_max_threads, &get, sizeof get); /* POSIX has this conversion, ISO C has not */
    memcpy(&openmp.set_num_threads, &set, sizeof set);
}

/* Threads inside oneDNN hold it for reading, fork holds it for writing. Where it is known, the kind that lets a waiting
 * fork go first: otherwise threads that compute all the time could hold up a fork for ever. */
#ifdef PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#define FORK_FIRST PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP
#else
#define FORK_FIRST PTHREAD_RWLOCK_INITIALIZER
#endif
static pthread_rwlock_t inside = FORK_FIRST;

static void before_fork(void) { pthread_rwlock_wrlock(&inside); }

static void after_fork_in_parent(void) { pthread_rwlock_unlock(&inside); }

static void after_fork_in_child(void)
{
    static const pthread_rwlock_t unlocked = FORK_FIRST;
    inside = unlocked;
}

static pthread_once_t setup = PTHREAD_ONCE_INIT;

static void set_up(void)
{
    find_openmp();
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static int use_one_openmp_thread(void)
{
    int threads = openmp.get_max_threads ? openmp.get_max_threads() : 1;
    if (threads > 1)
        openmp.set_num_threads(1);
    return threads;
}

static sigset_t block_signals(void)
{
    /* The kernel kills a process whose thread causes a fault while its signal is blocked, without calling the handler.
     * SIGABRT is not blocked either, so that abort() takes effect at once. */
    static const int never_blocked[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t blocked, before;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof never_blocked / sizeof *never_blocked; i++)
        sigdelset(&blocked, never_blocked[i]);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    return before;
}

gsc__dnnl_guard gsc__dnnl_enter(void)
{
    pthread_once(&setup, set_up);
    gsc__dnnl_guard before = {.signals = block_signals()};
    pthread_rwlock_rdlock(&inside);
    before.openmp_threads = use_one_openmp_thread();
    return before;
}

void gsc__dnnl_leave(gsc__dnnl_guard before)
{
    if (before.openmp_threads > 1)
        openmp.set_num_threads(before.openmp_threads);
    pthread_rwlock_unlock(&inside);
    pthread_sigmask(SIG_SETMASK, &before.signals, NULL);
}
