/* SPDX-License-Identifier: Apache-2.0 */
/* handle.c: the type Handle. */
#include "handle.h"

#include <stddef.h>

static PyTypeObject *type;

static PyObject *handle_new(PyTypeObject *cls, PyObject *args, PyObject *keywords)
{
    static char *names[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, ":Handle", names))
        return NULL;
    return type_allocate(cls);
}

static void handle_dealloc(PyObject *self)
{
    arrays_free(&((py_handle *)self)->grads);
    type_free(self);
}

py_handle *handle_from_object(PyObject *object)
{
    if (Py_TYPE(object) == type)
        return (py_handle *)object;
    PyErr_Format(PyExc_TypeError, "handle must be a gradscaler._core.Handle, not %R", (PyObject *)Py_TYPE(object));
    return NULL;
}

py_handle *handle_from_optimizer(const gsc_optimizer *optimizer)
{
    return optimizer ? (py_handle *)((char *)optimizer - offsetof(py_handle, optimizer)) : NULL;
}

int handle_add_type(PyObject *module)
{
    static const char doc[] = "One optimizer, as the core knows it: the object is its identity.";
    static PyType_Slot slots[] = {{Py_tp_new, TYPE_SLOT(handle_new)},
                                  {Py_tp_dealloc, TYPE_SLOT(handle_dealloc)},
                                  {Py_tp_doc, (void *)doc},
                                  {0, NULL}};
    static PyType_Spec spec = {
        .name = "gradscaler._core.Handle", .basicsize = sizeof(py_handle), .flags = Py_TPFLAGS_DEFAULT, .slots = slots};
    if (!type)
        type = (PyTypeObject *)PyType_FromSpec(&spec);
    return type ? module_add(module, "Handle", (PyObject *)type) : -1;
}
