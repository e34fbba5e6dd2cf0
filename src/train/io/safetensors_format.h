/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_format.h: what reading and writing safetensors share: the format's limits and its dtypes. */
#ifndef GSC_TRAIN_IO_SAFETENSORS_FORMAT_H
#define GSC_TRAIN_IO_SAFETENSORS_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "gradscaler/dtype.h"

#define GSC_SAFETENSORS_METADATA "__metadata__" /* the only key of the header that is not a tensor's name */

enum {
    GSC_SAFETENSORS_LENGTH = 8,             /* bytes that hold the header's length */
    GSC_SAFETENSORS_MAX_HEADER = 100000000, /* as in the Python package */
    GSC_SAFETENSORS_ALIGNMENT = 8           /* of the data in files that we write */
};

typedef struct gsc__safetensors_dtype {
    const char *name; /* in the file */
    DLDataType dtype; /* bits 0: not supported (less than a byte, or an 8-bit float) */
} gsc__safetensors_dtype;
/* Pointers into one table, which compare as the format orders tensors: higher ones come first in a file. NULL: no such
 * dtype in the format. */
const gsc__safetensors_dtype *gsc__safetensors_dtype_named(const char *name);
const gsc__safetensors_dtype *gsc__safetensors_dtype_of(DLDataType dtype);

/* Bytes of an element; 0: not supported. */
static inline size_t gsc__safetensors_size(const gsc__safetensors_dtype *dtype) { return dtype->dtype.bits / 8; }
static inline size_t gsc__safetensors_alignment(const gsc__safetensors_dtype *dtype)
{
    return dtype->dtype.code == kDLComplex ? gsc__safetensors_size(dtype) / 2 : gsc__safetensors_size(dtype);
}

/* Bytes of a tensor whose sizes are all >= 0. false: more than an int64_t holds. */
bool gsc__safetensors_bytes(const gsc__safetensors_dtype *dtype, int32_t ndim, const int64_t *shape, int64_t *bytes);

/* The first element of a tensor on the CPU. */
static inline void *gsc__elements(const DLTensor *tensor) { return (char *)tensor->data + tensor->byte_offset; }

#endif
