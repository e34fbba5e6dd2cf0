/* SPDX-License-Identifier: Apache-2.0 */
/* tensors.c: the checks of a list of tensors, and their elements in row-major order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype_text.h"
#include "base/try.h"
#include "mpi/internal.h"

#define MAX_ELEMENT 64 /* bytes; digest.c has room for these, and so has the least bucket */

static int64_t stride_of(const DLTensor *tensor, int dimension)
{
    if (tensor->strides)
        return tensor->strides[dimension];
    int64_t stride = 1;
    for (int i = tensor->ndim - 1; i > dimension; i--)
        stride *= tensor->shape[i];
    return stride;
}

static gsc_status check_shape(const char *api, size_t index, const DLTensor *tensor, size_t *count)
{
    if (tensor->ndim < 0 || (tensor->ndim > 0 && !tensor->shape))
        return gsc_fail(GSC_ERR_VALUE, "%s: tensor %zu has ndim %d and %s shape", api, index, (int)tensor->ndim,
                        tensor->shape ? "a" : "no");
    *count = 1;
    bool is_empty = false;
    for (int i = 0; i < tensor->ndim; i++) {
        const int64_t extent = tensor->shape[i];
        is_empty = is_empty || extent == 0;
        if (extent < 0 || (extent > 0 && *count > (size_t)(INT64_MAX / MAX_ELEMENT / extent)))
            return gsc_fail(GSC_ERR_VALUE, "%s: tensor %zu: shape[%d] is %lld, negative or too large", api, index, i,
                            (long long)extent);
        *count *= extent > 0 ? (size_t)extent : 1;
    }
    if (is_empty)
        *count = 0;
    if (*count > 0 && !tensor->data)
        return gsc_fail(GSC_ERR_VALUE, "%s: tensor %zu has %zu elements and data NULL", api, index, *count);
    return GSC_OK;
}

static gsc_status check_dtype(const char *api, size_t index, const DLTensor *tensor, gsc__mpi_accept accept,
                              gsc__mpi_view *view)
{
    const size_t bits = (size_t)tensor->dtype.bits * tensor->dtype.lanes;
    view->kind = gsc__kind_of(tensor->dtype);
    view->size = bits / 8;
    const gsc__dtype_text dtype = gsc__describe_dtype(tensor->dtype);
    if (accept == GSC_MPI_FLOATS && !gsc__kind_is_float(view->kind))
        return gsc_fail(tensor->dtype.code == kDLComplex ? GSC_ERR_UNSUPPORTED : GSC_ERR_VALUE,
                        "%s: tensor %zu is %s; averaged are float32, float64, bfloat16 and float16", api, index,
                        dtype.text);
    if (bits == 0 || bits % 8 != 0 || view->size > MAX_ELEMENT)
        return gsc_fail(GSC_ERR_VALUE, "%s: tensor %zu is %s; an element must have 1 to %d whole bytes", api, index,
                        dtype.text, MAX_ELEMENT);
    return GSC_OK;
}

static bool is_compact(const DLTensor *tensor)
{
    int64_t expected = 1;
    for (int i = tensor->ndim - 1; i >= 0; i--) {
        if (tensor->shape[i] != 1 && stride_of(tensor, i) != expected)
            return false;
        expected *= tensor->shape[i];
    }
    return true;
}

/* Whether each dimension, by falling stride, steps over all that the smaller ones reach. */
static bool is_nested(const DLTensor *tensor)
{
    int64_t reach = 1; /* elements that the dimensions looked at so far span */
    int64_t last = 0;
    for (int round = 0; round < tensor->ndim; round++) {
        /* The least stride that is left: dimensions are few, so they are not sorted. */
        int64_t least = INT64_MAX;
        for (int i = 0; i < tensor->ndim; i++) {
            const int64_t stride = llabs(stride_of(tensor, i));
            if (tensor->shape[i] > 1 && stride > last && stride < least)
                least = stride;
        }
        if (least == INT64_MAX)
            break;
        for (int i = 0, equal = 0; i < tensor->ndim; i++) {
            if (tensor->shape[i] <= 1 || llabs(stride_of(tensor, i)) != least)
                continue;
            if (least < reach || equal++ > 0)
                return false;
            reach = least * (tensor->shape[i] - 1) + reach;
        }
        last = least;
    }
    for (int i = 0; i < tensor->ndim; i++)
        if (tensor->shape[i] > 1 && stride_of(tensor, i) == 0)
            return false;
    return true;
}

static gsc_status check_tensor(const char *api, size_t index, const DLTensor *tensor, gsc__mpi_accept accept,
                               bool write, gsc__mpi_view *view)
{
    if (!gsc__is_on_cpu(tensor))
        return gsc_fail(GSC_ERR_DEVICE, "%s: tensor %zu is on %s; copy it to the CPU first", api, index,
                        gsc__describe_device(tensor->device).text);
    GSC_TRY(check_dtype(api, index, tensor, accept, view));
    GSC_TRY(check_shape(api, index, tensor, &view->count));
    view->tensor = tensor;
    view->data = (char *)tensor->data + tensor->byte_offset;
    view->compact = view->count == 0 || is_compact(tensor);
    if (write && !view->compact && !is_nested(tensor))
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: tensor %zu has strides with which elements share memory, or that cannot be told from "
                        "such; give a compact copy",
                        api, index);
    return GSC_OK;
}

static int by_address(const void *a, const void *b)
{
    const gsc__mpi_view *x = *(gsc__mpi_view *const *)a, *y = *(gsc__mpi_view *const *)b;
    if (x->data != y->data)
        return x->data < y->data ? -1 : 1;
    return x < y ? -1 : 1; /* both are of one array: the order of the list */
}

