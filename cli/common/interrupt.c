/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.c: signal handlers. */
#define _POSIX_C_SOURCE 200809L /* sigaction */
#include "common/interrupt.h"

#include <signal.h>
#include <stddef.h>

static const int signals[] = {SIGINT, SIGTERM};
#define SIGNALS (sizeof signals / sizeof *signals)

static volatile sig_atomic_t recorded;
static volatile sig_atomic_t is_handled[SIGNALS];

/* A further signal then ends the process. */
static void restore_defaults(void)
{
    for (size_t i = 0; i < SIGNALS; i++) {
        if (is_handled[i])
            signal(signals[i], SIG_DFL);
        is_handled[i] = 0;
    }
}

static void record(int number)
{
    recorded = number;
    restore_defaults();
}

void interrupt_begin(void)
{
    signal(SIGXFSZ, SIG_IGN); /* then write fails instead, as on a full disk */
    struct sigaction action = {.sa_handler = record, .sa_flags = SA_RESTART}, old;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < SIGNALS; i++)
        sigaddset(&action.sa_mask, signals[i]);
    for (size_t i = 0; i < SIGNALS; i++) {
        if (sigaction(signals[i], NULL, &old) != 0 || old.sa_handler == SIG_IGN)
            continue;
        is_handled[i] = 1;
        sigaction(signals[i], &action, NULL);
    }
}

int interrupt_signal(void) { return recorded; }

const char *interrupt_name(void) { return recorded == SIGINT ? "SIGINT" : "SIGTERM"; }
