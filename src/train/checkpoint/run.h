/* SPDX-License-Identifier: Apache-2.0 */
/* run.h: run.json: the caller's JSON object, and the sizes and checksums of the other files. */
#ifndef GSC_TRAIN_CHECKPOINT_RUN_H
#define GSC_TRAIN_CHECKPOINT_RUN_H

#include <stdint.h>

#include "train/checkpoint/folder.h"
#include "train/io/json.h"

/* What run.json records of another file. */
typedef struct gsc__file_sum {
    uint64_t size;
    uint32_t crc;
    bool present;
} gsc__file_sum;

/* The text of run.json, to be freed with free(). NULL without a message: no memory. */
char *gsc__run_print(json_t *run, const gsc__file_sum sums[GSC_FILES], size_t *size);
/* Whether the caller's object can be read back from run.json: it may be nested too deeply, or too large. */
gsc_status gsc__run_check(const char *who, json_t *run);
/* Parses and verifies run.json. *run: a new reference to the caller's object. */
gsc_status gsc__run_read(const gsc__generation *generation, json_t **run, gsc__file_sum sums[GSC_FILES]);

#endif
