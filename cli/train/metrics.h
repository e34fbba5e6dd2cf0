/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.h: metrics.jsonl, a line of JSON for each step of a run. */
#ifndef CLI_TRAIN_METRICS_H
#define CLI_TRAIN_METRICS_H

#include "common/path.h"

#include "gradscaler/scaler.h"

#include <stdint.h>

typedef struct metrics {
    int descriptor;
    char path[PATH_SIZE];
} metrics;

typedef struct metric {
    int64_t step; /* from 1 */
    double loss;  /* of the batch */
    double scale; /* that the gradients were scaled by */
    gsc_outcome outcome;
    double grad_norm;
    double lr;
    double seconds; /* of training until here */
} metric;

/* Opens or makes the file in a folder and locks it. GSC_ERR_IO: it cannot be written, or another run is writing it. */
gsc_status metrics_open(const char *dir, metrics *out);
void metrics_close(metrics *m);
int64_t metrics_size(const metrics *m); /* in bytes */

/* Makes it what it was after `step` steps of the run in the folder `from`, which may be its own: later and broken lines
 * go. *last: the step of the last line; less than `step` where lines are missing. */
gsc_status metrics_resume(metrics *m, const char *from, int64_t step, int64_t *last);

gsc_status metrics_add(metrics *m, const metric *line);
/* Makes what was added last. GSC_ERR_IO: it cannot, or the file was removed or replaced, and with it the lock. */
gsc_status metrics_sync(const metrics *m);

#endif
