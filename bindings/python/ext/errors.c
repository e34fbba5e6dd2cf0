/* SPDX-License-Identifier: Apache-2.0 */
/* errors.c: exception classes, and messages in Python's words. */
#include "errors.h"

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
    return add_exception(module, &PyExc_DivergedError, "gradscaler.DivergedError",
                         "max_consecutive_skips iterations in a row overflowed.");
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

/* The core's words and Python's. Of those that fit, the first counts. */
static const struct {
    const char *core, *python;
} words[] = {
    {"only functions that take it const may be",
     "only those that change nothing may be, such as get_scale and outcome"},
    {"; without a backend only {kDLCPU, 0} is", "; only memory of the CPU is, {type 1, id 0}"},
    {"unscale, record, step or skip an optimizer first", "call unscale_, step or skip with an optimizer first"},
    {"or set allow_fp16_grads", "or create the scaler with allow_fp16_grads=True"},
    {"gsc_scaler_create", "GradScaler"},
    {"gsc_scaler_unscale", "unscale_"},
    {"gsc_scaler_clip_grad_norm", "clip_grad_norm_"},
    {"gsc_scaler_update_to", "update(new_scale)"},
    {"gsc_clip_grad_norm", "clip_grad_norm_"},
    {"gsc_clip_grad_value", "clip_grad_value_"},
    {"gsc_scaler_", ""},
    {"gsc_", ""},
};

/* Appends to a text of which *used bytes are; leaves out what does not fit. */
static void append(char *text, size_t size, size_t *used, const char *more, size_t length)
{
    if (length > size - *used)
        length = size - *used;
    memcpy(text + *used, more, length);
    *used += length;
}

/* The message in Python's words, but for the names of gradients: the core has quotes around these and nothing else,
 * and between them no words of its own. A name that it has cut has no second quote. */
static PyObject *translate(const char *message)
{
    const char *first = strchr(message, '"'), *last = strrchr(message, '"');
    char text[1024];
    size_t used = 0;
    while (*message) {
        if (message == first && last > first) {
            append(text, sizeof text, &used, first, (size_t)(last - first));
            message = last;
        }
        size_t w = 0;
        while (w < sizeof words / sizeof *words && strncmp(message, words[w].core, strlen(words[w].core)) != 0)
            w++;
        if (w < sizeof words / sizeof *words) {
            append(text, sizeof text, &used, words[w].python, strlen(words[w].python));
            message += strlen(words[w].core);
        } else {
            append(text, sizeof text, &used, message++, 1);
        }
    }
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)used, "replace"); /* the core may have cut a name in two */
}

/* Raises with a message that it takes over; NULL: an exception is set already. */
static PyObject *raise_message(gsc_status status, PyObject *message)
{
    if (message) {
        PyErr_SetObject(exception_for_status(status), message);
        Py_DECREF(message);
    }
    return NULL;
}

PyObject *raise_status(gsc_status status) { return raise_message(status, translate(gsc_last_error())); }

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
    static const char place[] = ": gradient ";
    char head[512]; /* a copy: name() may use the core, which then has another last message */
    strncpy(head, gsc_last_error(), sizeof head - 1);
    head[sizeof head - 1] = '\0';
    char *found = strstr(head, place);
    if (!found)
        return raise_message(status, translate(head));
    char *tail;
    unsigned long long index = strtoull(found + strlen(place), &tail, 10);
    PyObject *gradient = describe_gradient((size_t)index, name), *message = NULL;
    if (gradient) {
        *found = '\0';
        PyObject *before = translate(head), *after = translate(tail);
        if (before && after)
            message = PyUnicode_FromFormat("%U: %U%U", before, gradient, after);
        Py_XDECREF(before);
        Py_XDECREF(after);
        Py_DECREF(gradient);
    }
    return raise_message(status, message);
}

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
