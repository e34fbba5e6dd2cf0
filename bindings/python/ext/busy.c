/* SPDX-License-Identifier: Apache-2.0 */
#include "busy.h"

#include <stdbool.h>

/* All scalers share one place to wait: it is hardly ever used. `changes` counts under both the GIL and the lock, so
 * that one who has seen a scaler busy under the GIL and gives that up cannot miss what comes next. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned changes;
    int waiting; /* threads; nobody is woken where there are none */
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static unsigned forks;   /* that lie behind this process */
static pthread_t forker; /* the thread that came through the last one */

/* Only the forking thread lives on in the child: nobody waits there, and the lock may have been held by another. */
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

static bool owner_lives(const busy *state) { return state->forks == forks || pthread_equal(state->owner, forker); }

/* Identifiers of threads that a fork left behind are given to new threads, hence the second question. */
static bool is_mine(const busy *state) { return pthread_equal(state->owner, pthread_self()) && owner_lives(state); }

int busy_is_lost(const busy *state) { return state->depth > 0 && !owner_lives(state); }

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
    while (state->depth > 0 && !is_mine(state)) {
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

busy_phase busy_change(busy *state, busy_phase phase)
{
    busy_phase before = state->phase;
    state->phase = phase;
    wake_all();
    return before;
}

int busy_wait_for_rest(busy *state)
{
    while (state->depth > 0 && !is_mine(state)) {
        if (busy_is_lost(state))
            return refuse_lost();
        if (state->phase != BUSY_CORE)
            return 0;
        wait_for_change();
    }
    return 0;
}
