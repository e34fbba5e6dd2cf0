/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h: what a tensor is inside. */
#ifndef GSC_TRAIN_TENSOR_H
#define GSC_TRAIN_TENSOR_H

#include "gradscaler/ops.h"
#include "gradscaler/tensor.h"

/* The dtypes, as an index: GSC_KIND_NONE is what no tensor has. */
typedef enum gsc_tensor_kind {
    GSC_KIND_NONE = 0,
    GSC_KIND_F32,
    GSC_KIND_F64,
    GSC_KIND_F16,
    GSC_KIND_BF16,
    GSC_KIND_I64,
} gsc_tensor_kind;

struct gsc_node;

struct gsc_tensor {
    DLTensor data, grad; /* grad.data NULL: no memory for it yet */
    int64_t shape[GSC_TENSOR_MAX_DIMS];
    size_t count;
    gsc_tensor_kind kind;
    bool requires_grad;    /* an op's result: it depends on a leaf that does */
    bool has_grad;         /* the gradient's memory holds one */
    gsc_tape *tape;        /* NULL: a tensor of its own */
    gsc_tensor *param;     /* the parameter that this is a handle of (gsc_tape_param), else NULL */
    struct gsc_node *node; /* the op call that made it; NULL: a leaf */
    char *name;
    uint64_t serial; /* of a tensor of its own: no other has had it, which is not true of addresses */
};

gsc_tensor_kind gsc_tensor_kind_of(DLDataType dtype);
DLDataType gsc_tensor_kind_dtype(gsc_tensor_kind kind);
const char *gsc_tensor_kind_name(gsc_tensor_kind kind); /* "float32" */
size_t gsc_tensor_kind_size(gsc_tensor_kind kind);
static inline bool gsc_tensor_kind_is_float(gsc_tensor_kind kind)
{
    return kind != GSC_KIND_NONE && kind != GSC_KIND_I64;
}

/* Row-major without gaps; strides of dimensions with one element or none do not count. */
bool gsc_is_compact(const DLTensor *tensor);
/* Checks a shape and gives its number of elements; `who` begins the message. */
gsc_status gsc_shape_count(const char *who, gsc_tensor_kind kind, int32_t ndim, const int64_t *shape, size_t *count);
/* Memory for a tensor's elements, aligned as an arena's, to be freed with free(); NULL without a message. */
void *gsc_tensor_alloc(size_t bytes);
/* Fills in all but data.data of a tensor whose shape was checked. */
void gsc_tensor_init(gsc_tensor *tensor, gsc_tensor_kind kind, int32_t ndim, const int64_t *shape, size_t count);
static inline size_t gsc_tensor_bytes(const gsc_tensor *tensor)
{
    return tensor->count * gsc_tensor_kind_size(tensor->kind);
}

/* "[2, 3]", for messages. */
typedef struct gsc_shape_text {
    char text[GSC_TENSOR_MAX_DIMS * 22 + 3];
} gsc_shape_text;
gsc_shape_text gsc_shape_print(int32_t ndim, const int64_t *shape);
static inline gsc_shape_text gsc_tensor_shape_text(const gsc_tensor *tensor)
{
    return gsc_shape_print(tensor->data.ndim, tensor->data.shape);
}

#endif
