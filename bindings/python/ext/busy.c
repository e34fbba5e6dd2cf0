/* SPDX-License-Identifier: Apache-2.0 */
/* busy.c: waiting for a scaler, and forks. */
#include "busy.h"

#include <stdbool.h>

/* All scalers share one queue, as threads hardly ever wait. `changes` is written under both the GIL and the lock: a
 * thread that saw a scaler busy under the GIL, and then gives the GIL up, misses no change. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned changes;
    int waiting; /* threads; with none, nobody is woken */
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static unsigned forks;   /* between the first process and this one */
static pthread_t forker; /* the thread that the last fork left alive */

/* Only the forking thread lives on in the child: no thread waits there, and another one may have held the lock. */
static void after_fork_in_child(void)
{
    queue.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    queue.changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    queue.waiting = 0;
    forks++;
    forker = pthread_self();
}

int busy_init(void)
{
    static bool installed;
    if (!installed && pthread_atfork(NULL, NULL, after_fork_in_child) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    installed = true;
    return 0;
}

static bool owner_survived(const busy *state) { return state->forks == forks || pthread_equal(state->owner, forker); }

/* New threads may get the identifiers of threads that a fork left behind: hence the second condition. */
static bool is_owner(const busy *state) { return pthread_equal(state->owner, pthread_self()) && owner_survived(state); }

int busy_is_lost(const busy *state) { return state->depth > 0 && !owner_survived(state); }

static int refuse_lost(void)
{
    PyErr_SetString(PyExc_RuntimeError,
                    "another thread was inside this scaler when the process was forked, so its state is unknown here; "
                    "make a new scaler in the child, or fork while no thread is inside");
    return -1;
}

static int refuse_callback(void)
{
    PyErr_SetString(PyExc_RuntimeError,
                    "another thread is inside a callback of this scaler (an optimizer's step, comm or on_event); a "
                    "scaler belongs to one thread at a time: call it when that one has returned");
    return -1;
}

static void wait_for_change(void)
{
    unsigned seen = queue.changes;
    queue.waiting++;
    PyThreadState *state = PyEval_SaveThread();
    pthread_mutex_lock(&queue.lock);
    while (queue.changes == seen)
        pthread_cond_wait(&queue.changed, &queue.lock);
    pthread_mutex_unlock(&queue.lock);
    PyEval_RestoreThread(state);
    queue.waiting--;
}

static void wake_all(void)
{
    if (queue.waiting == 0)
        return;
    pthread_mutex_lock(&queue.lock);
    queue.changes++;
    pthread_cond_broadcast(&queue.changed);
    pthread_mutex_unlock(&queue.lock);
}

int busy_enter(busy *state)
{
    while (state->depth > 0 && !is_owner(state)) {
        if (busy_is_lost(state))
            return refuse_lost();
        if (state->phase == BUSY_CALLBACK)
            return refuse_callback();
        wait_for_change();
    }
    if (state->depth++ == 0) {
        state->owner = pthread_self();
        state->forks = forks;
    }
    return 0;
}

void busy_leave(busy *state)
{
    state->depth--;
    wake_all();
}

busy_phase busy_set_phase(busy *state, busy_phase phase)
{
    busy_phase before = state->phase;
    state->phase = phase;
    wake_all();
    return before;
}

int busy_wait_for_rest(busy *state)
{
    while (state->depth > 0 && !is_owner(state)) {
        if (busy_is_lost(state))
            return refuse_lost();
        if (state->phase != BUSY_CORE)
            return 0;
        wait_for_change();
    }
    return 0;
}
