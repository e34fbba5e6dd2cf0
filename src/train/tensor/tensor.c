/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c: tensors: creation, properties, checks of shapes. */
#include "train/tensor/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype_text.h"
#include "base/fpenv.h"
#include "base/try.h"
#include "train/tensor/arena.h"

const DLDataType GSC_INT64 = {kDLInt, 64, 1};

gsc_status gsc__refuse_dtype(const char *function, const char *what, DLDataType dtype, const char *allowed)
{
    return gsc_fail(GSC_ERR_VALUE, "%s: %s is %s; allowed are %s", function, what, gsc__describe_dtype(dtype).text,
                    allowed);
}

gsc_status gsc__shape_count(const char *function, gsc__kind kind, int32_t ndim, const int64_t *shape, size_t *count)
{
    if (ndim < 0 || ndim > GSC_TENSOR_MAX_DIMS)
        return gsc_fail(GSC_ERR_VALUE, "%s: ndim is %d, allowed are 0 to %d", function, (int)ndim, GSC_TENSOR_MAX_DIMS);
    if (ndim > 0 && !shape)
        return gsc_fail(GSC_ERR_VALUE, "%s: shape is NULL with ndim %d; only ndim 0 needs none", function, (int)ndim);
    bool empty = false;
    for (int32_t d = 0; d < ndim; d++) {
        if (shape[d] < 0)
            return gsc_fail(GSC_ERR_VALUE, "%s: shape[%d] is %" PRId64 ", allowed are 0 and more", function, (int)d,
                            shape[d]);
        empty = empty || shape[d] == 0;
    }
    size_t limit = (size_t)PTRDIFF_MAX / gsc__kind_size(kind);
    size_t elements = empty ? 0 : 1;
    for (int32_t d = 0; d < ndim && !empty; d++) {
        if ((uint64_t)shape[d] > limit / elements)
            return gsc_fail(GSC_ERR_VALUE, "%s: a %s tensor of shape %s does not fit in memory", function,
                            gsc__kind_name(kind), gsc__shape_print(ndim, shape).text);
        elements *= (size_t)shape[d];
    }
    *count = elements;
    return GSC_OK;
}

void *gsc__tensor_alloc(size_t bytes)
{
    size_t whole = bytes / GSC_ARENA_ALIGNMENT * GSC_ARENA_ALIGNMENT + GSC_ARENA_ALIGNMENT; /* never 0 */
    return aligned_alloc(GSC_ARENA_ALIGNMENT, whole);
}

void gsc__tensor_init(gsc_tensor *tensor, gsc__kind kind, int32_t ndim, const int64_t *shape, size_t count)
{
    *tensor = (gsc_tensor){.count = count, .kind = kind};
    if (ndim > 0)
        memcpy(tensor->shape, shape, (size_t)ndim * sizeof *shape);
    tensor->data =
        (DLTensor){.device = {kDLCPU, 0}, .ndim = ndim, .dtype = gsc__kind_dtype(kind), .shape = tensor->shape};
    tensor->grad = tensor->data;
}

bool gsc__is_compact(const DLTensor *tensor)
{
    int64_t expected = 1;
    for (int32_t d = tensor->ndim - 1; d >= 0 && tensor->strides; d--) {
        if (tensor->shape[d] > 1 && tensor->strides[d] != expected)
            return false;
        expected *= tensor->shape[d];
    }
    return true;
}

static _Atomic uint64_t serials = 1;

gsc_status gsc_tensor_create(DLDataType dtype, int32_t ndim, const int64_t *shape, gsc_tensor **out)
{
    if (!out)
        return gsc_fail(GSC_ERR_VALUE, "gsc_tensor_create: out is NULL");
    gsc__kind kind = gsc__kind_of(dtype);
    if (kind == GSC_NO_KIND)
        return gsc__refuse_dtype("gsc_tensor_create", "dtype", dtype, GSC_FLOAT_NAMES ", int64");
    size_t count;
    GSC_TRY(gsc__shape_count("gsc_tensor_create", kind, ndim, shape, &count));
    gsc_tensor *tensor = malloc(sizeof *tensor);
    void *elements = gsc__tensor_alloc(count * gsc__kind_size(kind));
    if (!tensor || !elements) {
        free(tensor);
        free(elements);
        return gsc_fail(GSC_ERR_MEMORY, "gsc_tensor_create: no memory for a %s tensor of shape %s",
                        gsc__kind_name(kind), gsc__shape_print(ndim, shape).text);
    }
    gsc__tensor_init(tensor, kind, ndim, shape, count);
    memset(elements, 0, gsc__tensor_bytes(tensor)); /* zero in every dtype */
    tensor->data.data = elements;
    tensor->serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed);
    *out = tensor;
    return GSC_OK;
}

