/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h: the bar on a terminal. Where stderr is none, nothing is written. */
#ifndef CLI_TRAIN_PROGRESS_H
#define CLI_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    bool shown;    /* stderr is a terminal */
    bool drawn;    /* the bar stands on the current line */
    int64_t first; /* steps done before */
    double begin, last;
} progress;

/* What one line tells. */
typedef struct progress_state {
    int64_t step, steps; /* done and in all, skipped ones included */
    int64_t epoch, skipped;
    int64_t examples; /* since progress_begin */
    const char *rate_unit;
    double loss, scale;
} progress_state;

/* step: done before. */
void progress_begin(progress *p, int64_t step);
/* After each step; redraws at most ten times a second. */
void progress_update(progress *p, const progress_state *state);
/* Removes the bar, so that something else can be written; the next update draws it again. */
void progress_clear(progress *p);

#endif
