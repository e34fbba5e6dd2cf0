/* SPDX-License-Identifier: Apache-2.0 */
/* callbacks.c: the callbacks of an optimizer, the collectives and the observer. */
#include "callbacks.h"

#include <string.h>

#include "frame.h"

static call_frame *frame_of_handle(void *self) { return ((py_handle *)self)->scaler->frame; }

static size_t count_grads(void *self)
{
    const call_frame *frame = frame_of_handle(self);
    return frame->refused ? 1 : frame->grads.count;
}

static DLTensor *get_grad(void *self, size_t index)
{
    const call_frame *frame = frame_of_handle(self);
    return frame->refused ? GSC_GRAD_FAILED : frame->grads.tensors[index];
}

/* The name of a gradient in bytes, a new reference; NULL with an exception, or where it has no name. */
static PyObject *ask_name(call_frame *frame, size_t index)
{
    PyObject *name = PyObject_CallFunction(frame->name, "n", (Py_ssize_t)index);
    PyObject *bytes = NULL;
    if (name && name != Py_None)
        bytes = PyUnicode_AsEncodedString(name, "utf-8", "backslashreplace");
    Py_XDECREF(name);
    return bytes;
}

static const char *get_name(void *self, size_t index)
{
    call_frame *frame = frame_of_handle(self);
    if (!frame->name)
        return NULL;
    frame_enter_python(frame);
    Py_XDECREF(frame->name_bytes);
    frame->name_bytes = ask_name(frame, index);
    if (PyErr_Occurred()) {
        frame_stash_exception(frame, frame->name);
        frame->name = NULL; /* it would only fail again */
    }
    const char *name = frame->name_bytes ? PyBytes_AsString(frame->name_bytes) : NULL;
    frame_leave_python(frame);
    return name;
}

/* Releases the gradients first: the core does not read them after the step, and the optimizer may resize arrays, which
 * NumPy refuses while they are borrowed. */
static gsc_status call_step(call_frame *frame, PyObject *step, PyObject *multiplier)
{
    arrays_release(&frame->grads);
    PyObject *value = PyObject_CallFunctionObjArgs(step, multiplier, NULL);
    if (!value) {
        frame_stash_exception(frame, step);
        return GSC_ERR_OPTIMIZER;
    }
    Py_XDECREF(frame->value);
    frame->value = value;
    return GSC_OK;
}

/* The value stays in the frame, as a Python object; the core gets none. */
static gsc_status optimizer_step(void *self, const gsc_step_args *args, double *value, bool *has_value)
{
    (void)args, (void)value, (void)has_value;
    call_frame *frame = frame_of_handle(self);
    if (!frame->step)
        return GSC_OK;
    frame_enter_python(frame);
    gsc_status status = call_step(frame, frame->step, NULL);
    frame_leave_python(frame);
    return status;
}

static gsc_status optimizer_step_scaled(void *self, const gsc_step_args *args, const gsc_grad_scaling *scaling,
                                        double *value, bool *has_value)
{
    (void)args, (void)value, (void)has_value;
    call_frame *frame = frame_of_handle(self);
    gsc_status status = GSC_ERR_OPTIMIZER;
    frame_enter_python(frame);
    PyObject *multiplier = PyFloat_FromDouble(scaling->multiplier);
    if (multiplier)
        status = call_step(frame, frame->step_scaled, multiplier);
    else
        frame_stash_exception(frame, frame->step_scaled);
    Py_XDECREF(multiplier);
    frame_leave_python(frame);
    return status;
}

void callbacks_fill_optimizer(py_handle *handle)
{
    handle->optimizer = (gsc_optimizer){
        .self = handle, .grad_count = count_grads, .grad = get_grad, .name = get_name, .step = optimizer_step};
}

void callbacks_offer_step_scaled(py_handle *handle, bool offered)
{
    handle->optimizer.step_scaled = offered ? optimizer_step_scaled : NULL;
}

/* Calls the function with a view of the copy, a bytearray, and copies the results back. Not a view of `values` itself:
 * the callback may keep the view for longer than they live. The view of `bytes` keeps the bytearray from being resized
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
    if (!function) /* cleared by the garbage collector */
        return -1;
    call_frame *frame = scaler->frame;
    size_t size = (size_t)values->shape[0] * values->dtype.bits / 8;
    frame_enter_python(frame);
    PyObject *copy = PyByteArray_FromStringAndSize(values->data, (Py_ssize_t)size);
    int failure = copy ? reduce_copy(function, copy, values->data, size, format) : -1;
    if (failure != 0)
        frame_stash_exception(frame, function);
    Py_XDECREF(copy);
    frame_leave_python(frame);
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

static int allreduce_max64(void *self, DLTensor *values, void *stream)
{
    (void)stream;
    return reduce(self, ((py_scaler *)self)->allreduce_max64, values, "d");
}

static void observe(void *self, const gsc_event *event)
{
    py_scaler *scaler = self;
    if (!scaler->observer) /* cleared by the garbage collector */
        return;
    frame_enter_python(scaler->frame);
    py_handle *handle = handle_from_optimizer(event->optimizer);
    PyObject *done =
        PyObject_CallFunction(scaler->observer, "idLOd", (int)event->kind, event->scale, (long long)event->update,
                              handle ? (PyObject *)handle : Py_None, event->scale_before);
    if (!done)
        frame_stash_exception(scaler->frame, scaler->observer);
    Py_XDECREF(done);
    frame_leave_python(scaler->frame);
}

void callbacks_fill_options(py_scaler *scaler, gsc_scaler_options *options, gsc_comm *comm)
{
    *comm = (gsc_comm){.self = scaler, .allreduce_max = allreduce_max};
    if (scaler->allreduce_sum)
        comm->allreduce_sum = allreduce_sum;
    if (scaler->allreduce_max64)
        comm->allreduce_max64 = allreduce_max64;
    if (scaler->allreduce_max)
        options->comm = comm;
    if (scaler->observer) {
        options->observer = observe;
        options->observer_ctx = scaler;
    }
}