void gsc_tensor_free(gsc_tensor *tensor)
{
    if (!tensor || tensor->tape)
        return;
    free(tensor->data.data);
    free(tensor->grad.data);
    free(tensor->name);
    free(tensor);
}

static gsc_tensor *resolve(gsc_tensor *tensor) { return tensor && tensor->param ? tensor->param : tensor; }

static const gsc_tensor *resolve_const(const gsc_tensor *tensor)
{
    return tensor && tensor->param ? tensor->param : tensor;
}

DLTensor *gsc_tensor_data(gsc_tensor *tensor)
{
    tensor = resolve(tensor);
    return tensor ? &tensor->data : NULL;
}

DLTensor *gsc_tensor_grad(gsc_tensor *tensor)
{
    tensor = resolve(tensor);
    return tensor && tensor->has_grad ? &tensor->grad : NULL;
}

size_t gsc_tensor_count(const gsc_tensor *tensor) { return tensor ? tensor->count : 0; }

double gsc_tensor_item(const gsc_tensor *tensor)
{
    if (!tensor) {
        if (gsc_last_error()[0] == '\0') /* a failed op returned the NULL: keep its message */
            gsc_fail(GSC_ERR_VALUE, "gsc_tensor_item: tensor is NULL");
        return NAN;
    }
    if (tensor->count != 1) {
        gsc_fail(GSC_ERR_VALUE, "gsc_tensor_item: the tensor has shape %s, one element is needed",
                 gsc__tensor_shape_text(tensor).text);
        return NAN;
    }
    gsc__fpenv caller = gsc__fpenv_enter();
    double value = gsc__element(tensor->kind, tensor->data.data, 0);
    gsc__fpenv_leave(caller);
    return value;
}

gsc_status gsc_tensor_set_requires_grad(gsc_tensor *tensor, bool requires_grad)
{
    tensor = resolve(tensor);
    if (!tensor)
        return gsc_fail(GSC_ERR_VALUE, "gsc_tensor_set_requires_grad: tensor is NULL");
    if (requires_grad && !gsc__kind_is_float(tensor->kind))
        return gsc_fail(GSC_ERR_VALUE, "gsc_tensor_set_requires_grad: tensor \"%s\" is int64, which has no gradient",
                        tensor->name ? tensor->name : "");
    if (tensor->node)
        return gsc_fail(GSC_ERR_VALUE, "gsc_tensor_set_requires_grad: the tensor is the result of an op; set it on the "
                                       "parameters and inputs that the op takes");
    tensor->requires_grad = requires_grad;
    return GSC_OK;
}

bool gsc_tensor_get_requires_grad(const gsc_tensor *tensor)
{
    tensor = resolve_const(tensor);
    return tensor && tensor->requires_grad;
}

void gsc_tensor_zero_grad(gsc_tensor *tensor)
{
    tensor = resolve(tensor);
    if (tensor)
        tensor->has_grad = false;
}

gsc_status gsc_tensor_set_name(gsc_tensor *tensor, const char *name)
{
    tensor = resolve(tensor);
    if (!tensor)
        return gsc_fail(GSC_ERR_VALUE, "gsc_tensor_set_name: tensor is NULL");
    if (tensor->tape)
        return gsc_fail(GSC_ERR_VALUE, "gsc_tensor_set_name: the tensor belongs to a tape; parameters have names");
    char *copy = NULL;
    if (name) {
        size_t size = strlen(name) + 1;
        copy = malloc(size);
        if (!copy)
            return gsc_fail(GSC_ERR_MEMORY, "gsc_tensor_set_name: no memory for a name of %zu bytes", size);
        memcpy(copy, name, size);
    }
    free(tensor->name);
    tensor->name = copy;
    return GSC_OK;
}

const char *gsc_tensor_get_name(const gsc_tensor *tensor)
{
    tensor = resolve_const(tensor);
    return tensor ? tensor->name : NULL;
}
