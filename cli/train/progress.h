/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h: the progress bar on stderr. Writes nothing if stderr is not a terminal. */
#ifndef CLI_TRAIN_PROGRESS_H
#define CLI_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    bool shown;    /* stderr is a terminal */
    bool drawn;    /* the bar is on the current line */
    int64_t first; /* steps done before progress_begin */
    double begin;  /* times of progress_begin and of the last drawing */
    double last;
} progress;

/* What the bar shows. */
typedef struct progress_state {
    int64_t step, steps; /* so far and in all, skipped ones included */
    int64_t epoch, skipped;
    int64_t examples; /* since progress_begin */
    const char *rate_unit;
    double loss, scale;
} progress_state;

/* `step`: steps done before. */
void progress_begin(progress *p, int64_t step);
/* Call it after each step; it draws at most ten times a second. */
void progress_update(progress *p, const progress_state *state);
/* Erases the bar, so that something else can be written; the next update draws it again. */
void progress_clear(progress *p);

#endif
