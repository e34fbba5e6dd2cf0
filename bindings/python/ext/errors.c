/* SPDX-License-Identifier: Apache-2.0 */
/* errors.c: exception classes, and messages in Python's words. */
#include "errors.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Named as Python's own classes are, so that GSC_STATUSES can name either kind. GSC_OK has none. */
static PyObject *PyExc_DeviceError, *PyExc_CommError, *PyExc_DivergedError, *const PyExc_None;

static int add_exception(PyObject *module, PyObject **exception, const char *name, const char *doc)
{
    if (!*exception && !(*exception = PyErr_NewExceptionWithDoc(name, doc, PyExc_RuntimeError, NULL)))
        return -1;
    return module_add(module, strrchr(name, '.') + 1, *exception);
}

int errors_add(PyObject *module)
{
    if (add_exception(module, &PyExc_DeviceError, "gradscaler.DeviceError",
                      "A device that this scaler does not serve.") < 0)
        return -1;
    if (add_exception(module, &PyExc_CommError, "gradscaler.CommError",
                      "A collective failed, another rank failed, or the ranks disagree.") < 0)
        return -1;
    return add_exception(
        module, &PyExc_DivergedError, "gradscaler.DivergedError",
        "Too many iterations overflowed: max_consecutive_skips in a row, or more than max_skip_share of the "
        "last skip_window.");
}

PyObject *exception_for_status(gsc_status status)
{
    switch (status) {
#define CLASS(name, number, python, meaning)                                                                           \
    case name: return PyExc_##python;
        GSC_STATUSES(CLASS)
#undef CLASS
    }
    return PyExc_RuntimeError;
}

/* Functions whose Python names are not their C names without gsc_scaler_ or gsc_. */
static const struct {
    const char *core, *python;
} names[] = {
    {"gsc_scaler_create", "GradScaler"},
    {"gsc_scaler_unscale", "unscale_"},
    {"gsc_scaler_clip_grad_norm", "clip_grad_norm_"},
    {"gsc_scaler_update_to", "update(new_scale)"},
    {"gsc_clip_grad_norm", "clip_grad_norm_"},
    {"gsc_clip_grad_value", "clip_grad_value_"},
};

static const char *python_name(const char *function)
{
    static const char scaler[] = "gsc_scaler_", library[] = "gsc_";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(function, names[i].core) == 0)
            return names[i].python;
    return function + strlen(strncmp(function, scaler, strlen(scaler)) == 0 ? scaler : library);
}

/* ` ("weight")`, or an empty string where the gradient has no name; NULL with a Python exception. */
static PyObject *describe_name(size_t index, PyObject *name)
{
    if (name == Py_None)
        return PyUnicode_FromString("");
    PyObject *found = PyObject_CallFunction(name, "n", (Py_ssize_t)index);
    if (!found)
        return NULL;
    PyObject *text = found == Py_None ? PyUnicode_FromString("") : PyUnicode_FromFormat(" (\"%S\")", found);
    Py_DECREF(found);
    return text;
}

PyObject *describe_gradient(size_t index, PyObject *name)
{
    PyObject *named = describe_name(index, name);
    if (!named)
        return NULL;
    PyObject *text = PyUnicode_FromFormat("gradient %zd%U", (Py_ssize_t)index, named);
    Py_DECREF(named);
    return text;
}

PyObject *raise_status_named(gsc_status status, PyObject *name)
{
    static const char subject[] = "gradient ";
    char text[512]; /* a copy: name() may call the core, which may then have another last message */
    snprintf(text, sizeof text, "%s", gsc_last_error());
    char *colon = strncmp(text, "gsc_", strlen("gsc_")) == 0 ? strstr(text, ": ") : NULL;
    char *rest = colon ? colon + strlen(": ") : text;
    bool unnamed = name != Py_None && strncmp(rest, subject, strlen(subject)) == 0;
    size_t index = unnamed ? strtoull(rest + strlen(subject), &rest, 10) : 0;
    PyObject *gradient = unnamed ? describe_gradient(index, name) : PyUnicode_FromString("");
    if (!gradient)
        return NULL;
    if (colon)
        *colon = '\0';
    PyErr_Format(exception_for_status(status), "%s%s%U%s", colon ? python_name(text) : "", colon ? ": " : "", gradient,
                 rest);
    Py_DECREF(gradient);
    return NULL;
}

PyObject *raise_status(gsc_status status) { return raise_status_named(status, Py_None); }

int raise_from(PyObject *exception, PyObject *message)
{
    PyObject *type, *value, *traceback, *cause = NULL;
    PyErr_Fetch(&type, &cause, &traceback);
    PyErr_NormalizeException(&type, &cause, &traceback);
    if (traceback)
        PyException_SetTraceback(cause, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    PyErr_SetObject(exception, message);
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Py_XINCREF(cause);
    PyException_SetContext(value, cause); /* both steal a reference */
    PyException_SetCause(value, cause);
    PyErr_Restore(type, value, traceback);
    return -1;
}
