/* SPDX-License-Identifier: Apache-2.0 */
/* folder.h: the files, folders and links of a checkpoint, and the switch from the old checkpoint to the new one. */
#ifndef GSC_TRAIN_CHECKPOINT_FOLDER_H
#define GSC_TRAIN_CHECKPOINT_FOLDER_H

#include <stdbool.h>

#include "gradscaler/status.h"

/* In the order in which they are written: run.json lists the others. */
enum { GSC_FILE_MODEL, GSC_FILE_OPTIMIZER, GSC_FILE_SCALER, GSC_FILE_RUN, GSC_FILES };
extern const char *const gsc__checkpoint_files[GSC_FILES];

/* A folder that holds the files of one checkpoint. */
typedef struct gsc__generation {
    int folder;
    char *paths[GSC_FILES]; /* for messages */
} gsc__generation;
/* Opens the current checkpoint. Close it with gsc__generation_close. */
gsc_status gsc__generation_open(const char *dir, gsc__generation *out);
void gsc__generation_close(gsc__generation *generation);

/* A folder that a checkpoint is being saved into, locked against other saves. */
typedef struct gsc__saving {
    const char *dir;
    int folder;
    int next;                   /* which generation is being written: the one that is not current */
    gsc__generation generation; /* empty at first */
} gsc__saving;
gsc_status gsc__saving_begin(const char *dir, gsc__saving *out);
/* `status` is that of the writes. GSC_OK: makes the new generation the current one, durably. An error, also one of
 * these steps, removes the files that were written. Closes everything. Returns the first error. */
gsc_status gsc__saving_finish(gsc__saving *saving, const bool present[GSC_FILES], gsc_status status);

#endif
