/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.h: gsc_buffers as tensors, and as the gradients of an optimizer that lives for one call. */
#ifndef GSC_CORE_ARRAYS_H
#define GSC_CORE_ARRAYS_H

#include "gradscaler/optimizer.h"

typedef struct gsc__array {
    DLTensor tensor;
    int64_t size; /* tensor.shape points here, so an array must not move */
} gsc__array;

/* GSC_ERR_VALUE: more elements than memory can hold. `api` and index are for messages. */
gsc_status gsc__array_set(gsc__array *array, const gsc_buffer *buffer, DLDevice device, size_t index, const char *api);

/* The arrays of the call that is running. They stay at one place while their number does not grow, so that a list of
 * them is known again. */
typedef struct gsc__arrays {
    gsc__array *arrays;
    size_t count, capacity;
    const gsc_buffer *buffers; /* the caller's, for names */
} gsc__arrays;

gsc_status gsc__arrays_set(gsc__arrays *arrays, const gsc_buffer *buffers, size_t n, DLDevice device, const char *api);
void gsc__arrays_free(gsc__arrays *arrays);
/* The optimizer that has them as gradients. Its step does nothing: the caller makes its own. */
gsc_optimizer gsc__arrays_optimizer(gsc__arrays *arrays);

#endif
