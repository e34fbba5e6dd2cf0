/* SPDX-License-Identifier: Apache-2.0 */
/* wait.c: what a call does between two polls, and when it has waited long enough. */
#define _POSIX_C_SOURCE 200809L

#include <sched.h>
#include <time.h>

#include "mpi/internal.h"

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void sleep_for(long nanoseconds) { nanosleep(&(struct timespec){.tv_nsec = nanoseconds}, NULL); }

/* Other ranks may need this core, so it is given away after some microseconds. What arrives after a long wait is found
 * up to a millisecond late. */
enum { SPINS = 64, LATE_POLLS = 100 };
static const double yield_seconds = 500e-6, nap_seconds = 0.02;

bool gsc__mpi_wait_expired(gsc__mpi_wait *wait, uint64_t progress, double timeout)
{
    if (wait->progress != progress) {
        *wait = (gsc__mpi_wait){.progress = progress};
        return false;
    }
    if (wait->polls++ < SPINS)
        return false;
    if (wait->since == 0.0)
        wait->since = now();
    double waited = now() - wait->since;
    if (waited >= timeout) {
        /* A process that was stopped, or a machine that slept, first looks at what has arrived meanwhile. */
        if (wait->late++ == LATE_POLLS)
            return true;
        sleep_for(100000);
    } else if (waited < yield_seconds) {
        sched_yield();
    } else {
        sleep_for(waited < nap_seconds ? 50000 : 1000000);
    }
    return false;
}
