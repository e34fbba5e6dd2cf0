/* SPDX-License-Identifier: Apache-2.0 */
/* errors.h: the core's failures as Python exceptions. */
#ifndef EXT_ERRORS_H
#define EXT_ERRORS_H

#include "python.h"

#include "gradscaler/status.h"

/* Makes DeviceError, CommError and DivergedError and adds them to the module; 0, or -1 with a Python exception. */
int errors_add(PyObject *module);

/* The class for a status, as GSC_STATUSES (status.h) has it; borrowed. */
PyObject *exception_for_status(gsc_status status);

/* Raises the exception for a failed call of the core, with the core's message; the function that it begins with gets
 * its Python name (unscale_ for gsc_scaler_unscale). Call it on the thread of that call, with the GIL. Returns NULL, to
 * be returned. An exception of a callback's is raised by call_end instead. */
PyObject *raise_status(gsc_status status);

/* The same after a call in which the core knew no names: adds name(3) to a message about `gradient 3`. name: a callable
 * or None. */
PyObject *raise_status_named(gsc_status status, PyObject *name);

/* `gradient 3 ("weight")`, as the core writes it; name: a callable from an index to a string or None, or None. A new
 * string, or NULL with a Python exception. */
PyObject *describe_gradient(size_t index, PyObject *name);

/* Raises an exception whose cause is the one that is set now. Returns -1, to be returned. */
int raise_from(PyObject *exception, PyObject *message);

#endif
