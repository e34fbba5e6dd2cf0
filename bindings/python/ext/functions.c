/* SPDX-License-Identifier: Apache-2.0 */
#include "module.h"

#include "arrays.h"
#include "errors.h"
#include "gradscaler/gradients.h"
#include "numbers.h"

/* One call of the core: its arrays, and the GIL given up where they are large. */
typedef struct call {
    arrays grads;
    PyObject *name;
    PyThreadState *thread; /* NULL: the GIL is held */
} call;

static void leave_python(call *of) { of->thread = arrays_free_the_gil(&of->grads) ? PyEval_SaveThread() : NULL; }

static int begin(call *of, PyObject *list, bool writes, PyObject *name)
{
    *of = (call){.name = name};
    if (arrays_take(&of->grads, list, writes, name) < 0) {
        arrays_free(&of->grads);
        return -1;
    }
    leave_python(of);
    return 0;
}

/* Gives everything back; returns whether the core's call succeeded, else with a Python exception. */
static bool end(call *of, gsc_status status)
{
    if (of->thread)
        PyEval_RestoreThread(of->thread);
    if (status != GSC_OK)
        raise_status_named(status, of->name); /* first: giving back may run Python code, and that the core */
    arrays_free(&of->grads);
    return status == GSC_OK;
}

static PyObject *unscale_grads(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grads", "scale", "name", NULL};
    PyObject *list, *name;
    double scale;
    call of;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OdO:unscale_grads", names, &list, &scale, &name) ||
        begin(&of, list, true, name) < 0)
        return NULL;
    bool found_inf = false;
    gsc_status status = gsc_unscale_grads(of.grads.tensors, of.grads.count, scale, &found_inf);
    return end(&of, status) ? PyBool_FromLong(found_inf) : NULL;
}

static PyObject *check_grads(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grads", "name", NULL};
    PyObject *list, *name;
    call of;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO:check_grads", names, &list, &name) ||
        begin(&of, list, false, name) < 0)
        return NULL;
    bool found_inf = false;
    gsc_status status = gsc_check_grads(of.grads.tensors, of.grads.count, &found_inf);
    return end(&of, status) ? PyBool_FromLong(found_inf) : NULL;
}

static PyObject *grad_norm(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grads", "norm_type", "name", NULL};
    PyObject *list, *name;
    double norm_type, norm = 0.0;
    call of;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OdO:grad_norm", names, &list, &norm_type, &name) ||
        begin(&of, list, false, name) < 0)
        return NULL;
    gsc_status status = gsc_grad_norm(of.grads.tensors, of.grads.count, norm_type, &norm);
    return end(&of, status) ? PyFloat_FromDouble(norm) : NULL;
}

static PyObject *clip_grad_norm(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grads", "max_norm", "norm_type", "name", NULL};
    PyObject *list, *name;
    double max_norm, norm_type, norm = 0.0;
    call of;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OddO:clip_grad_norm", names, &list, &max_norm, &norm_type,
                                     &name) ||
        begin(&of, list, true, name) < 0)
        return NULL;
    gsc_status status = gsc_clip_grad_norm(of.grads.tensors, of.grads.count, max_norm, norm_type, &norm);
    return end(&of, status) ? PyFloat_FromDouble(norm) : NULL;
}

static PyObject *clip_grad_value(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grads", "clip_value", "name", NULL};
    PyObject *list, *name;
    double limit;
    call of;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OdO:clip_grad_value", names, &list, &limit, &name) ||
        begin(&of, list, true, name) < 0)
        return NULL;
    gsc_status status = gsc_clip_grad_value(of.grads.tensors, of.grads.count, limit);
    return end(&of, status) ? Py_BuildValue("") : NULL;
}

