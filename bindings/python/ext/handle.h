/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h: gradscaler._core.Handle, one optimizer as the core sees it. */
#ifndef EXT_HANDLE_H
#define EXT_HANDLE_H

#include "arrays.h"

#include "gradscaler/scaler.h"

struct py_scaler;

/* Python objects do not move, so the address of `optimizer` is an identity. The scalers that know a handle keep a
 * reference to it. */
typedef struct py_handle {
    PyObject_HEAD gsc_optimizer optimizer;
    struct py_scaler
        *scaler;  /* whose call it takes part in, NULL between calls; never read, only compared, by others */
    arrays grads; /* released: memory for the next call */
    const struct py_scaler *stepped_by; /* whose step `result` is of, NULL: none; only compared */
    gsc_step_result result;             /* kept here, since callbacks may not ask the core for it */
} py_handle;

/* The object as a handle; NULL with TypeError. */
py_handle *handle_from(PyObject *object);
/* The handle that the core means; NULL for NULL. */
py_handle *handle_of(const gsc_optimizer *optimizer);

#endif
