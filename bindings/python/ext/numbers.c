/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.c: conversions, and their refusals. */
#include "numbers.h"

#include <math.h>

static int wrong_type(PyObject *object, const char *what, const char *wanted)
{
    if (PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s must be %s, not %R", what, wanted, (PyObject *)Py_TYPE(object));
    }
    return -1;
}

static int beyond_double(PyObject *object, double *out)
{
    PyErr_Clear();
    PyObject *zero = PyLong_FromLong(0);
    int negative = zero ? PyObject_RichCompareBool(object, zero, Py_LT) : -1;
    Py_XDECREF(zero);
    if (negative < 0)
        return -1;
    *out = negative ? -(double)INFINITY : (double)INFINITY;
    return 0;
}

int number_to_double(PyObject *object, const char *what, double *out)
{
    *out = PyFloat_AsDouble(object);
    if (*out != -1.0 || !PyErr_Occurred())
        return 0;
    if (PyErr_ExceptionMatches(PyExc_OverflowError))
        return beyond_double(object, out);
    return wrong_type(object, what, "a number");
}

/* The object as a Python integer, a new reference; NULL with a Python exception. */
static PyObject *to_index(PyObject *object, const char *what)
{
    PyObject *index = PyNumber_Index(object);
    if (index || !PyErr_ExceptionMatches(PyExc_TypeError))
        return index;
    PyErr_Clear();
    double value = PyFloat_AsDouble(object);
    if (value == -1.0 && PyErr_Occurred()) {
        wrong_type(object, what, "an integer");
        return NULL;
    }
    if (isfinite(value) && floor(value) == value)
        return PyLong_FromDouble(value);
    PyErr_Format(PyExc_ValueError, "%s is %S, allowed are integers", what, object);
    return NULL;
}

static int to_range(PyObject *object, const char *what, int64_t low, int64_t high, int64_t *out)
{
    PyObject *index = to_index(object, what);
    if (!index)
        return -1;
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(index, &overflow);
    int failed = *out == -1 && PyErr_Occurred();
    if (!failed && (overflow || *out < low || *out > high)) { /* not printed: Python refuses to print long numbers */
        PyErr_Format(PyExc_ValueError, "%s is an integer that %d bits do not hold", what, high == INT32_MAX ? 32 : 64);
        failed = 1;
    }
    Py_DECREF(index);
    return failed ? -1 : 0;
}

int number_to_int64(PyObject *object, const char *what, int64_t *out)
{
    return to_range(object, what, INT64_MIN, INT64_MAX, out);
}

int number_to_int32(PyObject *object, const char *what, int32_t *out)
{
    int64_t value;
    if (to_range(object, what, INT32_MIN, INT32_MAX, &value) < 0)
        return -1;
    *out = (int32_t)value;
    return 0;
}
