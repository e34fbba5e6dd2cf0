/* SPDX-License-Identifier: Apache-2.0 */
/* broadcast.c: NumPy's broadcasting, and the sums that reverse it in the backward pass. */
#include "train/ops/broadcast.h"

#include <string.h>

#include "gradscaler/runtime.h"
#include "train/ops/reduce.h"
#include "train/tensor/convert.h"

/* The tensor's size along dimension d of a result of ndim dimensions. */
static int64_t size_at(const gsc_tensor *tensor, int32_t ndim, int32_t d)
{
    int32_t dimension = d - (ndim - tensor->data.ndim);
    return dimension < 0 ? 1 : tensor->shape[dimension];
}

gsc_status gsc__broadcast_shape(gsc__call *call)
{
    const gsc_tensor *a = call->in[0], *b = call->in[1];
    call->ndim = a->data.ndim > b->data.ndim ? a->data.ndim : b->data.ndim;
    for (int32_t d = 0; d < call->ndim; d++) {
        int64_t size_a = size_at(a, call->ndim, d), size_b = size_at(b, call->ndim, d);
        if (size_a != size_b && size_a != 1 && size_b != 1)
            return gsc_fail(GSC_ERR_VALUE,
                            "%s: %s has shape %s, %s has %s; from the last dimension on, sizes must be equal or 1",
                            call->op->name, call->op->operands[0], gsc__tensor_shape_text(a).text,
                            call->op->operands[1], gsc__tensor_shape_text(b).text);
        call->shape[d] = size_a == 1 ? size_b : size_a;
    }
    return GSC_OK;
}

gsc__broadcast_view gsc__broadcast_view_of(const gsc_tensor *tensor, const gsc_tensor *result)
{
    gsc__broadcast_view reversed = {.data = tensor->data.data, .kind = tensor->kind}; /* last dimension first */
    int32_t n = 0;
    int64_t step = 1; /* elements of the tensor from one index of dimension d to the next */
    for (int32_t d = result->data.ndim - 1; d >= 0; d--) {
        int64_t size = result->shape[d], tensor_size = size_at(tensor, result->data.ndim, d);
        int64_t stride = tensor_size == 1 ? 0 : step;
        step *= tensor_size;
        if (size == 1)
            continue;
        /* Dimension d is merged into the one after it if one stride reaches the elements of both. So are neighbours
         * that the tensor is broadcast along: both have stride 0. */
        if (n > 0 && stride == reversed.stride[n - 1] * reversed.size[n - 1]) {
            reversed.size[n - 1] *= size;
            continue;
        }
        reversed.size[n] = size;
        reversed.stride[n++] = stride;
    }
    gsc__broadcast_view view = reversed;
    view.ndim = n;
    for (int32_t d = 0; d < n; d++) {
        view.size[d] = reversed.size[n - 1 - d];
        view.stride[d] = reversed.stride[n - 1 - d];
    }
    return view;
}

/* Converts the element and writes n copies of it. */
static void repeat(const gsc__broadcast_view *view, const void *element, size_t n, gsc__kind out_kind, void *out)
{
    size_t size = gsc__kind_size(out_kind);
    gsc__convert(view->kind, element, out_kind, out, 1);
    for (size_t i = 1; i < n; i++)
        memcpy((char *)out + i * size, out, size);
}

/* A row of the view is a run of elements along its last dimension. Rows are numbered in the order of the result.
 * Returns the offset of a row's first element in the tensor. */
static size_t row_offset(const gsc__broadcast_view *view, size_t row)
{
    size_t offset = 0;
    for (int32_t d = view->ndim - 2; d >= 0; d--) {
        offset += row % (size_t)view->size[d] * (size_t)view->stride[d];
        row /= (size_t)view->size[d];
    }
    return offset;
}

const void *gsc__broadcast_load(const gsc__broadcast_view *view, size_t first, size_t n, gsc__kind out_kind,
                                void *strip)
{
    if (view->ndim == 0) {
        repeat(view, view->data, n, out_kind, strip);
        return strip;
    }
    int32_t last = view->ndim - 1;
    size_t columns = (size_t)view->size[last], stride = (size_t)view->stride[last];
    if (view->ndim == 1 && stride == 1 && view->kind == out_kind)
        return gsc__at(out_kind, view->data, first);
    for (size_t done = 0; done < n;) {
        size_t row = (first + done) / columns, column = (first + done) % columns;
        size_t run = columns - column < n - done ? columns - column : n - done;
        const void *source = gsc__at(view->kind, view->data, row_offset(view, row) + column * stride);
        void *out = gsc__at_mutable(out_kind, strip, done);
        if (stride == 1)
            gsc__convert(view->kind, source, out_kind, out, run);
        else
            repeat(view, source, run, out_kind, out);
        done += run;
    }
    return strip;
}

