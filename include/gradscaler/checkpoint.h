/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.h: the state of a run in a folder, saved and loaded as one: all of it or nothing.
 *
 *     model.safetensors      the tensors
 *     optimizer.safetensors  each optimizer's learning rates, and each parameter's step count and state
 *     scaler.json            the scaler's state dict, as state_json.h has it
 *     run.json               what the caller adds (`run`), and the size and CRC-32 of the other files
 *
 * A file is there where something of its kind was saved; run.json always is. These names are symbolic links into
 * `checkpoint`, itself a link to one of the folders `checkpoint-0` and `checkpoint-1`. A save writes the one that
 * `checkpoint` does not name, syncs it, and switches the link with one rename: killed or failing at any moment, it
 * leaves all files of the last save that was complete. The one before it stays in the other folder until the next save,
 * so a folder takes the space of two. Copies of the folder load too, whether or not they kept the links. */
#ifndef GRADSCALER_CHECKPOINT_H
#define GRADSCALER_CHECKPOINT_H

#include "gradscaler/optim.h"
#include "gradscaler/safetensors.h"
#include "gradscaler/scaler.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name may be NULL where there is only one of the kind; several need names that differ and are not empty. */
typedef struct gsc_named_optim {
    const char *name;
    gsc_optim *optim;
} gsc_named_optim;

typedef struct gsc_named_scaler {
    const char *name;
    gsc_scaler *scaler;
} gsc_named_scaler;

/* What a checkpoint holds, or is loaded into. All borrowed; a list may be NULL where its count is 0. */
typedef struct gsc_checkpoint {
    const gsc_named_tensor *tensors;
    size_t tensor_count;
    const gsc_named_optim *optims;
    size_t optim_count;
    const gsc_named_scaler *scalers;
    size_t scaler_count;
    const char *run; /* a JSON object: step, epoch, random states …; NULL: {}. Read by save, ignored by load */
    uint64_t reserved[8];
} gsc_checkpoint;

/* Saves into an existing folder, on a file system with symbolic links. Call it between iterations: what is under way in
 * a scaler is not part of its state. Everything is checked before the first write. After an error the folder holds the
 * checkpoint that it held, or, where only the last sync failed, the new one; always a whole one. What a killed save
 * leaves is cleared away by the next.
 * Errors: GSC_ERR_VALUE (a list, name, tensor or JSON; two parameters with one name; a folder whose `checkpoint` is no
 * link of ours, as copies have it that followed links: save into another), GSC_ERR_DEVICE, GSC_ERR_IO naming the file
 * (full disk, read-only or removed folder, another save under way in this folder), GSC_ERR_MEMORY. */
GSC_API gsc_status gsc_checkpoint_save(const char *dir, const gsc_checkpoint *checkpoint);

/* Loads into tensors, optimizers and scalers that were created as those that were saved. A kind whose count is 0 is
 * left out; of the others, what was saved and what is given must agree: names, dtypes, shapes, the kind of each
 * optimizer and its groups. Everything, also the checksums, is verified before the first change: all is loaded or
 * nothing. A scaler that is disabled takes no state; an enabled one refuses the empty state of a disabled one
 * (GSC_ERR_STATE), and every one refuses to load within an iteration (GSC_ERR_STATE). *run (may be NULL), on success:
 * the JSON object given to save, one line, to be freed with gsc_free. Errors, naming file and entry: GSC_ERR_VALUE
 * (damaged, or not of these objects), GSC_ERR_STATE, GSC_ERR_DEVICE, GSC_ERR_IO (no checkpoint there, cannot be read),
 * GSC_ERR_MEMORY. */
GSC_API gsc_status gsc_checkpoint_load(const char *dir, const gsc_checkpoint *into, char **run);

/* The JSON object alone, for a caller that learns from it what to create before it loads; only run.json is read and
 * verified. Free it with gsc_free. Errors: as gsc_checkpoint_load. */
GSC_API gsc_status gsc_checkpoint_read_run(const char *dir, char **run);

#ifdef __cplusplus
}
#endif
#endif
