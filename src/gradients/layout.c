/* SPDX-License-Identifier: Apache-2.0 */
/* layout.c: taking, merging and sorting the dimensions of a tensor. */
#include "gradients/layout.h"

/* Dimensions with more than one element, innermost first. */
static void take_dimensions(const DLTensor *tensor, gsc__kind kind, gsc__layout *out)
{
    out->data = (char *)((uintptr_t)tensor->data + tensor->byte_offset);
    out->kind = kind;
    out->ndim = 0;
    int64_t compact = 1;
    for (int d = tensor->ndim - 1; d >= 0; d--) {
        int64_t size = tensor->shape[d];
        if (size != 1) {
            out->shape[out->ndim] = size;
            out->stride[out->ndim++] = tensor->strides ? tensor->strides[d] : compact;
        }
        compact *= size;
    }
}

static void merge_dimensions(gsc__layout *layout)
{
    if (layout->ndim == 0) {
        layout->ndim = 1;
        layout->shape[0] = 1;
        layout->stride[0] = 1;
        return;
    }
    int last = 0;
    for (int d = 1; d < layout->ndim; d++) {
        if (layout->stride[d] == layout->stride[last] * layout->shape[last]) {
            layout->shape[last] *= layout->shape[d];
        } else {
            last++;
            layout->shape[last] = layout->shape[d];
            layout->stride[last] = layout->stride[d];
        }
    }
    layout->ndim = last + 1;
}

void gsc__layout_logical(const DLTensor *tensor, gsc__kind kind, gsc__layout *out)
{
    take_dimensions(tensor, kind, out);
    merge_dimensions(out);
}

static void flip_negative_strides(gsc__layout *layout)
{
    for (int d = 0; d < layout->ndim; d++) {
        if (layout->stride[d] >= 0)
            continue;
        layout->data += (layout->shape[d] - 1) * layout->stride[d] * (int64_t)gsc__kind_size(layout->kind);
        layout->stride[d] = -layout->stride[d];
    }
}

/* Zero strides count as the greatest, which makes rows as long as possible. */
static bool strides_ascend(int64_t inner, int64_t outer) { return (uint64_t)inner - 1 <= (uint64_t)outer - 1; }

static void sort_by_stride(gsc__layout *layout)
{
    for (int d = 1; d < layout->ndim; d++) {
        int64_t shape = layout->shape[d], stride = layout->stride[d];
        int slot = d;
        for (; slot > 0 && !strides_ascend(layout->stride[slot - 1], stride); slot--) {
            layout->shape[slot] = layout->shape[slot - 1];
            layout->stride[slot] = layout->stride[slot - 1];
        }
        layout->shape[slot] = shape;
        layout->stride[slot] = stride;
    }
}

void gsc__layout_collapse(const DLTensor *tensor, gsc__kind kind, gsc__layout *out)
{
    take_dimensions(tensor, kind, out);
    flip_negative_strides(out);
    sort_by_stride(out);
    merge_dimensions(out);
}

int64_t gsc__layout_span(const gsc__layout *collapsed, int dimensions)
{
    int64_t last = 0;
    for (int d = 0; d < dimensions; d++)
        last += (collapsed->shape[d] - 1) * collapsed->stride[d];
    return (last + 1) * (int64_t)gsc__kind_size(collapsed->kind);
}
