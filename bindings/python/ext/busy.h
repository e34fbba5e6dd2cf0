/* SPDX-License-Identifier: Apache-2.0 */
/* busy.h: one thread at a time inside a scaler. Every function is called with the GIL, which guards all of this. */
#ifndef EXT_BUSY_H
#define EXT_BUSY_H

#include "module.h"

#include <pthread.h>

typedef enum busy_phase {
    BUSY_ARRAYS,  /* borrows or gives back arrays: Python code, but soon over */
    BUSY_CORE,    /* in the core; whoever sees it has the GIL, so the owner has given it up */
    BUSY_CALLBACK /* in the user's code, which may wait for the very thread that asks */
} busy_phase;

/* All zero: free. Its owner may enter again, from callbacks. */
typedef struct busy {
    int depth;
    busy_phase phase;
    pthread_t owner;
    unsigned forks; /* that this process had behind it when the owner entered */
} busy;

/* Call once, before the first scaler is made. 0, or -1 with a Python exception. */
int busy_init(void);

/* For calls that change the scaler: waits without the GIL while another thread is inside, then it is ours until
 * busy_leave. -1 with RuntimeError: the other one is in a callback, or was left behind by a fork. */
int busy_enter(busy *state);
void busy_leave(busy *state);
/* The owner goes on to another phase; returns the one before. */
busy_phase busy_change(busy *state, busy_phase phase);

/* For calls that only look at what the core keeps of optimizers: waits while another thread is in the core. It is at
 * rest until this thread gives up the GIL. -1 with RuntimeError: the other one was left behind by a fork. */
int busy_wait_for_rest(busy *state);

/* Whether a fork has cut a call off, so that nobody may touch the core's memory again. */
int busy_is_lost(const busy *state);

#endif
