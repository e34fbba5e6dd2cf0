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
    gsc__broadcast_view reversed = {.data = tensor->data.data, .kind = tensor->kind};
    int32_t n = 0;
    int64_t step = 1;
    for (int32_t d = result->data.ndim - 1; d >= 0; d--) {
        int64_t size = result->shape[d], stored = size_at(tensor, result->data.ndim, d);
        int64_t stride = stored == 1 ? 0 : step;
        step *= stored;
        if (size == 1)
            continue;
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

/* Writes n copies of the element. */
static void repeat(const gsc__broadcast_view *view, const void *element, size_t n, gsc__kind compute, void *out)
{
    size_t size = gsc__kind_size(compute);
    gsc__convert(view->kind, element, compute, out, 1);
    for (size_t i = 1; i < n; i++)
        memcpy((char *)out + i * size, out, size);
}

/* Offset in the tensor of the view's row: an index into all dimensions but the last. */
static size_t row_offset(const gsc__broadcast_view *view, size_t row)
{
    size_t offset = 0;
    for (int32_t d = view->ndim - 2; d >= 0; d--) {
        offset += row % (size_t)view->size[d] * (size_t)view->stride[d];
        row /= (size_t)view->size[d];
    }
    return offset;
}

const void *gsc__broadcast_load(const gsc__broadcast_view *view, size_t first, size_t n, gsc__kind compute, void *strip)
{
    if (view->ndim == 0) {
        repeat(view, view->data, n, compute, strip);
        return strip;
    }
    int32_t last = view->ndim - 1;
    size_t columns = (size_t)view->size[last], stride = (size_t)view->stride[last];
    if (view->ndim == 1 && stride == 1 && view->kind == compute)
        return gsc__at(compute, view->data, first);
    for (size_t done = 0; done < n;) {
        size_t row = (first + done) / columns, column = (first + done) % columns;
        size_t run = columns - column < n - done ? columns - column : n - done;
        const void *source = gsc__at(view->kind, view->data, row_offset(view, row) + column * stride);
        void *out = gsc__at_mutable(compute, strip, done);
        if (stride == 1)
            gsc__convert(view->kind, source, compute, out, run);
        else
            repeat(view, source, run, compute, out);
        done += run;
    }
    return strip;
}

/* The sums are the elements of a tensor, and their terms those of the gradient. The view's dimensions with stride 0 are
 * summed. A task computes up to WIDTH sums of one row: of neighbours along the last dimension, or a single one where
 * the last dimension is summed. */
enum { WIDTH = 256 };

typedef struct broadcast_sum {
    const gsc__broadcast_view *view;
    const void *gradient;
    void *sums;
    int64_t step[GSC_TENSOR_MAX_DIMS]; /* of the view's dimensions in the gradient, which is compact */
    size_t row;                        /* sums of a row */
    size_t tasks_per_row;
} broadcast_sum;

/* Offset in the gradient of element `index` of all dimensions but the last that are summed, or of those that are not.
 */
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

/* How many elements gradient_offset has of the dimensions that are summed. */
static size_t summed_count(const gsc__broadcast_view *view)
{
    size_t count = 1;
    for (int32_t d = view->ndim - 2; d >= 0; d--)
        count *= view->stride[d] == 0 ? (size_t)view->size[d] : 1;
    return count;
}

static void add_row(const broadcast_sum *job, size_t first, size_t n, double *sums)
{
    double strip[GSC_STRIP];
    const double *terms = gsc__load_f64(job->view->kind, job->gradient, first, n, strip);
    for (size_t i = 0; i < n; i++)
        sums[i] += terms[i];
}

static void sum_task(void *ctx, size_t index)
{
    const broadcast_sum *job = ctx;
    const gsc__broadcast_view *view = job->view;
    int32_t last = view->ndim - 1;
    size_t row = index / job->tasks_per_row;
    gsc__range columns = gsc__part(job->row, WIDTH, index % job->tasks_per_row);
    size_t width = columns.end - columns.first, terms = summed_count(view);
    size_t base = gradient_offset(job, false, row) + columns.first;
    double sums[WIDTH] = {0};
    for (size_t t = 0; t < terms; t++) {
        size_t first = base + gradient_offset(job, true, t);
        if (view->stride[last] == 0)
            sums[0] += gsc__sum_run(view->kind, job->gradient, first, (size_t)view->size[last]);
        else
            add_row(job, first, width, sums);
    }
    void *out = gsc__at_mutable(view->kind, job->sums, row * job->row + columns.first);
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
    job.row = view.stride[last] == 0 ? 1 : (size_t)view.size[last];
    job.tasks_per_row = gsc__parts(job.row, WIDTH);
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): neither tensor is empty here, so no size is 0 */
    gsc_parallel_run(tensor->count / job.row * job.tasks_per_row, sum_task, &job);
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
