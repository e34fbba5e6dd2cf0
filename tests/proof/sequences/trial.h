/* SPDX-License-Identifier: Apache-2.0 */
/* trial.h: a scaler beside its model. */
#ifndef GSC_TESTS_SEQUENCES_TRIAL_H
#define GSC_TESTS_SEQUENCES_TRIAL_H

#include "model.h"
#include "subject.h"

/* Makes calls[n - 1], after the others, on both. A difference is printed and ends the program with 1. */
void trial_check(subject *s, model *m, const call *calls, int n, const char *title);
void trial_out_of_memory(void);

/* Runs work(context + i * size) for i = 0 … threads - 1, each on a thread. */
void run_threads(int threads, void *(*work)(void *), void *contexts, size_t size);

#endif
