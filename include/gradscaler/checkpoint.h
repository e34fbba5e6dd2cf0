/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h: the state of a run in a folder, saved and loaded as a whole or not at all.
 *
 *     model.safetensors      the tensors
 *     optimizer.safetensors  each optimizer's learning rates, and each parameter's step count and state
 *     scaler.json            the scaler's state dict, in the form of state_json.h
 *     run.json               the caller's own JSON object (`run`), and the size and CRC-32 of the other files
 *
 * A file exists if something of its kind was saved; run.json always does. These names are symbolic links into
 * `checkpoint`, itself a link to one of the folders `checkpoint-0` and `checkpoint-1`. A save writes the one that
 * `checkpoint` does not lead to, syncs it, and switches the link with one rename: killed or failing at any moment, it
 * leaves all files of the last complete save. The save before the last one stays in the other folder until the next
 * save, so a folder takes the space of two. Copies of the folder load too, whether or not they kept the links. */
#ifndef GRADSCALER_CHECKPOINT_H
#define GRADSCALER_CHECKPOINT_H

#include "gradscaler/optim.h"
#include "gradscaler/safetensors.h"
#include "gradscaler/scaler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The names above. */
#define GSC_CHECKPOINT_MODEL "model.safetensors"
#define GSC_CHECKPOINT_OPTIMIZER "optimizer.safetensors"
#define GSC_CHECKPOINT_SCALER "scaler.json"
#define GSC_CHECKPOINT_RUN "run.json"
#define GSC_CHECKPOINT_CURRENT "checkpoint"
#define GSC_CHECKPOINT_0 "checkpoint-0"
#define GSC_CHECKPOINT_1 "checkpoint-1"

/* The name may be NULL if it is the only one in its list; several need names that differ and are not empty. */
typedef struct gsc_named_optim {
    const char *name;
    gsc_optim *optim;
} gsc_named_optim;

typedef struct gsc_named_scaler {
    const char *name;
    gsc_scaler *scaler;
} gsc_named_scaler;

/* What is saved, or what is loaded into. Everything is borrowed; a list may be NULL if its count is 0. */
typedef struct gsc_checkpoint {
    const gsc_named_tensor *tensors;
    size_t tensor_count;
    const gsc_named_optim *optims;
    size_t optim_count;
    const gsc_named_scaler *scalers;
    size_t scaler_count;
    const char *run; /* a JSON object: step, epoch, random states …; NULL: {}. Ignored by load */
    uint64_t reserved[8];
} gsc_checkpoint;

/* Saves into an existing folder, on a file system with symbolic links. Call it between iterations: an iteration under
 * way is not part of a scaler's state. Everything is checked before the first write. After an error the folder holds
 * the checkpoint that it held before, or, if only the last sync failed, the new one; always a whole one. The next save
 * removes what a killed save left.
 * Errors: GSC_ERR_VALUE (a list, name, tensor or JSON; two parameters with one name; a folder in which `checkpoint` is
 * not a link made by this function, as in copies that followed links: save into another folder), GSC_ERR_DEVICE,
 * GSC_ERR_IO naming the file (full disk, read-only or removed folder, another save under way in this folder),
 * GSC_ERR_MEMORY. */
GSC_API gsc_status gsc_checkpoint_save(const char *dir, const gsc_checkpoint *checkpoint);

/* Loads into tensors, optimizers and scalers that were created like the saved ones. A kind whose count is 0 is left
 * out; for the others, the saved and the given ones must agree: names, dtypes, shapes, the kind of each optimizer and
 * its groups. Everything, also the checksums, is verified before the first change: all is loaded or nothing. A disabled
 * scaler ignores its state; an enabled one refuses the empty state of a disabled one (GSC_ERR_STATE), and each refuses
 * to load within an iteration (GSC_ERR_STATE). *run (may be NULL), on success: the JSON object given to save, one line,
 * to be freed with gsc_free. Errors, naming file and entry: GSC_ERR_VALUE (damaged, or saved from other objects),
 * GSC_ERR_STATE, GSC_ERR_DEVICE, GSC_ERR_IO (no checkpoint there, cannot be read), GSC_ERR_MEMORY. */
GSC_API gsc_status gsc_checkpoint_load(const char *dir, const gsc_checkpoint *into, char **run);

/* Reads the JSON object alone, for a caller that needs it to create what is then loaded; only run.json is read and
 * verified. Free *run with gsc_free. Errors: as gsc_checkpoint_load. */
GSC_API gsc_status gsc_checkpoint_read_run(const char *dir, char **run);

#ifdef __cplusplus
}
#endif
#endif