static bool is_same_view(const gsc__mpi_view *a, const gsc__mpi_view *b)
{
    if (a->data != b->data || a->size != b->size || a->kind != b->kind || a->count != b->count ||
        a->compact != b->compact)
        return false;
    if (a->compact)
        return true;
    if (a->tensor->ndim != b->tensor->ndim)
        return false;
    for (int i = 0; i < a->tensor->ndim; i++)
        if (a->tensor->shape[i] != b->tensor->shape[i] || stride_of(a->tensor, i) != stride_of(b->tensor, i))
            return false;
    return true;
}

static const char *end_of(const gsc__mpi_view *view) { return view->data + view->count * view->size; }

/* Strided views whose ranges intersect, as columns of a matrix do, are taken to share no element. */
static gsc_status check_pair(const char *api, const gsc__mpi_views *views, const gsc__mpi_view *first,
                             gsc__mpi_view *second)
{
    if (is_same_view(first, second))
        second->skip = true;
    else if (first->compact && second->compact && second->data < end_of(first))
        return gsc_fail(GSC_ERR_VALUE, "%s: tensors %zu and %zu share memory; each element may be in one tensor", api,
                        (size_t)(first - views->items), (size_t)(second - views->items));
    return GSC_OK;
}

static gsc_status check_overlaps(const char *api, gsc__mpi_views *views)
{
    gsc__mpi_view **sorted = malloc(views->count * sizeof *sorted + 1);
    if (!sorted)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory", api);
    size_t count = 0;
    for (size_t i = 0; i < views->count; i++)
        if (views->items[i].count > 0)
            sorted[count++] = &views->items[i];
    qsort(sorted, count, sizeof *sorted, by_address);
    gsc_status status = GSC_OK;
    size_t furthest = 0; /* the compact one that reaches furthest */
    for (size_t i = 1; status == GSC_OK && i < count; i++) {
        status = check_pair(api, views, sorted[furthest], sorted[i]);
        if (status == GSC_OK && !sorted[i]->skip)
            status = check_pair(api, views, sorted[i - 1], sorted[i]);
        if (!sorted[furthest]->compact || (sorted[i]->compact && end_of(sorted[i]) > end_of(sorted[furthest])))
            furthest = i;
    }
    free(sorted);
    return status;
}

gsc_status gsc__mpi_views_make(const char *api, DLTensor *const *tensors, size_t n, gsc__mpi_accept accept, bool write,
                               gsc__mpi_views *out)
{
    *out = (gsc__mpi_views){.items = NULL};
    if (n > 0 && !tensors)
        return gsc_fail(GSC_ERR_VALUE, "%s: the array of tensors is NULL and n is %zu", api, n);
    gsc__mpi_views views = {
        .items = calloc(n + 1, sizeof *views.items), .digests = calloc(n + 1, sizeof *views.digests), .count = n};
    gsc_status status = GSC_OK;
    if (!views.items || !views.digests)
        status = gsc_fail(GSC_ERR_MEMORY, "%s: no memory", api);
    for (size_t i = 0; status == GSC_OK && i < n; i++)
        if (tensors[i])
            status = check_tensor(api, i, tensors[i], accept, write, &views.items[i]);
    if (status == GSC_OK && write)
        status = check_overlaps(api, &views);
    if (status != GSC_OK)
        gsc__mpi_views_free(&views);
    else
        *out = views;
    return status;
}

void gsc__mpi_views_free(gsc__mpi_views *views)
{
    free(views->items);
    free(views->digests);
    *views = (gsc__mpi_views){.items = NULL};
}

/* Copies `count` elements between the rows of a strided tensor and a buffer. */
static void copy_row(char *row, int64_t step, char *buffer, size_t count, size_t size, bool pack)
{
    if (step == (int64_t)size) {
        if (pack)
            memcpy(buffer, row, count * size);
        else
            memcpy(row, buffer, count * size);
        return;
    }
    for (size_t i = 0; i < count; i++, row += step, buffer += size) {
        if (pack)
            memcpy(buffer, row, size);
        else
            memcpy(row, buffer, size);
    }
}

/* Row by row: `first` is taken apart into the indices of its row and its place in it. */
static void copy(const gsc__mpi_view *view, size_t first, size_t count, char *buffer, bool pack)
{
    const DLTensor *tensor = view->tensor;
    const int last = tensor->ndim - 1;
    const size_t row_length = (size_t)tensor->shape[last];
    while (count > 0) {
        size_t column = first % row_length, rest = first / row_length;
        int64_t offset = (int64_t)column * stride_of(tensor, last);
        for (int i = last - 1; i >= 0; i--) {
            offset += (int64_t)(rest % (size_t)tensor->shape[i]) * stride_of(tensor, i);
            rest /= (size_t)tensor->shape[i];
        }
        const size_t length = row_length - column < count ? row_length - column : count;
        copy_row(view->data + offset * (int64_t)view->size, stride_of(tensor, last) * (int64_t)view->size, buffer,
                 length, view->size, pack);
        buffer += length * view->size;
        first += length;
        count -= length;
    }
}

void gsc__mpi_pack(const gsc__mpi_view *view, size_t first, size_t count, char *out)
{
    if (view->compact)
        memcpy(out, view->data + first * view->size, count * view->size);
    else
        copy(view, first, count, out, true);
}

void gsc__mpi_unpack(const gsc__mpi_view *view, size_t first, size_t count, const char *in)
{
    if (view->compact)
        memcpy(view->data + first * view->size, in, count * view->size);
    else
        copy(view, first, count, (char *)(uintptr_t)in, false);
}
