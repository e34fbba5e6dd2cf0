/* SPDX-License-Identifier: Apache-2.0 */
/* functions.c: the loops over gradients without a scaler, threads, instruction set, version. */
#include "functions.h"

#include "arrays.h"
#include "errors.h"
#include "gradscaler/gradients.h"
#include "numbers.h"

/* One call of the core. */
typedef struct loop_call {
    arrays grads;
    PyObject *name;
    PyThreadState *thread; /* of the GIL given up, where the arrays are large; NULL: the GIL is held */
} loop_call;

static void leave_python(loop_call *call)
{
    call->thread = arrays_free_the_gil(&call->grads) ? PyEval_SaveThread() : NULL;
}

static int begin(loop_call *call, PyObject *list, bool writes, PyObject *name)
{
    *call = (loop_call){.name = name};
    if (arrays_take(&call->grads, list, writes, name) < 0) {
        arrays_free(&call->grads);
        return -1;
    }
    leave_python(call);
    return 0;
}

/* Gives everything back. Returns whether the core's call succeeded; if not, raises its failure. */
static bool end(loop_call *call, gsc_status status)
{
    if (call->thread)
        PyEval_RestoreThread(call->thread);
    if (status != GSC_OK)
        raise_status_named(status, call->name); /* first: giving back may run Python code, which may call the core */
    arrays_free(&call->grads);
    return status == GSC_OK;
}

static PyObject *unscale_grads(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grads", "scale", "name", NULL};
    PyObject *list, *name;
    double scale;
    loop_call call;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OdO:unscale_grads", names, &list, &scale, &name) ||
        begin(&call, list, true, name) < 0)
        return NULL;
    bool found_inf = false;
    gsc_status status = gsc_unscale_grads(call.grads.tensors, call.grads.count, scale, &found_inf);
    return end(&call, status) ? PyBool_FromLong(found_inf) : NULL;
}

static PyObject *unscale_grads_to(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grads", "out", "scale", NULL};
    PyObject *list, *out_list;
    double scale;
    loop_call call;
    arrays out = {0};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOd:unscale_grads_to", names, &list, &out_list, &scale) ||
        arrays_take_outputs(&out, out_list) < 0)
        return NULL;
    if (begin(&call, list, false, Py_None) < 0) {
        arrays_free(&out);
        return NULL;
    }
    bool found_inf = false;
    size_t count = call.grads.count < out.count ? call.grads.count : out.count; /* functions.py makes them equal */
    gsc_status status = gsc_unscale_grads_to(call.grads.tensors, out.tensors, count, scale, &found_inf);
    bool done = end(&call, status);
    arrays_free(&out);
    return done ? PyBool_FromLong(found_inf) : NULL;
}

static PyObject *check_grads(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grads", "name", NULL};
    PyObject *list, *name;
    loop_call call;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO:check_grads", names, &list, &name) ||
        begin(&call, list, false, name) < 0)
        return NULL;
    bool found_inf = false;
    gsc_status status = gsc_check_grads(call.grads.tensors, call.grads.count, &found_inf);
    return end(&call, status) ? PyBool_FromLong(found_inf) : NULL;
}

static PyObject *grad_norm(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grads", "norm_type", "name", NULL};
    PyObject *list, *name;
    double norm_type, norm = 0.0;
    loop_call call;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OdO:grad_norm", names, &list, &norm_type, &name) ||
        begin(&call, list, false, name) < 0)
        return NULL;
    gsc_status status = gsc_grad_norm(call.grads.tensors, call.grads.count, norm_type, &norm);
    return end(&call, status) ? PyFloat_FromDouble(norm) : NULL;
}

static PyObject *clip_grad_norm(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grads", "max_norm", "norm_type", "name", NULL};
    PyObject *list, *name;
    double max_norm, norm_type, norm = 0.0;
    loop_call call;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OddO:clip_grad_norm", names, &list, &max_norm, &norm_type,
                                     &name) ||
        begin(&call, list, true, name) < 0)
        return NULL;
    gsc_status status = gsc_clip_grad_norm(call.grads.tensors, call.grads.count, max_norm, norm_type, &norm);
    return end(&call, status) ? PyFloat_FromDouble(norm) : NULL;
}

static PyObject *clip_grad_value(PyObject *Py_UNUSED(module), PyObject *args, PyObject *keywords)
{
    static char *names[] = {"grads", "clip_value", "name", NULL};
    PyObject *list, *name;
    double limit;
    loop_call call;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OdO:clip_grad_value", names, &list, &limit, &name) ||
        begin(&call, list, true, name) < 0)
        return NULL;
    gsc_status status = gsc_clip_grad_value(call.grads.tensors, call.grads.count, limit);
    return end(&call, status) ? Py_BuildValue("") : NULL;
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
    loop_call call = {.name = Py_None};
    if (arrays_take_one(&call.grads, grad, false, "grad") < 0) {
        arrays_free(&call.grads);
        return NULL;
    }
    leave_python(&call);
    gsc_grad_stats stats;
    gsc_status status = gsc_grad_statistics(call.grads.tensors[0], &stats);
    if (!end(&call, status))
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

/* Casts by way of a type for any function, as METH_KEYWORDS tells Python the real one. */
#define WITH_KEYWORDS(name, doc)                                                                                       \
    {                                                                                                                  \
#name, (PyCFunction)(void (*)(void))name, METH_VARARGS | METH_KEYWORDS, doc                                    \
    }

/* Functions without a docstring here are wrapped by those of gradscaler/functions.py, which have one. */
static PyMethodDef methods[] = {
    WITH_KEYWORDS(unscale_grads, NULL),
    WITH_KEYWORDS(unscale_grads_to, NULL),
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
