/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c: what has to hold on the calling thread while oneDNN works. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "train/dnnl/guard.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

/* OpenMP has the only setting for oneDNN's threads. Which OpenMP runtime oneDNN brought along, if any, is known at run
 * time only. */
static struct {
    int (*get_max_threads)(void);
    void (*set_num_threads)(int);
} openmp;

static pthread_once_t openmp_found = PTHREAD_ONCE_INIT;

static void find_openmp(void)
{
    void *get = dlsym(RTLD_DEFAULT, "omp_get_max_threads"), *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads");
    if (!get || !set)
        return;
    memcpy(&openmp.get_max_threads, &get, sizeof get); /* POSIX has this conversion, ISO C has not */
    memcpy(&openmp.set_num_threads, &set, sizeof set);
}

int gsc__hold_openmp(void)
{
    pthread_once(&openmp_found, find_openmp);
    int threads = openmp.get_max_threads ? openmp.get_max_threads() : 1;
    if (threads > 1)
        openmp.set_num_threads(1);
    return threads;
}

void gsc__release_openmp(int threads)
{
    if (threads > 1)
        openmp.set_num_threads(threads);
}

sigset_t gsc__hold_signals(void)
{
    static const int not_held[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigset_t held, before;
    sigfillset(&held);
    for (size_t i = 0; i < sizeof not_held / sizeof *not_held; i++)
        sigdelset(&held, not_held[i]);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    return before;
}

void gsc__release_signals(sigset_t before) { pthread_sigmask(SIG_SETMASK, &before, NULL); }
