/* SPDX-License-Identifier: Apache-2.0 */
/* state.c: one table of the state's fields, to read and to write them by. */
#include "state.h"

#include <stddef.h>

#include "call.h"
#include "errors.h"
#include "numbers.h"

typedef enum field_type { FIELD_DOUBLE, FIELD_INT64, FIELD_INT32 } field_type;

typedef struct state_field {
    const char *name;
    field_type type;
    size_t offset;
} state_field;

#define FIELD(type, name)                                                                                              \
    {                                                                                                                  \
#name, type, offsetof(gsc_scaler_state, name)                                                                  \
    }

static const state_field fields[] = {
    FIELD(FIELD_DOUBLE, scale),           FIELD(FIELD_DOUBLE, growth_factor), FIELD(FIELD_DOUBLE, backoff_factor),
    FIELD(FIELD_INT64, growth_interval),  FIELD(FIELD_INT64, growth_tracker), FIELD(FIELD_DOUBLE, min_scale),
    FIELD(FIELD_DOUBLE, max_scale),       FIELD(FIELD_INT32, hysteresis),     FIELD(FIELD_INT32, hysteresis_tracker),
    FIELD(FIELD_INT64, consecutive_skips)};
enum { FIELDS = sizeof fields / sizeof *fields };

static PyObject *get_field(const gsc_scaler_state *state, const state_field *field)
{
    const void *value = (const char *)state + field->offset;
    switch (field->type) {
    case FIELD_DOUBLE: return PyFloat_FromDouble(*(const double *)value);
    case FIELD_INT64: return PyLong_FromLongLong(*(const int64_t *)value);
    case FIELD_INT32: break;
    }
    return PyLong_FromLong(*(const int32_t *)value);
}

static int set_field(gsc_scaler_state *state, const state_field *field, PyObject *value)
{
    void *out = (char *)state + field->offset;
    switch (field->type) {
    case FIELD_DOUBLE: return number_to_double(value, field->name, out);
    case FIELD_INT64: return number_to_int64(value, field->name, out);
    case FIELD_INT32: break;
    }
    return number_to_int32(value, field->name, out);
}

PyObject *scaler_state(PyObject *object, PyObject *none)
{
    (void)none;
    py_scaler *self = (py_scaler *)object;
    gsc_scaler_state state;
    if (busy_wait_for_rest(&self->busy) < 0)
        return NULL;
    gsc_status status = gsc_scaler_state_dict(self->core, &state);
    if (status != GSC_OK)
        return raise_status(status);
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < FIELDS; i++) {
        PyObject *value = get_field(&state, &fields[i]);
        if (!value || PyDict_SetItemString(dict, fields[i].name, value) < 0)
            Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

static int read_fields(PyObject *dict, gsc_scaler_state *state)
{
    if (!PyDict_Check(dict)) {
        PyErr_Format(PyExc_TypeError, "the state must be a dict, not %R", (PyObject *)Py_TYPE(dict));
        return -1;
    }
    Py_ssize_t known = 0;
    for (size_t i = 0; i < FIELDS; i++) {
        PyObject *value = PyDict_GetItemString(dict, fields[i].name);
        if (!value)
            continue;
        known++;
        Py_INCREF(value); /* a number's __float__ may take it out of the dict */
        int failed = set_field(state, &fields[i], value);
        Py_DECREF(value);
        if (failed)
            return -1;
    }
    if (known == PyDict_Size(dict))
        return 0;
    PyErr_Format(PyExc_ValueError, "the state has a field that the core does not know: %R", dict);
    return -1;
}

PyObject *scaler_load_state(PyObject *object, PyObject *dict)
{
    py_scaler *self = (py_scaler *)object;
    gsc_scaler_state state = {0};
    call_frame frame;
    if (read_fields(dict, &state) < 0 || call_begin(&frame, self, NULL, NULL) < 0)
        return NULL;
    CALL_CORE(&frame, gsc_scaler_load_state_dict(self->core, &state));
    return call_end(&frame);
}
