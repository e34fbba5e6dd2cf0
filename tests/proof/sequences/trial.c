/* SPDX-License-Identifier: Apache-2.0 */
/* trial.c: makes each call on the scaler and on the model, and compares. */
#include <pthread.h>
#include <stdlib.h>

#include "trial.h"

static pthread_mutex_t printing =
    PTHREAD_MUTEX_INITIALIZER; /* the first thread that finds a difference never unlocks it */

void trial_check(subject *s, model *m, const call *calls, int n, const char *title)
{
    observation expected, actual;
    model_perform(m, &calls[n - 1], &expected);
    subject_perform(s, &calls[n - 1], &actual);
    if (observations_equal(&expected, &actual, m->count))
        return;
    pthread_mutex_lock(&printing);
    fprintf(stderr, "%s:\n", title);
    print_difference(stderr, calls, n, &expected, &actual, m->count);
    exit(1);
}

void trial_out_of_memory(void)
{
    pthread_mutex_lock(&printing);
    fprintf(stderr, "no memory, or no thread, or the scaler cannot be made: %s\n", gsc_last_error());
    exit(1);
}

void run_threads(int threads, void *(*work)(void *), void *contexts, size_t size)
{
    pthread_t *started = calloc((size_t)threads, sizeof *started);
    if (!started)
        trial_out_of_memory();
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&started[i], NULL, work, (char *)contexts + (size_t)i * size) != 0)
            trial_out_of_memory();
    }
    for (int i = 0; i < threads; i++)
        pthread_join(started[i], NULL);
    free(started);
}
