/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.c: getters, results and overflow reports. */
#include "inspect.h"

#include <stdlib.h>
#include <string.h>

#include "handle.h"

static const gsc_scaler *scaler_core(PyObject *self) { return ((py_scaler *)self)->core; }

PyObject *scaler_get_scale(PyObject *self, PyObject *none)
{
    (void)none;
    return PyFloat_FromDouble(gsc_scaler_get_scale(scaler_core(self)));
}

PyObject *scaler_get_growth_factor(PyObject *self, PyObject *none)
{
    (void)none;
    return PyFloat_FromDouble(gsc_scaler_get_growth_factor(scaler_core(self)));
}

PyObject *scaler_get_backoff_factor(PyObject *self, PyObject *none)
{
    (void)none;
    return PyFloat_FromDouble(gsc_scaler_get_backoff_factor(scaler_core(self)));
}

PyObject *scaler_get_growth_interval(PyObject *self, PyObject *none)
{
    (void)none;
    return PyLong_FromLongLong(gsc_scaler_get_growth_interval(scaler_core(self)));
}

PyObject *scaler_is_enabled(PyObject *self, PyObject *none)
{
    (void)none;
    return PyBool_FromLong(gsc_scaler_is_enabled(scaler_core(self)));
}

PyObject *scaler_stats(PyObject *self, PyObject *none)
{
    (void)none;
    gsc_scaler_stats stats;
    gsc_scaler_get_stats(scaler_core(self), &stats);
    return Py_BuildValue("(LLLLLL)", (long long)stats.updates, (long long)stats.steps, (long long)stats.skipped_steps,
                         (long long)stats.backoffs, (long long)stats.growths, (long long)stats.consecutive_skips);
}

/* The handle's optimizer, once the core is at rest; NULL with a Python exception. */
static const gsc_optimizer *optimizer_at_rest(PyObject *self, PyObject *object)
{
    py_handle *handle = handle_from_object(object);
    if (!handle || busy_wait_for_rest(&((py_scaler *)self)->busy) < 0)
        return NULL;
    return &handle->optimizer;
}

PyObject *scaler_get_stage(PyObject *self, PyObject *handle)
{
    const gsc_optimizer *optimizer = optimizer_at_rest(self, handle);
    return optimizer ? PyLong_FromLong((long)gsc_scaler_get_stage(scaler_core(self), optimizer)) : NULL;
}

PyObject *scaler_found_inf(PyObject *self, PyObject *handle)
{
    const gsc_optimizer *optimizer = optimizer_at_rest(self, handle);
    return optimizer ? PyBool_FromLong(gsc_scaler_found_inf(scaler_core(self), optimizer)) : NULL;
}

PyObject *scaler_result(PyObject *self, PyObject *handle)
{
    const py_handle *stepped = handle_from_optimizer(optimizer_at_rest(self, handle));
    if (!stepped)
        return NULL;
    if (stepped->stepped_by != (py_scaler *)self) {
        PyErr_SetString(PyExc_RuntimeError, "no result: this optimizer has not stepped with this scaler; of a list of "
                                            "arrays, ask with the same list object, before update()");
        return NULL;
    }
    const gsc_step_result *result = &stepped->result;
    return Py_BuildValue("(iddd)", (int)result->outcome, result->grad_norm, result->max_abs, result->scale);
}

/* The names as Python strings. The core's names stay valid meanwhile: making strings runs no Python code. */
static int copy_names(const gsc_overflow *entries, size_t count, PyObject **names)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = entries[i].name;
        names[i] = name ? PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace") : Py_BuildValue("");
        if (!names[i])
            return -1;
    }
    return 0;
}

static PyObject *make_list(const gsc_overflow *entries, size_t count, PyObject **names)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list && i < count; i++) {
        const gsc_overflow *entry = &entries[i];
        PyObject *item = Py_BuildValue("(nOKKKK)", (Py_ssize_t)entry->index, names[i],
                                       (unsigned long long)entry->inf_count, (unsigned long long)entry->nan_count,
                                       (unsigned long long)entry->first_index, (unsigned long long)entry->repeats);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, (Py_ssize_t)i, item);
    }
    return list;
}

PyObject *scaler_overflows(PyObject *self, PyObject *handle)
{
    const gsc_optimizer *optimizer = optimizer_at_rest(self, handle);
    if (!optimizer)
        return NULL;
    size_t count = gsc_scaler_overflows(scaler_core(self), optimizer, NULL, 0);
    gsc_overflow *entries = calloc(count + 1, sizeof *entries);
    PyObject **names = calloc(count + 1, sizeof *names);
    PyObject *list = NULL;
    if (!entries || !names) {
        PyErr_NoMemory();
    } else {
        gsc_scaler_overflows(scaler_core(self), optimizer, entries, count);
        if (copy_names(entries, count, names) == 0)
            list = make_list(entries, count, names);
    }
    for (size_t i = 0; names && i < count; i++)
        Py_XDECREF(names[i]);
    free(names);
    free(entries);
    return list;
}
