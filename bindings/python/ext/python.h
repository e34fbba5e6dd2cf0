/* SPDX-License-Identifier: Apache-2.0 */
/* python.h: Python.h, limited to the API of 3.9, and short ways through that API. Include it first.
 *
 * Exceptions, types and looked-up objects are statics, made by the first load and kept until the process ends: the
 * limited API of 3.9 has no way from a type to its module. So the extension serves one interpreter; module.c refuses a
 * second one. A second load in the same interpreter adds the same objects again: each *_add function makes its objects
 * only where its statics are still NULL. */
#ifndef EXT_PYTHON_H
#define EXT_PYTHON_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

/* Adds object, which the caller keeps, under name; 0, or -1 with a Python exception. */
static inline int module_add(PyObject *module, const char *name, PyObject *object)
{
    Py_INCREF(object);
    if (PyModule_AddObject(module, name, object) < 0) { /* takes the reference where it succeeds */
        Py_DECREF(object);
        return -1;
    }
    return 0;
}

/* A function in a slot of PyType_FromSpec. ISO C has no cast from functions to object pointers; POSIX does. */
#define TYPE_SLOT(function) (__extension__(void *)(function))

/* A new object, all zero, of a type made by PyType_FromSpec; NULL with MemoryError. */
static inline PyObject *type_allocate(PyTypeObject *cls)
{
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(cls, Py_tp_alloc);
    return allocate(cls, 0);
}

/* The end of such a type's dealloc. */
static inline void type_free(PyObject *self)
{
    PyTypeObject *cls = Py_TYPE(self);
    freefunc release = __extension__(freefunc) PyType_GetSlot(cls, Py_tp_free);
    release(self);
    Py_DECREF(cls);
}

#endif
