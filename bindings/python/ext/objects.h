/* SPDX-License-Identifier: Apache-2.0 */
/* objects.h: the structs behind the two types, gradscaler._core.Handle and gradscaler._core.Scaler. */
#ifndef EXT_OBJECTS_H
#define EXT_OBJECTS_H

#include "python.h"

#include "arrays.h"
#include "busy.h"

#include "gradscaler/scaler.h"

struct call_frame; /* frame.h */

typedef struct py_scaler {
    PyObject_HEAD gsc_scaler *core;
    PyObject *handles; /* a set: keeps alive the handles that the core knows */
    PyObject *allreduce_max, *allreduce_sum, *allreduce_max64, *observer; /* callables; NULL: none */
    busy busy;
    struct call_frame *frame; /* of the innermost call under way; NULL: none */
} py_scaler;

/* One optimizer. Python objects do not move, so the address of `optimizer` identifies it to the core. */
typedef struct py_handle {
    PyObject_HEAD gsc_optimizer optimizer; /* its callbacks are set by the first call */
    py_scaler *scaler;                     /* the scaler whose call it takes part in; NULL between calls */
    arrays grads;                          /* released: memory for the next call */
    const py_scaler *stepped_by;           /* the scaler whose step left `result`; NULL: none. Only compared */
    gsc_step_result result;                /* a copy: callbacks may not ask the core for it */
} py_handle;

#endif
