/* SPDX-License-Identifier: Apache-2.0 */
/* data_source.h: finds the data that --data names, and loads them as a task. */
#ifndef CLI_TRAIN_DATA_SOURCE_H
#define CLI_TRAIN_DATA_SOURCE_H

#include "common/path.h"
#include "train/task.h"

typedef struct data_source {
    const char *name;
    const char *folder;        /* NULL: the synthetic data */
    char installed[PATH_SIZE]; /* where Fashion-MNIST was looked for */
} data_source;

/* `data` is the value of --data. NULL: Fashion-MNIST if it is installed, else the synthetic data, after a line on
 * stderr. false after a line on stderr: not found. */
bool data_source_find(const char *data, data_source *out);

/* Reads or generates the data. The source is borrowed. Release *out with task_release, also after an error. */
gsc_status data_source_load(const data_source *source, train_task *out);

#endif
