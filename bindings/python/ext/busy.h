/* SPDX-License-Identifier: Apache-2.0 */
/* busy.h: one thread at a time inside a scaler. Every function is called with the GIL, which guards all of this. */
#ifndef EXT_BUSY_H
#define EXT_BUSY_H

#include "python.h"

#include <pthread.h>

/* What the owner is doing inside the scaler. */
typedef enum busy_phase {
    BUSY_ARRAYS,  /* borrows or gives back arrays: Python code, but soon over */
    BUSY_CORE,    /* in the core; a thread that sees this holds the GIL, so the owner has given it up */
    BUSY_CALLBACK /* in the user's code, which may wait for the very thread that asks */
} busy_phase;

/* All zero: free. The owner may enter again, from callbacks. */
typedef struct busy {
    int depth; /* how often the owner has entered */
    busy_phase phase;
    pthread_t owner;
    unsigned forks; /* the process's count of forks when the owner entered */
} busy;

/* Call once, before the first scaler is made. 0, or -1 with a Python exception. */
int busy_init(void);

/* For calls that change the scaler: waits without the GIL while another thread is inside, then makes this thread the
 * owner until busy_leave. -1 with RuntimeError: the other thread is in a callback, or was left behind by a fork. */
int busy_enter(busy *state);
void busy_leave(busy *state);
/* The owner goes on to another phase; returns the phase before. */
busy_phase busy_set_phase(busy *state, busy_phase phase);

/* For calls that only read what the core keeps about optimizers: waits while another thread is in the core. Afterwards
 * nothing changes until this thread gives up the GIL. -1 with RuntimeError: the other thread was left behind by a
 * fork. */
int busy_wait_for_rest(busy *state);

/* Whether a fork has cut a call short: the core's memory must not be touched again. */
int busy_is_lost(const busy *state);

#endif
