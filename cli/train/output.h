/* SPDX-License-Identifier: Apache-2.0 */
/* output.h: the folder that a run is kept in. */
#ifndef CLI_TRAIN_OUTPUT_H
#define CLI_TRAIN_OUTPUT_H

#include "train/fingerprint.h"
#include "train/metrics.h"

typedef struct output {
    const char *dir; /* borrowed */
    metrics metrics; /* open and locked, so that one run at a time writes into the folder */
    fingerprint data;
} output;

/* For a new run: makes the folder where it is missing. GSC_ERR_VALUE: a run, or a file with the name of one of a run's,
 * is there already. GSC_ERR_IO: it cannot be made or written into, or another run is writing into it. */
gsc_status output_create(const char *dir, output *out);
/* The folder of a run that goes on. GSC_ERR_IO: as above. */
gsc_status output_open(const char *dir, output *out);
void output_close(output *o); /* zeroed is fine */

/* Whether both paths lead to one folder. */
bool output_is_same(const char *dir, const char *other);

#endif
