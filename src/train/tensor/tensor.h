/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h: the struct behind gsc_tensor, and checks of shapes. */
#ifndef GSC_TRAIN_TENSOR_TENSOR_H
#define GSC_TRAIN_TENSOR_TENSOR_H

#include "base/dtype_kind.h"
#include "base/shape_text.h"
#include "gradscaler/tensor.h"

struct gsc_tape;
struct gsc__node;

struct gsc_tensor {
    DLTensor data, grad; /* grad.data NULL: no memory for it yet */
    int64_t shape[GSC_TENSOR_MAX_DIMS];
    size_t count;
    gsc__kind kind;
    bool requires_grad;     /* of an op's result: it depends on a leaf that does */
    bool has_grad;          /* the gradient's memory holds one */
    struct gsc_tape *tape;  /* NULL: gsc_tensor_create made it */
    gsc_tensor *param;      /* the parameter that this is a handle of (gsc_tape_param), else NULL */
    struct gsc__node *node; /* the op call that made it; NULL: a leaf */
    char *name;
    uint64_t serial; /* of a tensor without a tape: unique in the process, unlike addresses, which are used again */
};

/* Fails: `what` ("dtype") has a dtype that is none of `allowed`. */
gsc_status gsc__refuse_dtype(const char *function, const char *what, DLDataType dtype, const char *allowed);
#define GSC_FLOAT_NAMES "float32, float64, float16, bfloat16"

/* Row-major without gaps; strides of dimensions with one element or none do not count. */
bool gsc__is_compact(const DLTensor *tensor);
/* Checks a shape and gives its number of elements; `function` begins the message. */
gsc_status gsc__shape_count(const char *function, gsc__kind kind, int32_t ndim, const int64_t *shape, size_t *count);
/* Memory for a tensor's elements, aligned as an arena's, to be freed with free(); NULL without a message. */
void *gsc__tensor_alloc(size_t bytes);
/* Fills in all but data.data of a tensor whose shape was checked. */
void gsc__tensor_init(gsc_tensor *tensor, gsc__kind kind, int32_t ndim, const int64_t *shape, size_t count);
static inline size_t gsc__tensor_bytes(const gsc_tensor *tensor)
{
    return tensor->count * gsc__kind_size(tensor->kind);
}

static inline gsc__shape_text gsc__tensor_shape_text(const gsc_tensor *tensor)
{
    return gsc__shape_print(tensor->data.ndim, tensor->data.shape);
}

#endif
