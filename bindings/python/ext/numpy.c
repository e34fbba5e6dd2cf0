/* SPDX-License-Identifier: Apache-2.0 */
/* numpy.c: looks at classes and dtypes by name. */
#include "numpy.h"

/* A class of a module that has been imported, as a new reference; NULL without an exception. */
static PyObject *find_class(const char *module, const char *name)
{
    PyObject *found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
    found = found ? PyObject_GetAttrString(found, name) : NULL;
    if (found && PyType_Check(found))
        return found;
    Py_XDECREF(found);
    PyErr_Clear();
    return NULL;
}

bool numpy_is_masked(PyObject *object)
{
    static PyObject *masked_array; /* NULL until numpy.ma has been imported; kept until the process ends */
    if (!(PyType_GetFlags(Py_TYPE(object)) & Py_TPFLAGS_HEAPTYPE))
        return false; /* not a class written in Python: the fast path, as for numpy.ndarray */
    if (!masked_array && !(masked_array = find_class("numpy.ma", "MaskedArray")))
        return false;
    return PyType_IsSubtype(Py_TYPE(object), (PyTypeObject *)masked_array);
}

int numpy_is_bfloat16(PyObject *object)
{
    PyObject *array = find_class("numpy", "ndarray");
    bool is_array = array && PyType_IsSubtype(Py_TYPE(object), (PyTypeObject *)array);
    Py_XDECREF(array);
    if (!is_array)
        return 0;
    PyObject *dtype = PyObject_GetAttrString(object, "dtype");
    PyObject *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    int is_bfloat16 = name ? PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "bfloat16") == 0 : -1;
    Py_XDECREF(dtype);
    Py_XDECREF(name);
    return is_bfloat16;
}
