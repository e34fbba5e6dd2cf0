/* SPDX-License-Identifier: Apache-2.0 */
#include "callbacks.h"

#include "call.h"

static core_call *call_of(void *self) { return ((py_handle *)self)->scaler->call; }

static size_t count_grads(void *self)
{
    const core_call *call = call_of(self);
    return call->refuses ? 1 : call->grads.count;
}

static DLTensor *get_grad(void *self, size_t index)
{
    static DLTensor refused; /* of no device and no dtype */
    const core_call *call = call_of(self);
    return call->refuses ? &refused : call->grads.tensors[index];
}

/* The bytes of the name of a gradient, a new reference; NULL with an exception, or without a name. */
static PyObject *ask_name(core_call *call, size_t index)
{
    PyObject *name = PyObject_CallFunction(call->name, "n", (Py_ssize_t)index);
    PyObject *text = NULL;
    if (name && name != Py_None)
        text = PyUnicode_AsEncodedString(name, "utf-8", "backslashreplace");
    Py_XDECREF(name);
    return text;
}

static const char *get_name(void *self, size_t index)
{
    core_call *call = call_of(self);
    if (!call->name)
        return NULL;
    call_enter_python(call);
    Py_XDECREF(call->text);
    call->text = ask_name(call, index);
    if (PyErr_Occurred()) {
        call_stash(call, call->name);
        call->name = NULL; /* it would only fail again */
    }
    const char *name = call->text ? PyBytes_AsString(call->text) : NULL;
    call_leave_python(call);
    return name;
}

/* The step is the last that the core has to do: it looks at no gradient any more, and the optimizer may do with its
 * arrays what it likes, where they would be locked while they are borrowed. */
static gsc_status call_step(core_call *call, PyObject *step, PyObject *multiplier)
{
    arrays_release(&call->grads);
    PyObject *value = PyObject_CallFunctionObjArgs(step, multiplier, NULL);
    if (!value) {
        call_stash(call, step);
        return GSC_ERR_OPTIMIZER;
    }
    Py_XDECREF(call->value);
    call->value = value;
    return GSC_OK;
}

/* The value is kept as the object that it is: the core need not know it. */
static gsc_status make_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)args, (void)value, (void)has_value;
    core_call *call = call_of(self);
    if (!call->step)
        return GSC_OK;
    call_enter_python(call);
    gsc_status status = call_step(call, call->step, NULL);
    call_leave_python(call);
    return status;
}

static gsc_status make_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling,
                                   double *value, bool *has_value)
{
    (void)args, (void)value, (void)has_value;
    core_call *call = call_of(self);
    gsc_status status = GSC_ERR_OPTIMIZER;
    call_enter_python(call);
    PyObject *multiplier = PyFloat_FromDouble(scaling->multiplier);
    if (multiplier)
        status = call_step(call, call->step_scaled, multiplier);
    else
        call_stash(call, call->step_scaled);
    Py_XDECREF(multiplier);
    call_leave_python(call);
    return status;
}

void callbacks_fill_optimizer(py_handle *handle)
{
    handle->optimizer = (gsc_optimizer){
        .self = handle, .grad_count = count_grads, .grad = get_grad, .name = get_name, .step = make_step};
}

void callbacks_offer_step_scaled(py_handle *handle, bool offered)
{
    handle->optimizer.step_scaled = offered ? make_step_scaled : NULL;
}

/* A bytearray stands in for the core's values: a view of it that the callback keeps stays valid. `bytes` keeps its size
 * until the results are read. */
static int reduce_copy(PyObject *function, PyObject *copy, void *values, size_t size, const char *format)
{
    PyObject *bytes = PyMemoryView_FromObject(copy);
    PyObject *view = bytes ? PyObject_CallMethod(bytes, "cast", "s", format) : NULL;
    PyObject *done = view ? PyObject_CallFunctionObjArgs(function, view, NULL) : NULL;
    if (done)
        memcpy(values, PyByteArray_AsString(copy), size);
    int failure = done ? 0 : -1;
    Py_XDECREF(done);
    Py_XDECREF(view);
    Py_XDECREF(bytes);
    return failure;
}

static int reduce(py_scaler *scaler, PyObject *function, DLTensor *values, const char *format)
{
    if (!function) /* the garbage collector has taken it */
        return -1;
    core_call *call = scaler->call;
    size_t size = (size_t)values->shape[0] * values->dtype.bits / 8;
    call_enter_python(call);
    PyObject *copy = PyByteArray_FromStringAndSize(values->data, (Py_ssize_t)size);
    int failure = copy ? reduce_copy(function, copy, values->data, size, format) : -1;
    if (failure != 0)
        call_stash(call, function);
    Py_XDECREF(copy);
    call_leave_python(call);
    return failure;
}

static int allreduce_max(void *self, DLTensor *values, void *stream)
{
    (void)stream;
    return reduce(self, ((py_scaler *)self)->allreduce_max, values, "f");
}

static int allreduce_sum(void *self, DLTensor *values, void *stream)
{
    (void)stream;
    return reduce(self, ((py_scaler *)self)->allreduce_sum, values, "d");
}

static void observe(void *self, const gsc_event *event)
{
    py_scaler *scaler = self;
    if (!scaler->observer) /* the garbage collector has taken it */
        return;
    call_enter_python(scaler->call);
    py_handle *handle = handle_of(event->optimizer);
    PyObject *about = handle ? (PyObject *)handle : Py_None;
    PyObject *done = PyObject_CallFunction(scaler->observer, "idLO", (int)event->kind, event->scale,
                                           (long long)event->update, about);
    if (!done)
        call_stash(scaler->call, scaler->observer);
    Py_XDECREF(done);
    call_leave_python(scaler->call);
}

void callbacks_fill_options(py_scaler *scaler, gsc_scaler_options *options, gsc_comm *comm)
{
    *comm = (gsc_comm){.self = scaler, .allreduce_max = allreduce_max};
    if (scaler->allreduce_sum)
        comm->allreduce_sum = allreduce_sum;
    if (scaler->allreduce_max)
        options->comm = comm;
    if (scaler->observer) {
        options->observer = observe;
        options->observer_ctx = scaler;
    }
}