/* Each element of the tensor gets the sum of the gradient's elements that it was broadcast to. The view's dimensions
 * with stride 0 are summed over; the others are kept. The sums form rows along the view's last dimension. If that
 * dimension is summed over, a row has one sum. A task computes up to WIDTH neighbouring sums of one row. */
enum { WIDTH = 256 };

typedef struct broadcast_sum {
    const gsc__broadcast_view *view;
    const void *gradient;
    void *sums;
    int64_t step[GSC_TENSOR_MAX_DIMS]; /* strides of the view's dimensions in the gradient, which is compact */
    size_t sums_per_row;
    size_t tasks_per_row;
} broadcast_sum;

/* Offset in the gradient for an index into some of the view's dimensions: those that are summed over, or (`summed`
 * false) those that are kept. The last dimension is left out; the caller goes along it. */
static size_t gradient_offset(const broadcast_sum *job, bool summed, size_t index)
{
    const gsc__broadcast_view *view = job->view;
    size_t offset = 0;
    for (int32_t d = view->ndim - 2; d >= 0; d--) {
        if ((view->stride[d] == 0) != summed)
            continue;
        offset += index % (size_t)view->size[d] * (size_t)job->step[d];
        index /= (size_t)view->size[d];
    }
    return offset;
}

/* The product of the sizes of the summed dimensions, without the last dimension: how many runs of the gradient are
 * added up. */
static size_t summed_runs(const gsc__broadcast_view *view)
{
    size_t count = 1;
    for (int32_t d = view->ndim - 2; d >= 0; d--)
        count *= view->stride[d] == 0 ? (size_t)view->size[d] : 1;
    return count;
}

/* Adds elements first … first + n - 1 of the gradient to n sums, one to each. */
static void add_run(const broadcast_sum *job, size_t first, size_t n, double *sums)
{
    double strip[GSC_STRIP];
    const double *elements = gsc__load_f64(job->view->kind, job->gradient, first, n, strip);
    for (size_t i = 0; i < n; i++)
        sums[i] += elements[i];
}

static void sum_task(void *ctx, size_t index)
{
    const broadcast_sum *job = ctx;
    const gsc__broadcast_view *view = job->view;
    int32_t last = view->ndim - 1;
    size_t row = index / job->tasks_per_row;
    gsc__range columns = gsc__part(job->sums_per_row, WIDTH, index % job->tasks_per_row);
    size_t width = columns.end - columns.first, runs = summed_runs(view);
    size_t base = gradient_offset(job, false, row) + columns.first;
    double sums[WIDTH] = {0};
    for (size_t run = 0; run < runs; run++) {
        size_t first = base + gradient_offset(job, true, run);
        if (view->stride[last] == 0)
            sums[0] += gsc__sum_run(view->kind, job->gradient, first, (size_t)view->size[last]);
        else
            add_run(job, first, width, sums);
    }
    void *out = gsc__at_mutable(view->kind, job->sums, row * job->sums_per_row + columns.first);
    gsc__convert(GSC_F64, sums, view->kind, out, width);
}

static void sum_broadcast(const gsc_tensor *result, const void *gradient, const gsc_tensor *tensor, void *sums)
{
    gsc__broadcast_view view = gsc__broadcast_view_of(tensor, result);
    broadcast_sum job = {.view = &view, .gradient = gradient, .sums = sums};
    int32_t last = view.ndim - 1;
    int64_t step = 1;
    for (int32_t d = last; d >= 0; d--) {
        job.step[d] = step;
        step *= view.size[d];
    }
    job.sums_per_row = view.stride[last] == 0 ? 1 : (size_t)view.size[last];
    job.tasks_per_row = gsc__parts(job.sums_per_row, WIDTH);
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): neither tensor is empty here, so no size is 0 */
    gsc_parallel_run(tensor->count / job.sums_per_row * job.tasks_per_row, sum_task, &job);
}

gsc_status gsc__broadcast_sum(gsc_tape *tape, const gsc_tensor *result, const void *gradient, const gsc_tensor *tensor,
                              void *sums)
{
    if (tensor->count == result->count) {
        memcpy(sums, gradient, gsc__tensor_bytes(tensor));
        return GSC_OK;
    }
    if (tensor->count == 0)
        return GSC_OK;
    if (result->count == 0) {
        memset(sums, 0, gsc__tensor_bytes(tensor));
        return GSC_OK;
    }
    if (tensor->count == 1)
        return gsc__sum_to_one(tape, tensor->kind, gradient, result->count, 1.0, sums);
    sum_broadcast(result, gradient, tensor, sums);
    return GSC_OK;
}
