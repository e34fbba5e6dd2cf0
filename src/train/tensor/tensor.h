/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h: what a tensor is inside. */
#ifndef GSC_TRAIN_TENSOR_TENSOR_H
#define GSC_TRAIN_TENSOR_TENSOR_H

#include "gradscaler/ops.h"
#include "gradscaler/tensor.h"

/* The dtypes, as an index: GSC_KIND_NONE is what no tensor has. */
typedef enum gsc__tensor_kind {
    GSC_KIND_NONE = 0,
    GSC_KIND_F32,
    GSC_KIND_F64,
    GSC_KIND_F16,
    GSC_KIND_BF16,
    GSC_KIND_I64,
} gsc__tensor_kind;

struct gsc__node;

struct gsc_tensor {
    DLTensor data, grad; /* grad.data NULL: no memory for it yet */
    int64_t shape[GSC_TENSOR_MAX_DIMS];
    size_t count;
    gsc__tensor_kind kind;
    bool requires_grad;     /* an op's result: it depends on a leaf that does */
    bool has_grad;          /* the gradient's memory holds one */
    gsc_tape *tape;         /* NULL: a tensor of its own */
    gsc_tensor *param;      /* the parameter that this is a handle of (gsc_tape_param), else NULL */
    struct gsc__node *node; /* the op call that made it; NULL: a leaf */
    char *name;
    uint64_t serial; /* of a tensor of its own: no other has had it, which is not true of addresses */
};

gsc__tensor_kind gsc__tensor_kind_of(DLDataType dtype);
DLDataType gsc__tensor_kind_dtype(gsc__tensor_kind kind);
const char *gsc__tensor_kind_name(gsc__tensor_kind kind); /* "float32" */
size_t gsc__tensor_kind_size(gsc__tensor_kind kind);
static inline bool gsc__tensor_kind_is_float(gsc__tensor_kind kind)
{
    return kind != GSC_KIND_NONE && kind != GSC_KIND_I64;
}

/* Row-major without gaps; strides of dimensions with one element or none do not count. */
bool gsc__is_compact(const DLTensor *tensor);
/* Checks a shape and gives its number of elements; `who` begins the message. */
gsc_status gsc__shape_count(const char *who, gsc__tensor_kind kind, int32_t ndim, const int64_t *shape, size_t *count);
/* Memory for a tensor's elements, aligned as an arena's, to be freed with free(); NULL without a message. */
void *gsc__tensor_alloc(size_t bytes);
/* Fills in all but data.data of a tensor whose shape was checked. */
void gsc__tensor_init(gsc_tensor *tensor, gsc__tensor_kind kind, int32_t ndim, const int64_t *shape, size_t count);
static inline size_t gsc__tensor_bytes(const gsc_tensor *tensor)
{
    return tensor->count * gsc__tensor_kind_size(tensor->kind);
}

/* "[2, 3]", for messages. */
typedef struct gsc__shape_text {
    char text[GSC_TENSOR_MAX_DIMS * 22 + 3];
} gsc__shape_text;
gsc__shape_text gsc__shape_print(int32_t ndim, const int64_t *shape);
static inline gsc__shape_text gsc__tensor_shape_text(const gsc_tensor *tensor)
{
    return gsc__shape_print(tensor->data.ndim, tensor->data.shape);
}

#endif
