/* SPDX-License-Identifier: Apache-2.0 */
/* buffers.c: optimizer.h: an optimizer made of plain arrays and a step function, in one block of memory. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype_kind.h"
#include "base/dtype_text.h"
#include "base/try.h"
#include "core/arrays.h"
#include "gradscaler/optimizer.h"

static DLTensor failed_gradient; /* never read: its address is what counts */
DLTensor *const GSC_GRAD_FAILED = &failed_gradient;

static const DLDevice cpu = {kDLCPU, 0};

typedef struct buffer_grad {
    gsc__array array;
    const char *name;
} buffer_grad;

/* The gradients are followed by copies of their names. */
typedef struct buffer_optimizer {
    gsc_optimizer base; /* first, so that gsc_optimizer_free can free the whole block by it */
    gsc_status (*step)(void *ctx);
    void *ctx;
    size_t n;
    buffer_grad grads[];
} buffer_optimizer;

static size_t count_grads(void *self) { return ((buffer_optimizer *)self)->n; }

static DLTensor *get_grad(void *self, size_t index)
{
    buffer_grad *grad = &((buffer_optimizer *)self)->grads[index];
    return grad->array.tensor.data ? &grad->array.tensor : NULL;
}

static const char *get_name(void *self, size_t index) { return ((buffer_optimizer *)self)->grads[index].name; }

static gsc_status make_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)args, (void)value, (void)has_value;
    buffer_optimizer *optimizer = self;
    return optimizer->step(optimizer->ctx);
}

static gsc_status check_buffer(const gsc_buffer *buffer, size_t index)
{
    const char *name = buffer->name ? buffer->name : "unnamed";
    DLDataType dtype = buffer->dtype;
    if (dtype.code == kDLComplex)
        return gsc_fail(GSC_ERR_UNSUPPORTED,
                        "gsc_optimizer_from_buffers: buffer %zu (%s) is %s; complex gradients "
                        "are not supported",
                        index, name, gsc__describe_dtype(dtype).text);
    if (!gsc__kind_is_float(gsc__kind_of(dtype)))
        return gsc_fail(GSC_ERR_VALUE,
                        "gsc_optimizer_from_buffers: buffer %zu (%s) has dtype %s; allowed are float32, float64, "
                        "bfloat16 and float16 with 1 lane",
                        index, name, gsc__describe_dtype(dtype).text);
    gsc__array array;
    return gsc__array_set(&array, buffer, cpu, index, "gsc_optimizer_from_buffers");
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

static buffer_optimizer *allocate(const gsc_buffer *grads, size_t n)
{
    size_t names = 0;
    for (size_t i = 0; i < n; i++)
        names += grads[i].name ? strlen(grads[i].name) + 1 : 0;
    if (n > (SIZE_MAX - sizeof(buffer_optimizer) - names) / sizeof(buffer_grad))
        return NULL;
    return calloc(1, sizeof(buffer_optimizer) + n * sizeof(buffer_grad) + names);
}

static void copy_buffers(buffer_optimizer *made, const gsc_buffer *grads)
{
    char *name = (char *)&made->grads[made->n];
    for (size_t i = 0; i < made->n; i++) {
        buffer_grad *grad = &made->grads[i];
        (void)gsc__array_set(&grad->array, &grads[i], cpu, i, ""); /* check_buffer has tried it */
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
    buffer_optimizer *made = allocate(grads, n);
    if (!made)
        return gsc_fail(GSC_ERR_MEMORY, "gsc_optimizer_from_buffers: no memory for %zu descriptors", n);
    made->base =
        (gsc_optimizer){.self = made, .grad_count = count_grads, .grad = get_grad, .name = get_name, .step = make_step};
    made->step = step;
    made->ctx = ctx;
    made->n = n;
    copy_buffers(made, grads);
    *out = &made->base;
    return GSC_OK;
}

void gsc_optimizer_free(gsc_optimizer *optimizer) { free(optimizer); }
