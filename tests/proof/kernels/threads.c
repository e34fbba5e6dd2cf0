/* SPDX-License-Identifier: Apache-2.0 */
/* threads.c: this program's own threads, because those of the library are under test. */
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "prove.h"

enum { MOST_THREADS = 256 };

typedef struct work {
    prove_task *task;
    void *ctx;
    uint64_t count;
    _Atomic uint64_t next;
} work;

static void *run_tasks(void *shared)
{
    work *all = shared;
    for (uint64_t index; (index = atomic_fetch_add(&all->next, 1)) < all->count;)
        all->task(all->ctx, index);
    return NULL;
}

void prove_run(int threads, uint64_t count, prove_task *task, void *ctx)
{
    pthread_t others[MOST_THREADS];
    int started = 0;
    work all = {.task = task, .ctx = ctx, .count = count};
    while (started < threads - 1 && started < MOST_THREADS &&
           pthread_create(&others[started], NULL, run_tasks, &all) == 0)
        started++;
    run_tasks(&all);
    while (started > 0)
        pthread_join(others[--started], NULL);
}

void prove_fail(const char *format, ...)
{
    static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
    va_list arguments;
    pthread_mutex_lock(&first); /* never unlocked: one difference is reported */
    va_start(arguments, format);
    fputs("prove_kernels: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(1);
}
