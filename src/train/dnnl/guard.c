/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c: OpenMP and the signals of the calling thread while oneDNN works. */
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

static pthread_once_t openmp_lookup = PTHREAD_ONCE_INIT;

static void find_openmp(void)
{
    void *get = dlsym(RTLD_DEFAULT, "omp_get_max_threads"), *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (!get || !set)
        return;
    memcpy(&openmp.get_max_threads, &get, sizeof get); /* POSIX has this conversion, ISO C has not */
    memcpy(&openmp.set_num_threads, &set, sizeof set);
}

int gsc__openmp_use_one_thread(void)
{
    pthread_once(&openmp_lookup, find_openmp);
    int threads = openmp.get_max_threads ? openmp.get_max_threads() : 1;
    if (threads > 1)
        openmp.set_num_threads(1);
    return threads;
}

void gsc__openmp_restore(int threads)
{
    if (threads > 1)
        openmp.set_num_threads(threads);
}

sigset_t gsc__signals_block(void)
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

void gsc__signals_restore(sigset_t before) { pthread_sigmask(SIG_SETMASK, &before, NULL); }
