/* SPDX-License-Identifier: Apache-2.0 */
/* scaler.h: gradscaler._core.Scaler, what its files share. */
#ifndef EXT_SCALER_H
#define EXT_SCALER_H

#include "busy.h"

#include "gradscaler/scaler.h"

struct core_call;

typedef struct py_scaler {
    PyObject_HEAD gsc_scaler *core;
    PyObject *handles;                                  /* a set: those that the core knows stay alive */
    PyObject *allreduce_max, *allreduce_sum, *observer; /* NULL: none */
    busy busy;
    struct core_call *call; /* the innermost one under way */
} py_scaler;

/* options.c: the keyword arguments of Scaler as the core's options. Takes the callables into the scaler. *comm must
 * outlive gsc_scaler_create. 0, or -1 with a Python exception. */
int options_from_arguments(py_scaler *self, PyObject *args, PyObject *keywords, gsc_scaler_options *options,
                           gsc_comm *comm);

/* inspect.c: the methods that only look. Numbers are read at once; what concerns one optimizer waits while another
 * thread is in the core. */
PyObject *scaler_get_scale(PyObject *self, PyObject *none);
PyObject *scaler_get_growth_factor(PyObject *self, PyObject *none);
PyObject *scaler_get_backoff_factor(PyObject *self, PyObject *none);
PyObject *scaler_get_growth_interval(PyObject *self, PyObject *none);
PyObject *scaler_is_enabled(PyObject *self, PyObject *none);
PyObject *scaler_get_stage(PyObject *self, PyObject *handle);
PyObject *scaler_found_inf(PyObject *self, PyObject *handle);
PyObject *scaler_result(PyObject *self, PyObject *handle);
PyObject *scaler_overflows(PyObject *self, PyObject *handle);
PyObject *scaler_stats(PyObject *self, PyObject *none);

/* state.c: the core's state dict. */
PyObject *scaler_state(PyObject *object, PyObject *none);
PyObject *scaler_load_state(PyObject *object, PyObject *dict);

#endif
