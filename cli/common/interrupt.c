/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* sigaction */
#include "common/interrupt.h"

#include <signal.h>
#include <stddef.h>

static const int signals[] = {SIGINT, SIGTERM};
#define SIGNALS (sizeof signals / sizeof *signals)

static volatile sig_atomic_t noted;
static volatile sig_atomic_t is_handled[SIGNALS];

static void act_at_once(void)
{
    for (size_t i = 0; i < SIGNALS; i++) {
        if (is_handled[i])
            signal(signals[i], SIG_DFL);
        is_handled[i] = 0;
    }
}

static void note(int number)
{
    noted = number;
    act_at_once();
}

void interrupt_begin(void)
{
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of write, as a full disk is */
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART}, old;
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

int interrupt_signal(void) { return noted; }

const char *interrupt_name(void) { return noted == SIGINT ? "SIGINT" : "SIGTERM"; }
