/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: reads the arguments of Scaler. */
#include "options.h"

#include "callbacks.h"
#include "numbers.h"

/* None: *out keeps the default. */
static int take_limit(PyObject *object, const char *what, double *out)
{
    return object == Py_None ? 0 : number_to_double(object, what, out);
}

static int take_callable(PyObject *object, const char *what, PyObject **out)
{
    if (object == Py_None)
        return 0;
    if (!PyCallable_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s must be callable or None, not %R", what, (PyObject *)Py_TYPE(object));
        return -1;
    }
    Py_INCREF(object);
    *out = object;
    return 0;
}

static int take_flag(PyObject *object, bool *out)
{
    int truth = PyObject_IsTrue(object);
    *out = truth > 0;
    return truth < 0 ? -1 : 0;
}

int options_from_arguments(py_scaler *self, PyObject *args, PyObject *keywords, gsc_scaler_options *options,
                           gsc_comm *comm)
{
    static char *names[] = {"init_scale",
                            "growth_factor",
                            "backoff_factor",
                            "growth_interval",
                            "enabled",
                            "min_scale",
                            "max_scale",
                            "hysteresis",
                            "hysteresis_until_growth",
                            "max_consecutive_skips",
                            "skip_window",
                            "max_skip_share",
                            "allow_fp16_grads",
                            "strict",
                            "allreduce_max",
                            "allreduce_sum",
                            "allreduce_max64",
                            "observer",
                            NULL};
    PyObject *init, *growth, *backoff, *interval, *enabled, *least, *greatest, *hysteresis, *until_growth, *skips;
    PyObject *window, *share, *fp16, *strict, *max, *sum, *max64, *observer;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "$OOOOOOOOOOOOOOOOOO:Scaler", names, &init, &growth, &backoff,
                                     &interval, &enabled, &least, &greatest, &hysteresis, &until_growth, &skips,
                                     &window, &share, &fp16, &strict, &max, &sum, &max64, &observer))
        return -1;
    *options = gsc_scaler_options_default();
    if (number_to_double(init, "init_scale", &options->init_scale) < 0 ||
        number_to_double(growth, "growth_factor", &options->growth_factor) < 0 ||
        number_to_double(backoff, "backoff_factor", &options->backoff_factor) < 0 ||
        number_to_int64(interval, "growth_interval", &options->growth_interval) < 0 ||
        take_flag(enabled, &options->enabled) < 0 || take_limit(least, "min_scale", &options->min_scale) < 0 ||
        take_limit(greatest, "max_scale", &options->max_scale) < 0 ||
        number_to_int32(hysteresis, "hysteresis", &options->hysteresis) < 0 ||
        take_flag(until_growth, &options->hysteresis_until_growth) < 0 ||
        number_to_int64(skips, "max_consecutive_skips", &options->max_consecutive_skips) < 0 ||
        number_to_int32(window, "skip_window", &options->skip_window) < 0 ||
        number_to_double(share, "max_skip_share", &options->max_skip_share) < 0 ||
        take_flag(fp16, &options->allow_fp16_grads) < 0 || take_flag(strict, &options->strict) < 0 ||
        take_callable(max, "allreduce_max", &self->allreduce_max) < 0 ||
        take_callable(sum, "allreduce_sum", &self->allreduce_sum) < 0 ||
        take_callable(max64, "allreduce_max64", &self->allreduce_max64) < 0 ||
        take_callable(observer, "observer", &self->observer) < 0)
        return -1;
    if ((self->allreduce_sum || self->allreduce_max64) && !self->allreduce_max) {
        PyErr_Format(PyExc_ValueError, "%s is given without allreduce_max",
                     self->allreduce_sum ? "allreduce_sum" : "allreduce_max64");
        return -1;
    }
    callbacks_fill_options(self, options, comm);
    return 0;
}
