/* SPDX-License-Identifier: Apache-2.0 */
/* parallel.c: the thread pool, or the host's parallel-for in its place.
 *
 * The pool runs one loop at a time. It calls as many workers as the loop can use, the first ones; the others are not
 * woken. Workers that are called join the open loop and take indices from a shared counter. The calling thread does the
 * same, closes the loop when no index is left, and waits for the workers that have joined, not for those that still
 * sleep. A thread that waits spins for SPINS pauses, then sleeps. */
#define _POSIX_C_SOURCE 200809L /* pthread_sigmask */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/parallel.h"

#include "base/cores.h"
#include "base/fpenv.h"
#include "gradscaler/runtime.h"
#include "gradscaler/status.h"

enum {
    MAX_THREADS = 1024,
    SPINS = 4000 /* calls of relax() before a waiting thread sleeps */
};

typedef struct parallel_loop {
    gsc_task *task;
    void *ctx;
    size_t count;
    atomic_size_t next; /* the first index that no thread has taken */
} parallel_loop;

/* On a cache line of its own, where it spins. `calls` and `awake` change with the pool's lock held only. They are
 * atomic because other threads read them without it. */
typedef struct worker {
    _Alignas(64) pthread_cond_t called;
    pthread_t thread;
    atomic_uint calls; /* changes when this worker is called */
    atomic_bool awake; /* it does not wait on `called` */
} worker;

static struct {
    worker workers[MAX_THREADS];
    pthread_mutex_t lock;    /* guards all members but `busy` */
    pthread_cond_t departed; /* the last joined worker has finished */
    int started;             /* workers */
    int limit;               /* workers 0 … limit - 1 may join the open loop */
    parallel_loop *loop;     /* the open loop; NULL: none */
    bool quit;
    atomic_int joined; /* workers that run the loop; changes with the lock held, is read by a spinning thread */
    atomic_flag busy;  /* a loop is running: another thread's loop, or one inside a task, runs without workers */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .departed = PTHREAD_COND_INITIALIZER, .busy = ATOMIC_FLAG_INIT};

static atomic_int wanted_threads; /* 0: all cores */

/* The host's parallel-for. It is set only while no other thread is inside the library, so no lock guards it. */
static struct {
    gsc_parallel_for *fn; /* NULL: none, the pool is used */
    void *host;
} host_loop;

static pthread_once_t fork_handlers = PTHREAD_ONCE_INIT;

