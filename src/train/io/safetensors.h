/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h: the format's dtypes, and reading and writing it within an open folder. safetensors_read.c checks
 * files, safetensors_write.c makes them, safetensors.c has what both need. */
#ifndef GSC_TRAIN_IO_SAFETENSORS_H
#define GSC_TRAIN_IO_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "gradscaler/safetensors.h"
#include "train/io/files.h"
#include "train/io/json.h"

#define GSC_SAFETENSORS_METADATA "__metadata__" /* the one key of the header that is no tensor */

enum {
    GSC_SAFETENSORS_LENGTH = 8,             /* bytes that hold the header's length */
    GSC_SAFETENSORS_MAX_HEADER = 100000000, /* as the Python package */
    GSC_SAFETENSORS_ALIGNMENT = 8           /* of the data in files that we write */
};

typedef struct gsc__safetensors_dtype {
    const char *name;
    DLDataType dtype; /* bits 0: DLPack has none, or no whole bytes */
    size_t size, alignment;
} gsc__safetensors_dtype;
/* By rank: tensors are stored by descending rank. NULL: no such dtype. */
const gsc__safetensors_dtype *gsc__safetensors_dtype_named(const char *name);
const gsc__safetensors_dtype *gsc__safetensors_dtype_of(DLDataType dtype);

/* Bytes of `ndim` sizes, all >= 0. false: more than an int64_t holds. */
bool gsc__safetensors_bytes(const gsc__safetensors_dtype *dtype, int32_t ndim, const int64_t *shape, int64_t *bytes);

/* Checked tensors in the order of the file, and its first bytes up to the data. */
typedef struct gsc__safetensors_item {
    const char *name;
    const DLTensor *tensor;
    const gsc__safetensors_dtype *dtype;
    int64_t bytes;
} gsc__safetensors_item;

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

/* Takes over the mapping, also on failure. */
gsc_status gsc__safetensors_open_mapping(const char *path, gsc__mapping *mapping, gsc_safetensors **out);

static inline void *gsc__elements(const DLTensor *tensor) { return (char *)tensor->data + tensor->byte_offset; }

#endif
