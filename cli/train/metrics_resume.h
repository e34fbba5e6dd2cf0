/* SPDX-License-Identifier: Apache-2.0 */
/* metrics_resume.h: what a resumed run does with the lines that metrics.jsonl has already. */
#ifndef CLI_TRAIN_METRICS_RESUME_H
#define CLI_TRAIN_METRICS_RESUME_H

#include "train/metrics.h"

/* The lines that are not kept and that the run does not write again are moved here, in the same folder. */
#define METRICS_ASIDE METRICS_FILE ".aside"

typedef struct metrics_content {
    int64_t lines;         /* of the run's steps up to the checkpoint */
    int64_t foreign;       /* lines that are not of the run, incomplete, or out of order */
    int64_t first_foreign; /* the number of the first of them, from 1 */
    int64_t prefix, kept;  /* bytes of the run's lines: before the first other line, and in all */
} metrics_content;

/* Reads the file of the run in the folder `from`, whose checkpoint is of step `step`. A missing file has no lines. */
gsc_status metrics_inspect(const char *from, int64_t step, metrics_content *out);

/* Keeps the run's lines up to `step`. Later ones are dropped, since the run writes them again; foreign ones are moved
 * to METRICS_ASIDE, which is on disk before anything is cut. From another folder the run's lines are copied, and that
 * folder stays as it is. `content`: of metrics_inspect. GSC_ERR_IO: nothing is lost. */
gsc_status metrics_resume(metrics *m, const char *from, int64_t step, const metrics_content *content);

#endif
