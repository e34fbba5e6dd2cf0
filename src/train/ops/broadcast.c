/* SPDX-License-Identifier: Apache-2.0 */
#include "train/ops/broadcast.h"

#include <string.h>

#include "train/ops/reduce.h"
#include "train/tensor/convert.h"

/* Size of dimension d of a result of ndim dimensions, as the tensor has it. */
static int64_t size_at(const gsc_tensor *tensor, int32_t ndim, int32_t d)
{
    int32_t own = d - (ndim - tensor->data.ndim);
    return own < 0 ? 1 : tensor->shape[own];
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
        int64_t size = result->shape[d], own = size_at(tensor, result->data.ndim, d);
        int64_t stride = own == 1 ? 0 : step;
        step *= own;
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

const void *gsc__broadcast_load(const gsc__broadcast_view *view, size_t first, size_t n, gsc__kind compute, void *strip)
{
    int32_t inner = view->ndim - 1;
    if (view->ndim == 1 && view->stride[0] == 1 && view->kind == compute)
        return gsc__at(compute, view->data, first);
    for (size_t done = 0; done < n;) {
        size_t row = view->ndim > 0 ? (first + done) / (size_t)view->size[inner] : 0;
        size_t column = view->ndim > 0 ? (first + done) % (size_t)view->size[inner] : 0;
        size_t run = view->ndim > 0 ? (size_t)view->size[inner] - column : n - done;
        run = run < n - done ? run : n - done;
        size_t offset = view->ndim > 0 ? column * (size_t)view->stride[inner] : 0;
        for (int32_t d = inner - 1; d >= 0; d--) {
            offset += row % (size_t)view->size[d] * (size_t)view->stride[d];
            row /= (size_t)view->size[d];
        }
        const void *source = gsc__at(view->kind, view->data, offset);
        void *out = gsc__at_mutable(compute, strip, done);
        if (view->ndim > 0 && view->stride[inner] == 1)
            gsc__convert(view->kind, source, compute, out, run);
        else
            repeat(view, source, run, compute, out);
        done += run;
    }
    return strip;
}

/* The reverse of a view: a task computes up to `width` sums that lie together. Their terms lie in the gradient at a
 * base plus every combination of the summed dimensions; `inner` terms of one sum may lie together. */
enum { WIDTH = 256 };

typedef struct broadcast_sum {
    const gsc__broadcast_view *view;
    const void *gradient;
    void *sums;
    int64_t step[GSC_TENSOR_MAX_DIMS]; /* of the view's dimensions in the gradient, which is compact */
    size_t row;                        /* sums that lie together: the last dimension, or 1 where that is summed */
    size_t tasks_per_row;
} broadcast_sum;

static void add_row(const broadcast_sum *job, size_t at, size_t n, double *acc)
{
    double strip[GSC_STRIP];
    const double *terms = gsc__load_f64(job->view->kind, job->gradient, at, n, strip);
    for (size_t j = 0; j < n; j++)
        acc[j] += terms[j];
}

static void sum_task(void *ctx, size_t index)
{
    const broadcast_sum *job = ctx;
    const gsc__broadcast_view *view = job->view;
    int32_t inner = view->ndim - 1;
    bool inner_summed = view->stride[inner] == 0;
    size_t row = index / job->tasks_per_row;
    size_t column = index % job->tasks_per_row * WIDTH;
    size_t width = job->row - column < WIDTH ? job->row - column : WIDTH;
    size_t base = column, terms = 1;
    for (int32_t d = inner - 1; d >= 0; d--) {
        if (view->stride[d] == 0) {
            terms *= (size_t)view->size[d];
            continue;
        }
        base += row % (size_t)view->size[d] * (size_t)job->step[d];
        row /= (size_t)view->size[d];
    }
    double acc[WIDTH] = {0};
    for (size_t t = 0; t < terms; t++) {
        size_t at = base, rest = t;
        for (int32_t d = inner - 1; d >= 0; d--) {
            if (view->stride[d] != 0)
                continue;
            at += rest % (size_t)view->size[d] * (size_t)job->step[d];
            rest /= (size_t)view->size[d];
        }
        if (inner_summed)
            acc[0] += gsc__sum_run(view->kind, job->gradient, at, (size_t)view->size[inner]);
        else
            add_row(job, at, width, acc);
    }
    size_t first = index / job->tasks_per_row * job->row + column;
    gsc__convert(GSC_F64, acc, view->kind, gsc__at_mutable(view->kind, job->sums, first), width);
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
    gsc__broadcast_view view = gsc__broadcast_view_of(tensor, result);
    broadcast_sum job = {.view = &view, .gradient = gradient, .sums = sums};
    int64_t step = 1;
    for (int32_t d = view.ndim - 1; d >= 0; d--) {
        job.step[d] = step;
        step *= view.size[d];
    }
    int32_t inner = view.ndim - 1;
    job.row = view.stride[inner] == 0 ? 1 : (size_t)view.size[inner];
    job.tasks_per_row = (job.row + WIDTH - 1) / WIDTH;
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): neither tensor is empty here, so no size is 0 */
    gsc_parallel_run(tensor->count / job.row * job.tasks_per_row, sum_task, &job);
    return GSC_OK;
}
