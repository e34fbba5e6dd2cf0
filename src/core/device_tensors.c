/* SPDX-License-Identifier: Apache-2.0 */
/* device_tensors.c: checked tensors as a module takes them. */
#include "core/on_device.h"

#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "gradients/fast_view.h"

/* Whether element i of the row-major order is start[i]. */
static bool is_row_major(const DLTensor *tensor) { return gsc__fast_count(tensor) != 0; }

/* Dimensions with more than one element, innermost first, as the tensor has them. Returns how many. */
static int32_t take_dims(const DLTensor *tensor, gsc__device_dim *dims)
{
    int32_t n = 0;
    int64_t compact = 1;
    for (int d = tensor->ndim - 1; d >= 0; d--) {
        int64_t size = tensor->shape[d];
        if (size != 1)
            dims[n++] = (gsc__device_dim){
                .shape = size, .stride = tensor->strides ? tensor->strides[d] : compact, .row_major = compact};
        compact *= size;
    }
    return n;
}

/* Makes the strides positive. Returns the row-major index of the element that is then at the beginning. */
static int64_t flip_dims(gsc__device_dim *dims, int32_t n)
{
    int64_t start = 0;
    for (int32_t d = 0; d < n; d++) {
        if (dims[d].stride >= 0)
            continue;
        start += (dims[d].shape - 1) * dims[d].row_major;
        dims[d].stride = -dims[d].stride;
        dims[d].row_major = -dims[d].row_major;
    }
    return start;
}

static void sort_dims(gsc__device_dim *dims, int32_t n)
{
    for (int32_t d = 1; d < n; d++) {
        gsc__device_dim dim = dims[d];
        int32_t slot = d;
        for (; slot > 0 && dims[slot - 1].stride > dim.stride; slot--)
            dims[slot] = dims[slot - 1];
        dims[slot] = dim;
    }
}

static bool continues(int64_t inner_shape, int64_t inner_stride, int64_t outer_stride)
{
    return outer_stride == inner_shape * inner_stride;
}

static int32_t merge_dims(gsc__device_dim *dims, int32_t n)
{
    int32_t last = 0;
    for (int32_t d = 1; d < n; d++) {
        if (continues(dims[last].shape, dims[last].stride, dims[d].stride) &&
            continues(dims[last].shape, dims[last].row_major, dims[d].row_major))
            dims[last].shape *= dims[d].shape;
        else
            dims[++last] = dims[d];
    }
    return n > 0 ? last + 1 : 0;
}

/* dims has room for all of the tensor's; NULL: it needs none. */
static gsc__device_tensor describe(const gsc__view *view, gsc__device_dim *dims)
{
    gsc__device_tensor out = {.start = view->start,
                              .count = view->count,
                              .dims = dims,
                              .device_id = view->tensor->device.device_id,
                              .index = view->index,
                              .kind = view->kind};
    if (!dims || is_row_major(view->tensor))
        return out;
    int32_t n = take_dims(view->tensor, dims);
    out.row_major_start = flip_dims(dims, n);
    sort_dims(dims, n);
    n = merge_dims(dims, n);
    bool is_run = n == 0 || (n == 1 && dims[0].stride == 1 && dims[0].row_major == 1);
    out.ndim = is_run ? 0 : n;
    return out;
}

static bool same_dims(const gsc__device_tensor *a, const gsc__device_tensor *b)
{
    return a->ndim == b->ndim && (a->ndim == 0 || memcmp(a->dims, b->dims, (size_t)a->ndim * sizeof *a->dims) == 0);
}

static bool same_tensor(const gsc__device_tensor *a, const gsc__device_tensor *b)
{
    return a->start == b->start && a->count == b->count && a->index == b->index && a->kind == b->kind &&
           a->device_id == b->device_id && a->row_major_start == b->row_major_start && same_dims(a, b);
}

bool gsc__device_tensors_match(const gsc__device_tensors *tensors, const gsc__list *list)
{
    gsc__device_dim dims[GSC_MAX_NDIM];
    size_t matched = 0;
    for (size_t i = 0; i < list->count; i++) {
        const gsc__view *view = &list->views[i];
        if (gsc__is_on_cpu(view->tensor))
            continue;
        const gsc__device_tensor tensor = describe(view, dims);
        if (matched == tensors->count || !same_tensor(&tensor, &tensors->list[matched]))
            return false;
        matched++;
    }
    return matched == tensors->count;
}

