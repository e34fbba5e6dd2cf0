/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors.h: tensors in a file, in the format of the Python package `safetensors`
 * (https://huggingface.co/docs/safetensors): eight bytes with the header's length, a header of JSON that gives each
 * tensor's dtype, shape and offsets, and the elements, little-endian and row-major.
 *
 * dtypes: BOOL, U8 … U64, I8 … I64, F16, BF16, F32, F64 and C64. Names and metadata are UTF-8 without NUL. */
#ifndef GRADSCALER_SAFETENSORS_H
#define GRADSCALER_SAFETENSORS_H

#include "gradscaler/dtype.h"
#include "gradscaler/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gsc_named_tensor {
    const char *name; /* any but "__metadata__" */
    DLTensor *tensor; /* on the CPU, compact and row-major (strides of dimensions of size 1 do not matter) */
} gsc_named_tensor;

typedef struct gsc_metadata {
    const char *key, *value;
} gsc_metadata;

/* Writes n tensors and m entries of metadata; either count may be 0, and its list NULL. Tensors are stored by
 * descending alignment, then name, as the Python package does, so equal content gives equal files; each starts at a
 * multiple of its element size. Durable: the file is written under a temporary name in the same folder, synced and
 * renamed to `path`, and the folder is synced. Until the rename, and after an error, `path` is what it was before.
 * Errors, naming the tensor or the path: GSC_ERR_VALUE (a name or key that is missing, not UTF-8 or there twice; a
 * tensor without data, strided or of another dtype), GSC_ERR_DEVICE (a tensor that is not on the CPU), GSC_ERR_IO,
 * GSC_ERR_MEMORY. */
GSC_API gsc_status gsc_safetensors_write(const char *path, const gsc_named_tensor *tensors, size_t n,
                                         const gsc_metadata *metadata, size_t m);

typedef struct gsc_safetensors gsc_safetensors;
/* Opens a file and checks its whole header: its length (at most 100,000,000 bytes), JSON without duplicate keys, known
 * dtypes, shapes that agree with the offsets, and that the tensors fill the data without a hole or an overlap. The
 * elements are not read but mapped, read-only; the file must not be made shorter while it is open. Tensors that another
 * program stored unaligned are copied. Memory is taken in proportion to the header and to such tensors, whatever
 * numbers the file claims. *out is set on success only; close it with gsc_safetensors_close. Errors, naming the path
 * and the field: GSC_ERR_VALUE (content), GSC_ERR_UNSUPPORTED (a dtype of less than a byte or of 8-bit floats),
 * GSC_ERR_IO, GSC_ERR_MEMORY. */
GSC_API gsc_status gsc_safetensors_open(const char *path, gsc_safetensors **out);
GSC_API void gsc_safetensors_close(gsc_safetensors *file); /* NULL is fine; what was borrowed from it becomes invalid */

/* Tensors in the order of their data; 0 for NULL. */
GSC_API size_t gsc_safetensors_count(const gsc_safetensors *file);
/* Borrowed until gsc_safetensors_close. NULL: no such index. */
GSC_API const char *gsc_safetensors_name(const gsc_safetensors *file, size_t index);
/* Borrowed, compact, read-only (writing into it crashes); data NULL for an empty tensor. NULL: no such index. */
GSC_API const DLTensor *gsc_safetensors_tensor(const gsc_safetensors *file, size_t index);
/* The same by name, in logarithmic time. NULL: no such name. */
GSC_API const DLTensor *gsc_safetensors_find(const gsc_safetensors *file, const char *name);
GSC_API size_t gsc_safetensors_metadata_count(const gsc_safetensors *file); /* 0 for NULL */
/* Borrowed, in the order of the file. Both NULL: no such index. */
GSC_API gsc_metadata gsc_safetensors_metadata(const gsc_safetensors *file, size_t index);
/* The value of a key. NULL: no such key. */
GSC_API const char *gsc_safetensors_metadata_find(const gsc_safetensors *file, const char *key);

#ifdef __cplusplus
}
#endif
#endif
