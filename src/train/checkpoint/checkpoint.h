/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h: the parts of checkpoints. checkpoint.c checks what callers give, checkpoint_save.c and
 * checkpoint_load.c save and load, checkpoint_folder.c has the folders and links, checkpoint_run.c run.json,
 * checkpoint_optim.c the optimizers as tensors, checkpoint_scaler.c scaler.json. */
#ifndef GSC_TRAIN_CHECKPOINT_CHECKPOINT_H
#define GSC_TRAIN_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradscaler/checkpoint.h"
#include "train/io/files.h"
#include "train/io/json.h"
#include "train/io/safetensors_read.h"
#include "train/io/safetensors_write.h"

/* run.json is the last: it tells of the others. */
enum { GSC_FILE_MODEL, GSC_FILE_OPTIMIZER, GSC_FILE_SCALER, GSC_FILE_RUN, GSC_FILES };
extern const char *const gsc__checkpoint_files[GSC_FILES];

gsc_status gsc__checkpoint_check(const char *function, const char *dir, const gsc_checkpoint *checkpoint);

/* A folder that holds the files of one checkpoint. */
typedef struct gsc__generation {
    int folder;
    char *paths[GSC_FILES]; /* for messages */
} gsc__generation;
/* Opens the checkpoint that is in force. Close it with gsc__generation_close. */
gsc_status gsc__generation_find(const char *dir, gsc__generation *out);
void gsc__generation_close(gsc__generation *generation);

/* A folder being saved into, locked against other saves, and its next generation, empty. */
typedef struct gsc__saving {
    const char *dir;
    int folder;
    int next; /* number of the generation being written: the one that is not in force */
    gsc__generation generation;
} gsc__saving;
gsc_status gsc__saving_begin(const char *dir, gsc__saving *out);
/* After success so far: makes the generation the one in force, durably. Otherwise, and on failure, removes what was
 * written. Closes all. Returns the first error. */
gsc_status gsc__saving_finish(gsc__saving *saving, const bool present[GSC_FILES], gsc_status so_far);

/* What run.json says of another file. */
typedef struct gsc__file_sum {
    uint64_t size;
    uint32_t crc;
    bool present;
} gsc__file_sum;
/* The text of run.json, to be freed with free(). NULL without a message: no memory. */
char *gsc__run_print(json_t *run, const gsc__file_sum sums[GSC_FILES], size_t *size);
/* Whether the caller's object can be read back from run.json: it may be nested too deeply, or too large. */
gsc_status gsc__run_check(const char *who, json_t *run);
/* Parses run.json and verifies it. */
gsc_status gsc__run_read(const gsc__generation *generation, json_t **run, gsc__file_sum sums[GSC_FILES]);

/* Optimizers as tensors: those of `scalars` (learning rates and step counts, a copy) come first, then the states (the
 * optimizers' own memory). */
typedef struct gsc__optim_tensors {
    gsc_named_tensor *tensors;
    size_t count, scalar_count;
    gsc_metadata *kinds; /* one an optimizer */
    size_t kind_count;
    DLTensor *scalars;
    double *rates;
    int64_t *steps, *groups;
} gsc__optim_tensors;
gsc_status gsc__optim_tensors_create(const char *who, const gsc_named_optim *optims, size_t n, gsc__optim_tensors *out);
void gsc__optim_tensors_free(gsc__optim_tensors *tensors); /* zeroed is fine */
/* Whether the optimizers can take the scalars. */
gsc_status gsc__optim_tensors_check(const char *who, const gsc__optim_tensors *tensors, const gsc_named_optim *optims,
                                    size_t n);
/* Gives the optimizers the scalars. */
void gsc__optim_tensors_apply(const gsc__optim_tensors *tensors, const gsc_named_optim *optims, size_t n);

/* The text of scaler.json, to be freed with free(); NULL with a message on failure. */
char *gsc__scalers_print(const gsc_named_scaler *scalers, size_t n);
/* The states in it, in the order of the scalers. */
gsc_status gsc__scalers_parse(const char *path, const char *text, size_t size, const gsc_named_scaler *scalers,
                              size_t n, gsc_scaler_state *states);

#endif