static gsc_status reserve(gsc__device_tensors *tensors, size_t count, size_t dims)
{
    tensors->count = 0;
    if (count > tensors->capacity) {
        gsc__device_tensor *list = count <= SIZE_MAX / sizeof *list ? malloc(count * sizeof *list) : NULL;
        if (!list)
            return gsc_fail(GSC_ERR_MEMORY, "no memory to describe %zu tensors", count);
        free(tensors->list);
        tensors->list = list;
        tensors->capacity = count;
    }
    if (dims > tensors->dim_capacity) {
        gsc__device_dim *larger = dims <= SIZE_MAX / sizeof *larger ? malloc(dims * sizeof *larger) : NULL;
        if (!larger)
            return gsc_fail(GSC_ERR_MEMORY, "no memory to describe the strides of %zu tensors", count);
        free(tensors->dims);
        tensors->dims = larger;
        tensors->dim_capacity = dims;
    }
    return GSC_OK;
}

/* Room that describe may need. */
static size_t dims_of(const DLTensor *tensor) { return is_row_major(tensor) ? 0 : (size_t)tensor->ndim; }

gsc_status gsc__device_tensors_take(gsc__device_tensors *tensors, const gsc__list *list)
{
    size_t count = 0, dims = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (gsc__is_on_cpu(list->views[i].tensor))
            continue;
        count++;
        dims += dims_of(list->views[i].tensor);
    }
    GSC_TRY(reserve(tensors, count, dims));
    gsc__device_dim *next = tensors->dims;
    for (size_t i = 0; i < list->count; i++) {
        const gsc__view *view = &list->views[i];
        if (gsc__is_on_cpu(view->tensor))
            continue;
        tensors->list[tensors->count++] = describe(view, next);
        if (next)
            next += dims_of(view->tensor);
    }
    return GSC_OK;
}

/* Dimensions of a pair become one where both tensors allow it. Returns how many are left. */
static int32_t merge_pair(gsc__device_dim *in, gsc__device_dim *out, int32_t n)
{
    int32_t last = 0;
    for (int32_t d = 1; d < n; d++) {
        if (continues(in[last].shape, in[last].stride, in[d].stride) &&
            continues(out[last].shape, out[last].stride, out[d].stride)) {
            in[last].shape *= in[d].shape;
            out[last].shape *= out[d].shape;
            continue;
        }
        last++;
        in[last] = in[d];
        out[last] = out[d];
    }
    return n > 0 ? last + 1 : 0;
}

/* In the row-major order, from the element whose indices are all zero. */
static gsc__device_tensor describe_logical(const gsc__view *view, const gsc__device_dim *dims, size_t index)
{
    const DLTensor *tensor = view->tensor;
    return (gsc__device_tensor){.start = (char *)tensor->data + tensor->byte_offset,
                                .count = view->count,
                                .dims = dims,
                                .device_id = tensor->device.device_id,
                                .index = (uint32_t)index,
                                .kind = view->kind};
}

static void add_pair(gsc__device_tensors *in, gsc__device_tensors *out, const gsc__pair *pair, size_t index,
                     size_t first_dim)
{
    gsc__device_tensor *from = &in->list[in->count++], *to = &out->list[out->count++];
    gsc__device_dim *in_dims = in->dims + first_dim, *out_dims = out->dims + first_dim;
    *from = describe_logical(&pair->in, in_dims, index);
    *to = describe_logical(&pair->out, out_dims, index);
    int32_t n = take_dims(pair->in.tensor, in_dims);
    (void)take_dims(pair->out.tensor, out_dims);
    n = merge_pair(in_dims, out_dims, n);
    bool is_run = n == 0 || (n == 1 && in_dims[0].stride == 1 && out_dims[0].stride == 1);
    from->ndim = to->ndim = is_run ? 0 : n;
}

static bool is_used(const gsc__pair *pair) { return pair->in.count > 0 && !gsc__is_on_cpu(pair->in.tensor); }

gsc_status gsc__device_tensors_take_pairs(gsc__device_tensors *in, gsc__device_tensors *out, const gsc__pair *pairs,
                                          size_t n)
{
    size_t count = 0, dims = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_used(&pairs[i]))
            continue;
        count++;
        dims += (size_t)pairs[i].in.tensor->ndim;
    }
    GSC_TRY(reserve(in, count, dims + 1)); /* one more, so that there is an address where none are needed */
    GSC_TRY(reserve(out, count, dims + 1));
    size_t next = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_used(&pairs[i]))
            continue;
        add_pair(in, out, &pairs[i], i, next);
        next += (size_t)pairs[i].in.tensor->ndim;
    }
    return GSC_OK;
}

void gsc__device_tensors_free(gsc__device_tensors *tensors)
{
    free(tensors->list);
    free(tensors->dims);
    *tensors = (gsc__device_tensors){0};
}
