/* SPDX-License-Identifier: Apache-2.0 */
/* param.h: parameters with gradients of the test's choice, for tests of layers and optimizers. */
#ifndef GSC_TESTS_PARAM_H
#define GSC_TESTS_PARAM_H

#include <stdint.h>
#include <string.h>

#include "asserts.h"
#include "elements.h"
#include "gradscaler/train.h"

static inline gsc_tensor *new_param(DLDataType dtype, size_t count, const char *name)
{
    gsc_tensor *tensor;
    assert_ok(gsc_tensor_create(dtype, 1, (int64_t[]){(int64_t)count}, &tensor));
    assert_ok(gsc_tensor_set_requires_grad(tensor, true));
    assert_ok(gsc_tensor_set_name(tensor, name));
    return tensor;
}

/* Gives the parameter a gradient of zeros, as a backward pass would. */
static inline void add_grad(gsc_tensor *param)
{
    gsc_tape *tape;
    assert_ok(gsc_tape_create(&tape));
    assert_ok(gsc_tape_backward(tape, gsc_sum(gsc_tape_param(tape, param))));
    gsc_tape_free(tape);
    for (size_t i = 0; i < gsc_tensor_count(param); i++)
        element_set(gsc_tensor_grad(param), i, 0);
}

static inline gsc_tensor *new_scalar(double value, double grad)
{
    gsc_tensor *param = new_param(GSC_FLOAT32, 1, "w");
    element_set(gsc_tensor_data(param), 0, value);
    add_grad(param);
    element_set(gsc_tensor_grad(param), 0, grad);
    return param;
}

#endif
