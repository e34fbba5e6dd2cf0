/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h: the file metrics.jsonl: a line of JSON for each step of a run. */
#ifndef CLI_TRAIN_METRICS_H
#define CLI_TRAIN_METRICS_H

#include "common/path.h"

#include "gradscaler/scaler.h"

#include <stdint.h>

#define METRICS_FILE "metrics.jsonl"

typedef struct metrics {
    int descriptor;
    char path[PATH_SIZE];
} metrics;

typedef struct metric {
    int64_t step; /* from 1 */
    double loss;  /* of the batch */
    double scale; /* by which the gradients were scaled */
    gsc_outcome outcome;
    double grad_norm;
    double lr;
    double seconds; /* of training so far */
} metric;

/* Opens or creates the file in a folder and locks it. GSC_ERR_IO: it cannot be written, or another run is writing it.
 */
gsc_status metrics_open(const char *dir, metrics *out);
void metrics_close(metrics *m);
int64_t metrics_size(const metrics *m); /* in bytes */

/* Restores the content after `step` steps of the run in the folder `from`, which may be the file's own folder: later
 * lines and broken ones are dropped. *last: the step of the last line; less than `step` if lines are missing. */
gsc_status metrics_resume(metrics *m, const char *from, int64_t step, int64_t *last);

gsc_status metrics_add(metrics *m, const metric *line);
/* Flushes appended lines to disk. GSC_ERR_IO: that failed, or the file was removed or replaced, so that the lock
 * protects nothing. */
gsc_status metrics_sync(const metrics *m);

#endif
