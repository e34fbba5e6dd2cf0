/* SPDX-License-Identifier: Apache-2.0 */
/* module.h: gradscaler._core, what its files share. Include it first: it brings Python.h, limited to the API of 3.9.
 *
 * Exceptions, types and looked-up objects are statics, made by the first load and kept for the life of the process: the
 * limited API of 3.9 has no way from a type to its module. So the module serves one interpreter, and a second one
 * (a sub-interpreter) is refused with ImportError. A second load in the same interpreter adds the same objects again:
 * each *_add function makes its objects only where its statics are still NULL. */
#ifndef EXT_MODULE_H
#define EXT_MODULE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

/* Each adds its objects to the module; 0, or -1 with a Python exception. */
int functions_add(PyObject *module);
int handle_add_type(PyObject *module);
int scaler_add_type(PyObject *module);

/* Adds object, which the caller keeps, under name; 0, or -1 with a Python exception. */
int module_add(PyObject *module, const char *name, PyObject *object);

#endif