/* One pause of a spinning thread. */
static void relax(void)
{
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void run_indices(parallel_loop *loop)
{
    gsc__fpenv callers_env = gsc__fpenv_enter();
    for (size_t i; (i = atomic_fetch_add_explicit(&loop->next, 1, memory_order_relaxed)) < loop->count;)
        loop->task(loop->ctx, i);
    gsc__fpenv_leave(callers_env);
}

static void wait_for_call(worker *self, unsigned seen)
{
    for (int spin = 0; spin < SPINS; spin++) {
        if (atomic_load_explicit(&self->calls, memory_order_acquire) != seen)
            return;
        relax();
    }
    pthread_mutex_lock(&pool.lock);
    atomic_store(&self->awake, false);
    while (atomic_load_explicit(&self->calls, memory_order_relaxed) == seen)
        pthread_cond_wait(&self->called, &pool.lock);
    atomic_store(&self->awake, true);
    pthread_mutex_unlock(&pool.lock);
}

/* With pool.lock held. */
static void call_workers(int count)
{
    for (int i = 0; i < count && i < pool.started; i++) {
        worker *called = &pool.workers[i];
        atomic_fetch_add_explicit(&called->calls, 1, memory_order_release);
        if (!atomic_load(&called->awake))
            pthread_cond_signal(&called->called);
    }
}

static void *work(void *argument)
{
    worker *self = argument;
    unsigned seen = 0;
    for (;;) {
        wait_for_call(self, seen);
        pthread_mutex_lock(&pool.lock);
        bool quit = pool.quit;
        seen = atomic_load_explicit(&self->calls, memory_order_relaxed);
        parallel_loop *loop = !quit && self - pool.workers < pool.limit ? pool.loop : NULL;
        if (loop)
            atomic_fetch_add(&pool.joined, 1);
        pthread_mutex_unlock(&pool.lock);
        if (quit)
            return NULL;
        if (!loop)
            continue;
        run_indices(loop);
        pthread_mutex_lock(&pool.lock);
        if (atomic_fetch_sub(&pool.joined, 1) == 1)
            pthread_cond_signal(&pool.departed);
        pthread_mutex_unlock(&pool.lock);
    }
}

/* With pool.lock held. */
static bool start_worker(worker *started)
{
    pthread_cond_init(&started->called, NULL);
    atomic_store(&started->calls, 0);
    atomic_store(&started->awake, true);
    if (pthread_create(&started->thread, NULL, work, started) == 0)
        return true;
    atomic_store(&started->awake, false);
    return false;
}

/* With pool.lock held. Fewer threads than wanted is no error: the calling thread does the rest. */
static void start_workers(int count)
{
    sigset_t all, before; /* workers block all signals, so that the host's threads get them */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.started < count && !pool.quit && start_worker(&pool.workers[pool.started]))
        pool.started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void before_fork(void) { pthread_mutex_lock(&pool.lock); }

static void after_fork_in_parent(void) { pthread_mutex_unlock(&pool.lock); }

/* The child has only the thread that forked, so its pool begins without workers. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.departed, NULL);
    pool.started = 0;
    atomic_store(&pool.workers[0].awake, false);
    pool.loop = NULL;
    atomic_store(&pool.joined, 0);
    atomic_flag_clear(&pool.busy);
}

static void install_fork_handlers(void) { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

static void open_loop(parallel_loop *loop, int helpers)
{
    pthread_once(&fork_handlers, install_fork_handlers);
    pthread_mutex_lock(&pool.lock);
    if (pool.started < helpers)
        start_workers(helpers);
    pool.limit = helpers;
    pool.loop = loop;
    call_workers(helpers);
    pthread_mutex_unlock(&pool.lock);
}

static void close_loop(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.loop = NULL;
    pthread_mutex_unlock(&pool.lock);
    for (int spin = 0; spin < SPINS && atomic_load(&pool.joined) > 0; spin++)
        relax();
    int cancellable; /* the wait is a cancellation point, and the workers still use the loop */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
    pthread_mutex_lock(&pool.lock);
    while (atomic_load(&pool.joined) > 0)
        pthread_cond_wait(&pool.departed, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
    pthread_setcancelstate(cancellable, NULL);
}

static int thread_count(void)
{
    int wanted = atomic_load_explicit(&wanted_threads, memory_order_relaxed);
    if (wanted > 0)
        return wanted;
    static atomic_int cores; /* 0: not known yet. Kept, since to ask takes longer than a small loop. */
    int known = atomic_load_explicit(&cores, memory_order_relaxed);
    if (known == 0) {
        known = gsc__usable_cores("");
        known = known < MAX_THREADS ? known : MAX_THREADS;
        atomic_store_explicit(&cores, known, memory_order_relaxed);
    }
    return known;
}

/* A host does not say how many threads it has, so with one the answer is an upper bound. */
int gsc__parallel_threads(void) { return host_loop.fn ? MAX_THREADS : thread_count(); }

static atomic_bool assume_awake;

bool gsc__parallel_awake(void)
{
    return host_loop.fn || atomic_load_explicit(&pool.workers[0].awake, memory_order_relaxed) ||
           atomic_load_explicit(&assume_awake, memory_order_relaxed);
}

void gsc__parallel_assume_awake(bool assume) { atomic_store(&assume_awake, assume); }

/* One index of a host's loop. A host may run each on any thread, so each enters the environment. */
static void run_one(void *ctx, size_t index)
{
    const parallel_loop *loop = ctx;
    GSC_FPENV_SCOPE;
    loop->task(loop->ctx, index);
}

void gsc_parallel_run(size_t count, gsc_task *task, void *ctx)
{
    parallel_loop loop = {.task = task, .ctx = ctx, .count = count};
    if (host_loop.fn && count > 1) {
        host_loop.fn(host_loop.host, count, run_one, &loop);
        return;
    }
    int threads = count > 1 ? thread_count() : 1;
    if (threads < 2 || atomic_flag_test_and_set_explicit(&pool.busy, memory_order_acquire)) {
        run_indices(&loop);
        return;
    }
    size_t helpers = (size_t)threads < count ? (size_t)threads - 1 : count - 1;
    open_loop(&loop, (int)helpers);
    run_indices(&loop);
    close_loop();
    atomic_flag_clear_explicit(&pool.busy, memory_order_release);
}

void gsc_set_num_threads(int32_t n)
{
    if (n < 0) {
        gsc_fail(GSC_ERR_VALUE, "gsc_set_num_threads: n is %d, allowed are 0 (all cores) and more", (int)n);
        return;
    }
    atomic_store_explicit(&wanted_threads, n < MAX_THREADS ? n : MAX_THREADS, memory_order_relaxed);
}

void gsc_set_parallel_for(gsc_parallel_for *fn, void *host)
{
    host_loop.fn = fn;
    host_loop.host = host;
}

/* Ends the threads before a program unloads the library, and at exit, where leak checkers would report them. */
__attribute__((destructor)) static void stop_workers(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.quit = true;
    call_workers(pool.started);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < pool.started; i++)
        pthread_join(pool.workers[i].thread, NULL);
    pool.started = 0;
    atomic_store(&pool.workers[0].awake, false);
}
