/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.c: gsc_buffers as tensors, and as the gradients of an optimizer that lives for one call. */
#include "core/arrays.h"

#include <stdlib.h>

#include "base/try.h"

gsc_status gsc__array_set(gsc__array *array, const gsc_buffer *buffer, DLDevice device, size_t index, const char *api)
{
    if (buffer->count > (size_t)INT64_MAX / 8)
        return gsc_fail(GSC_ERR_VALUE, "%s: buffer %zu (%s) has %zu elements, more than memory can hold", api, index,
                        buffer->name ? buffer->name : "unnamed", buffer->count);
    array->size = (int64_t)buffer->count;
    array->tensor =
        (DLTensor){.data = buffer->data, .device = device, .ndim = 1, .dtype = buffer->dtype, .shape = &array->size};
    return GSC_OK;
}

static gsc_status reserve(gsc__arrays *arrays, size_t n, const char *api)
{
    if (n <= arrays->capacity)
        return GSC_OK;
    gsc__array *reserved = n <= SIZE_MAX / sizeof *reserved ? malloc(n * sizeof *reserved) : NULL;
    if (!reserved)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for %zu descriptors", api, n);
    free(arrays->arrays);
    arrays->arrays = reserved;
    arrays->capacity = n;
    return GSC_OK;
}

gsc_status gsc__arrays_set(gsc__arrays *arrays, const gsc_buffer *buffers, size_t n, DLDevice device, const char *api)
{
    arrays->count = 0;
    GSC_TRY(reserve(arrays, n, api));
    for (size_t i = 0; i < n; i++)
        GSC_TRY(gsc__array_set(&arrays->arrays[i], &buffers[i], device, i, api));
    arrays->count = n;
    arrays->buffers = buffers;
    return GSC_OK;
}

void gsc__arrays_free(gsc__arrays *arrays) { free(arrays->arrays); }

static size_t count(void *self) { return ((const gsc__arrays *)self)->count; }

static DLTensor *tensor(void *self, size_t index)
{
    DLTensor *array = &((const gsc__arrays *)self)->arrays[index].tensor;
    return array->data ? array : NULL;
}

static const char *name(void *self, size_t index) { return ((const gsc__arrays *)self)->buffers[index].name; }

static gsc_status leave_to_the_caller(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)self, (void)args, (void)value, (void)has_value;
    return GSC_OK;
}

gsc_optimizer gsc__arrays_optimizer(gsc__arrays *arrays)
{
    return (gsc_optimizer){
        .self = arrays, .grad_count = count, .grad = tensor, .name = name, .step = leave_to_the_caller};
}
