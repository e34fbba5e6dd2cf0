/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h: gradscaler._core.Handle, one optimizer as the core sees it. */
#ifndef EXT_HANDLE_H
#define EXT_HANDLE_H

#include "objects.h"

/* Adds the type to the module; 0, or -1 with a Python exception. */
int handle_add_type(PyObject *module);

/* The object as a handle; NULL with TypeError. */
py_handle *handle_from_object(PyObject *object);
/* The handle that holds the optimizer; NULL for NULL. */
py_handle *handle_from_optimizer(const gsc_optimizer *optimizer);

#endif