static PyObject *build_exponents(const gsc_grad_stats *stats)
{
    const size_t count = sizeof stats->exponents / sizeof *stats->exponents;
    PyObject *exponents = PyTuple_New((Py_ssize_t)count);
    for (size_t i = 0; i < count && exponents; i++) {
        PyObject *number = PyLong_FromUnsignedLongLong(stats->exponents[i]);
        if (!number || PyTuple_SetItem(exponents, (Py_ssize_t)i, number) < 0)
            Py_CLEAR(exponents);
    }
    return exponents;
}

static PyObject *grad_statistics(PyObject *Py_UNUSED(module), PyObject *grad)
{
    call of = {.name = Py_None};
    if (arrays_take_one(&of.grads, grad, false, "grad") < 0) {
        arrays_free(&of.grads);
        return NULL;
    }
    leave_python(&of);
    gsc_grad_stats stats;
    gsc_status status = gsc_grad_statistics(of.grads.tensors[0], &stats);
    if (!end(&of, status))
        return NULL;
    PyObject *exponents = build_exponents(&stats);
    if (!exponents)
        return NULL;
    return Py_BuildValue("KKKKddN", (unsigned long long)stats.count, (unsigned long long)stats.zeros,
                         (unsigned long long)stats.infs, (unsigned long long)stats.nans, stats.min_abs, stats.max_abs,
                         exponents);
}

/* The first line is the signature that help() and inspect show. */
PyDoc_STRVAR(set_num_threads_doc, "set_num_threads(n)\n--\n\n"
                                  "Sets how many threads the scaler's loops may use, in the whole process.\n\n"
                                  "n counts the calling thread; 0, the default: all cores that the process may use.\n"
                                  "The results are the same bits for every n.\n"
                                  "Raises ValueError for a negative number, TypeError for what is no integer.");

PyDoc_STRVAR(isa_doc, "isa()\n--\n\n"
                      "The instruction set that the scaler's loops use: 'avx512', 'avx2', 'neon' or 'baseline'.\n\n"
                      "The best that the processor has, or the one that GSC_ISA in the environment names.\n"
                      "The results are the same bits with each.");

PyDoc_STRVAR(version_doc, "version()\n--\n\nThe version of the library inside the extension, such as '1.2.3'.");

static PyObject *set_num_threads(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"n", NULL};
    PyObject *object;
    int32_t n;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:set_num_threads", names, &object))
        return NULL;
    if (!PyIndex_Check(object)) {
        PyErr_Format(PyExc_TypeError, "n must be an integer, not %R", (PyObject *)Py_TYPE(object));
        return NULL;
    }
    if (number_to_int32(object, "n", &n) < 0)
        return NULL;
    gsc_set_num_threads(n);
    return n < 0 ? raise_status(GSC_ERR_VALUE) : Py_BuildValue("");
}

static PyObject *isa(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) { return PyUnicode_FromString(gsc_isa()); }

static PyObject *version(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return PyUnicode_FromString(gsc_version());
}

/* By way of a type that stands for any function: METH_KEYWORDS says which one it is. */
#define WITH_KEYWORDS(name, doc)                                                                                       \
    {                                                                                                                  \
#name, (PyCFunction)(void (*)(void))name, METH_VARARGS | METH_KEYWORDS, doc                                    \
    }

/* Those without a text are wrapped by gradscaler/functions.py, which has it. */
static PyMethodDef methods[] = {
    WITH_KEYWORDS(unscale_grads, NULL),
    WITH_KEYWORDS(check_grads, NULL),
    WITH_KEYWORDS(grad_norm, NULL),
    WITH_KEYWORDS(clip_grad_norm, NULL),
    WITH_KEYWORDS(clip_grad_value, NULL),
    {"grad_statistics", grad_statistics, METH_O, NULL},
    WITH_KEYWORDS(set_num_threads, set_num_threads_doc),
    {"isa", isa, METH_NOARGS, isa_doc},
    {"version", version, METH_NOARGS, version_doc},
    {NULL, NULL, 0, NULL},
};

int functions_add(PyObject *module) { return PyModule_AddFunctions(module, methods); }
