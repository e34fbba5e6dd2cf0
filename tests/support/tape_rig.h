/* SPDX-License-Identifier: Apache-2.0 */
/* tape_rig.h: short ways to put numbers into tensors and to look at them. */
#ifndef GSC_TESTS_TAPE_RIG_H
#define GSC_TESTS_TAPE_RIG_H

#include <stddef.h>
#include <stdint.h>

#include "asserts.h"
#include "elements.h"
#include "gradscaler/train.h"

#define SHAPE(...)                                                                                                     \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define VALUES(...)                                                                                                    \
    (double[]) { __VA_ARGS__ }

static inline gsc_tape *new_tape(void)
{
    gsc_tape *tape;
    assert_ok(gsc_tape_create(&tape));
    return tape;
}

/* values NULL: zeros. */
static inline gsc_tensor *new_tensor(DLDataType dtype, int32_t ndim, const int64_t *shape, const double *values)
{
    gsc_tensor *tensor;
    assert_ok(gsc_tensor_create(dtype, ndim, shape, &tensor));
    for (size_t i = 0; values && i < gsc_tensor_count(tensor); i++)
        element_set(gsc_tensor_data(tensor), i, values[i]);
    return tensor;
}

static inline gsc_tensor *new_parameter(DLDataType dtype, int32_t ndim, const int64_t *shape, const double *values)
{
    gsc_tensor *tensor = new_tensor(dtype, ndim, shape, values);
    assert_ok(gsc_tensor_set_requires_grad(tensor, true));
    return tensor;
}

static inline gsc_tensor *new_input(gsc_tape *tape, DLDataType dtype, int32_t ndim, const int64_t *shape,
                                    const double *values)
{
    gsc_tensor *tensor = new_tensor(dtype, ndim, shape, values);
    gsc_tensor *input = gsc_tape_input(tape, gsc_tensor_data(tensor));
    assert_non_null(input);
    gsc_tensor_free(tensor);
    return input;
}

static inline gsc_tensor *new_labels(gsc_tape *tape, size_t n, const int64_t *labels)
{
    DLTensor values = {.data = (void *)(uintptr_t)labels,
                       .device = {kDLCPU, 0},
                       .ndim = 1,
                       .dtype = GSC_INT64,
                       .shape = (int64_t[]){(int64_t)n}};
    gsc_tensor *input = gsc_tape_input(tape, &values);
    assert_non_null(input);
    return input;
}

static inline double element(gsc_tensor *tensor, size_t i) { return element_get(gsc_tensor_data(tensor), i); }

static inline double grad_element(gsc_tensor *tensor, size_t i)
{
    assert_non_null(gsc_tensor_grad(tensor));
    return element_get(gsc_tensor_grad(tensor), i);
}

#endif
