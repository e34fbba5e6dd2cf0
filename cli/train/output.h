/* SPDX-License-Identifier: Apache-2.0 */
/* output.h: the folder of --out: its metrics file, and what it may already hold. */
#ifndef CLI_TRAIN_OUTPUT_H
#define CLI_TRAIN_OUTPUT_H

#include "train/fingerprint.h"
#include "train/metrics.h"

typedef struct output {
    const char *dir; /* borrowed */
    metrics metrics; /* open and locked: only one run at a time writes into the folder */
    fingerprint data;
} output;

/* For a new run: creates the folder if it is missing. GSC_ERR_VALUE: it already has a run, or a file that a run would
 * replace. GSC_ERR_IO: it cannot be created or written into, or another run is writing into it. */
gsc_status output_create(const char *dir, output *out);
/* For a resumed run in its own folder. GSC_ERR_IO: as above. */
gsc_status output_open(const char *dir, output *out);
void output_close(output *o); /* zeroed is fine */

/* Whether both paths lead to one folder. */
bool output_is_same(const char *dir, const char *other);

#endif
