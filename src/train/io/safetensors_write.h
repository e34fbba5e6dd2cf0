/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_write.h: a safetensors file in two steps, plan and write, so that a checkpoint plans all of its files
 * before it writes the first. */
#ifndef GSC_TRAIN_IO_SAFETENSORS_WRITE_H
#define GSC_TRAIN_IO_SAFETENSORS_WRITE_H

#include "gradscaler/safetensors.h"
#include "train/io/files.h"
#include "train/io/safetensors_format.h"

typedef struct gsc__safetensors_item {
    const char *name;
    const DLTensor *tensor;
    const gsc__safetensors_dtype *dtype;
    int64_t bytes;
} gsc__safetensors_item;

/* Checked tensors in the order of the file, and the file's first bytes, up to the data. */
typedef struct gsc__safetensors_plan {
    gsc__safetensors_item *items;
    size_t count;
    char *head;
    size_t head_size;
} gsc__safetensors_plan;

/* `who` begins the messages. Free it with gsc__safetensors_plan_free. */
gsc_status gsc__safetensors_plan_create(const char *who, const gsc_named_tensor *tensors, size_t n,
                                        const gsc_metadata *metadata, size_t m, gsc__safetensors_plan *out);
gsc_status gsc__safetensors_plan_write(const gsc__safetensors_plan *plan, gsc__file *file);
void gsc__safetensors_plan_free(gsc__safetensors_plan *plan); /* zeroed is fine */

#endif
