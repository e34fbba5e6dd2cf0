/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h: tensors of the train layer. Always compact, row-major and on the CPU; float32, float16, bfloat16, float64,
 * or int64 (labels, which never need a gradient).
 *
 * A tensor is either its own (gsc_tensor_create: parameters, which outlive every tape) or belongs to a tape (what ops
 * return; released with gsc_tape_clear). */
#ifndef GRADSCALER_TENSOR_H
#define GRADSCALER_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradscaler/dtype.h"
#include "gradscaler/status.h"

#ifdef __cplusplus
extern "C" {
#endif

extern GSC_API const DLDataType GSC_INT64;

#define GSC_TENSOR_MAX_DIMS 8

typedef struct gsc_tensor gsc_tensor;

/* A zero-filled tensor of its own, without gradient. 0 <= ndim <= GSC_TENSOR_MAX_DIMS, sizes >= 0, shape may be NULL
 * for ndim 0. Errors: GSC_ERR_VALUE, GSC_ERR_MEMORY. Free it with gsc_tensor_free. */
GSC_API gsc_status gsc_tensor_create(DLDataType dtype, int32_t ndim, const int64_t *shape, gsc_tensor **out);
/* Frees a tensor of its own; NULL is fine, a tape's tensor is left alone. */
GSC_API void gsc_tensor_free(gsc_tensor *tensor);

/* Borrowed descriptor of the elements; writable. NULL for NULL. */
GSC_API DLTensor *gsc_tensor_data(gsc_tensor *tensor);
/* Borrowed descriptor of the gradient, of the tensor's shape and dtype; NULL: none now. Results of ops have one between
 * the backward pass and gsc_tape_clear. */
GSC_API DLTensor *gsc_tensor_grad(gsc_tensor *tensor);
GSC_API size_t gsc_tensor_count(const gsc_tensor *tensor); /* elements; 0 for NULL */
/* The value of a one-element tensor; NaN with a message for NULL (a failed chain: its message stays) or any other
 * number of elements. */
GSC_API double gsc_tensor_item(const gsc_tensor *tensor);

/* Parameters: backward passes add into the gradient of a tensor that requires it. Inputs of a tape may require one too.
 * GSC_ERR_VALUE: NULL, int64, or the result of an op that depends on such a tensor. */
GSC_API gsc_status gsc_tensor_set_requires_grad(gsc_tensor *tensor, bool requires_grad);
GSC_API bool gsc_tensor_get_requires_grad(const gsc_tensor *tensor);
/* Makes the gradient absent (not zero): an optimizer passes the parameter over until the next backward pass. */
GSC_API void gsc_tensor_zero_grad(gsc_tensor *tensor);

/* A name for messages and reports; copied. NULL: none. A tape's tensors have no names: GSC_ERR_VALUE. */
GSC_API gsc_status gsc_tensor_set_name(gsc_tensor *tensor, const char *name);
GSC_API const char *gsc_tensor_get_name(const gsc_tensor *tensor);

#ifdef __cplusplus
}
#endif

/* Names of version 0.1.0, kept so that programs written for it compile unchanged. */
#define gsc_tensor_requires_grad gsc_tensor_get_requires_grad
#define gsc_tensor_name gsc_tensor_get_name

#endif
