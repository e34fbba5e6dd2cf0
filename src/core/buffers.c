/* SPDX-License-Identifier: Apache-2.0 */
/* buffers.c: an optimizer made of plain arrays and a step function, in one allocation. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype_kind.h"
#include "core/internal.h"

typedef struct buffer_grad {
    DLTensor tensor;
    int64_t size; /* what tensor.shape points to */
    const char *name;
} buffer_grad;

/* Followed by the gradients and the copies of their names. `optimizer` comes first, so that one can be freed by it. */
typedef struct buffers {
    gsc_optimizer optimizer;
    gsc_status (*step)(void *ctx);
    void *ctx;
    size_t n;
    buffer_grad grads[];
} buffers;

static size_t count_grads(void *self) { return ((buffers *)self)->n; }

static DLTensor *get_grad(void *self, size_t index)
{
    buffer_grad *grad = &((buffers *)self)->grads[index];
    return grad->tensor.data ? &grad->tensor : NULL;
}

static const char *get_name(void *self, size_t index) { return ((buffers *)self)->grads[index].name; }

static gsc_status make_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)args, (void)value, (void)has_value;
    buffers *all = self;
    return all->step(all->ctx);
}

static gsc_status check_buffer(const gsc_buffer *buffer, size_t index)
{
    const char *name = buffer->name ? buffer->name : "unnamed";
    DLDataType dtype = buffer->dtype;
    if (dtype.code == kDLComplex)
        return gsc_fail(GSC_ERR_UNSUPPORTED,
                        "gsc_optimizer_from_buffers: buffer %zu (%s) is complex; complex gradients "
                        "are not supported",
                        index, name);
    if (!gsc__kind_is_float(gsc__kind_of(dtype)))
        return gsc_fail(
            GSC_ERR_VALUE,
            "gsc_optimizer_from_buffers: buffer %zu (%s) has dtype {code %d, bits %d, lanes %d}, allowed are "
            "GSC_FLOAT32, GSC_FLOAT64, GSC_BFLOAT16 and GSC_FLOAT16",
            index, name, dtype.code, dtype.bits, dtype.lanes);
    if (buffer->count > (size_t)INT64_MAX / 8)
        return gsc_fail(GSC_ERR_VALUE,
                        "gsc_optimizer_from_buffers: buffer %zu (%s) has %zu elements, more than memory "
                        "can hold",
                        index, name, buffer->count);
    return GSC_OK;
}

static gsc_status check_buffers(const gsc_buffer *grads, size_t n, gsc_status (*step)(void *ctx), gsc_optimizer **out)
{
    const char *null = n > 0 && !grads ? "grads" : !step ? "step" : !out ? "out" : NULL;
    if (null)
        return gsc_fail(GSC_ERR_VALUE, "gsc_optimizer_from_buffers: %s is NULL", null);
    for (size_t i = 0; i < n; i++)
        GSC_TRY(check_buffer(&grads[i], i));
    return GSC_OK;
}

static buffers *allocate(const gsc_buffer *grads, size_t n)
{
    size_t names = 0;
    for (size_t i = 0; i < n; i++)
        names += grads[i].name ? strlen(grads[i].name) + 1 : 0;
    if (n > (SIZE_MAX - sizeof(buffers) - names) / sizeof(buffer_grad))
        return NULL;
    return calloc(1, sizeof(buffers) + n * sizeof(buffer_grad) + names);
}

static void copy_buffers(buffers *all, const gsc_buffer *grads)
{
    char *name = (char *)&all->grads[all->n];
    for (size_t i = 0; i < all->n; i++) {
        buffer_grad *grad = &all->grads[i];
        grad->size = (int64_t)grads[i].count;
        grad->tensor = (DLTensor){
            .data = grads[i].data, .device = {kDLCPU, 0}, .ndim = 1, .dtype = grads[i].dtype, .shape = &grad->size};
        if (grads[i].name) {
            size_t size = strlen(grads[i].name) + 1;
            grad->name = memcpy(name, grads[i].name, size);
            name += size;
        }
    }
}

gsc_status gsc_optimizer_from_buffers(const gsc_buffer *grads, size_t n, gsc_status (*step)(void *ctx), void *ctx,
                                      gsc_optimizer **out)
{
    GSC_TRY(check_buffers(grads, n, step, out));
    buffers *all = allocate(grads, n);
    if (!all)
        return gsc_fail(GSC_ERR_MEMORY, "gsc_optimizer_from_buffers: no memory for %zu descriptors", n);
    all->optimizer =
        (gsc_optimizer){.self = all, .grad_count = count_grads, .grad = get_grad, .name = get_name, .step = make_step};
    all->step = step;
    all->ctx = ctx;
    all->n = n;
    copy_buffers(all, grads);
    *out = &all->optimizer;
    return GSC_OK;
}

void gsc_optimizer_free(gsc_optimizer *optimizer) { free(optimizer); }
