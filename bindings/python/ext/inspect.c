/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "errors.h"
#include "handle.h"
#include "scaler.h"

static gsc_scaler *core_of(PyObject *self) { return ((py_scaler *)self)->core; }

PyObject *scaler_get_scale(PyObject *self, PyObject *none)
{
    (void)none;
    return PyFloat_FromDouble(gsc_scaler_get_scale(core_of(self)));
}

PyObject *scaler_get_growth_factor(PyObject *self, PyObject *none)
{
    (void)none;
    return PyFloat_FromDouble(gsc_scaler_get_growth_factor(core_of(self)));
}

PyObject *scaler_get_backoff_factor(PyObject *self, PyObject *none)
{
    (void)none;
    return PyFloat_FromDouble(gsc_scaler_get_backoff_factor(core_of(self)));
}

PyObject *scaler_get_growth_interval(PyObject *self, PyObject *none)
{
    (void)none;
    return PyLong_FromLongLong(gsc_scaler_get_growth_interval(core_of(self)));
}

PyObject *scaler_is_enabled(PyObject *self, PyObject *none)
{
    (void)none;
    return PyBool_FromLong(gsc_scaler_is_enabled(core_of(self)));
}

PyObject *scaler_stats(PyObject *self, PyObject *none)
{
    (void)none;
    gsc_scaler_stats stats;
    gsc_scaler_get_stats(core_of(self), &stats);
    return Py_BuildValue("(LLLLLL)", (long long)stats.updates, (long long)stats.steps, (long long)stats.skipped_steps,
                         (long long)stats.backoffs, (long long)stats.growths, (long long)stats.consecutive_skips);
}

/* The optimizer, once the core is at rest; NULL with a Python exception. */
static const gsc_optimizer *look_at(PyObject *self, PyObject *object)
{
    py_handle *handle = handle_from(object);
    if (!handle || busy_wait_for_rest(&((py_scaler *)self)->busy) < 0)
        return NULL;
    return &handle->optimizer;
}

PyObject *scaler_get_stage(PyObject *self, PyObject *handle)
{
    const gsc_optimizer *optimizer = look_at(self, handle);
    return optimizer ? PyLong_FromLong((long)gsc_scaler_get_stage(core_of(self), optimizer)) : NULL;
}

PyObject *scaler_found_inf(PyObject *self, PyObject *handle)
{
    const gsc_optimizer *optimizer = look_at(self, handle);
    return optimizer ? PyBool_FromLong(gsc_scaler_found_inf(core_of(self), optimizer)) : NULL;
}

PyObject *scaler_result(PyObject *self, PyObject *handle)
{
    const py_handle *known = handle_of(look_at(self, handle));
    if (!known)
        return NULL;
    if (known->stepped_by != (py_scaler *)self) {
        PyErr_SetString(PyExc_RuntimeError, "outcome: this optimizer has not stepped with this scaler; of a list of "
                                            "arrays, ask before update()");
        return NULL;
    }
    return Py_BuildValue("(idd)", (int)known->result.outcome, known->result.grad_norm, known->result.max_abs);
}

/* The names as Python strings, while the core's are valid: making strings calls nobody. */
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
        PyObject *item =
            Py_BuildValue("(nOKKK)", (Py_ssize_t)entry->index, names[i], (unsigned long long)entry->inf_count,
                          (unsigned long long)entry->nan_count, (unsigned long long)entry->first_index);
        if (!item)
            Py_CLEAR(list);
        else
            PyList_SetItem(list, (Py_ssize_t)i, item);
    }
    return list;
}

PyObject *scaler_overflows(PyObject *self, PyObject *handle)
{
    const gsc_optimizer *optimizer = look_at(self, handle);
    if (!optimizer)
        return NULL;
    size_t count = gsc_scaler_overflows(core_of(self), optimizer, NULL, 0);
    gsc_overflow *entries = calloc(count + 1, sizeof *entries);
    PyObject **names = calloc(count + 1, sizeof *names);
    PyObject *list = NULL;
    if (!entries || !names) {
        PyErr_NoMemory();
    } else {
        gsc_scaler_overflows(core_of(self), optimizer, entries, count);
        if (copy_names(entries, count, names) == 0)
            list = make_list(entries, count, names);
    }
    for (size_t i = 0; names && i < count; i++)
        Py_XDECREF(names[i]);
    free(names);
    free(entries);
    return list;
}
