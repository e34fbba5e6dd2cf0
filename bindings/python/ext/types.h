/* SPDX-License-Identifier: Apache-2.0 */
/* types.h: making and freeing objects of types made by PyType_FromSpec. Their functions travel as object pointers, for
 * which ISO C has no cast; POSIX does. */
#ifndef EXT_TYPES_H
#define EXT_TYPES_H

#include "module.h"

#define TYPE_SLOT(function) (__extension__(void *)(function))

/* A new object, all zero; NULL with MemoryError. */
static inline PyObject *type_allocate(PyTypeObject *cls)
{
    allocfunc allocate = __extension__(allocfunc) PyType_GetSlot(cls, Py_tp_alloc);
    return allocate(cls, 0);
}

/* The end of a dealloc. */
static inline void type_free(PyObject *self)
{
    PyTypeObject *cls = Py_TYPE(self);
    freefunc release = __extension__(freefunc) PyType_GetSlot(cls, Py_tp_free);
    release(self);
    Py_DECREF(cls);
}

#endif
