/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h: the file metrics.jsonl: a line of JSON for each step of a run. */
#ifndef CLI_TRAIN_METRICS_H
#define CLI_TRAIN_METRICS_H

#include "common/path.h"
#include "train/overflow.h"

#define METRICS_FILE "metrics.jsonl"

/* What another program did to the file while the run wrote it: its size in bytes, which the run expected and found. */
typedef struct metrics_change {
    int64_t before, after;
} metrics_change;

typedef struct metrics {
    int descriptor;
    int64_t size; /* in bytes: what this process has written or kept */
    metrics_change change;
    char path[PATH_SIZE];
} metrics;

typedef struct metric {
    int64_t step; /* from 1 */
    double loss;  /* of the batch */
    double scale; /* by which the gradients were scaled */
    gsc_outcome outcome;
    double grad_norm;
    double lr;
    double seconds;                  /* of training so far */
    const overflow_report *overflow; /* NULL: the step was not skipped */
} metric;

/* Opens or creates the file in a folder and locks it. GSC_ERR_IO: it cannot be written, or another run is writing it.
 */
gsc_status metrics_open(const char *dir, metrics *out);
void metrics_close(metrics *m);
int64_t metrics_size(const metrics *m); /* in bytes */

/* Appends a line. On failure no part of it is left. */
gsc_status metrics_add(metrics *m, const metric *line);
/* true once after another program has changed the file. */
bool metrics_take_change(metrics *m, metrics_change *out);
/* Writes at the end, and adds to m->size what was written. */
gsc_status metrics_write(metrics *m, const char *text, size_t size);
/* Flushes appended lines to disk. GSC_ERR_IO: that failed, or the file was removed or replaced, so that the lock
 * protects nothing. */
gsc_status metrics_sync(const metrics *m);

#endif
