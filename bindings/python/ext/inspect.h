/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.h: the methods of Scaler that only read. The scaler's own numbers are read at once; what concerns an
 * optimizer waits while another thread is in the core. */
#ifndef EXT_INSPECT_H
#define EXT_INSPECT_H

#include "python.h"

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

#endif
