/* SPDX-License-Identifier: Apache-2.0 */
/* call.c: the beginning and the end of a scaler's calls. */
#include "call.h"

#include "callbacks.h"
#include "errors.h"

static int claim_handle(call_frame *frame)
{
    py_handle *handle = frame->handle;
    if (handle->scaler && handle->scaler != frame->scaler) {
        PyErr_SetString(PyExc_RuntimeError, "this optimizer is inside a call of another scaler; one at a time may use "
                                            "it");
        return -1;
    }
    if (PySet_Add(frame->scaler->handles, (PyObject *)handle) < 0)
        return -1;
    if (!handle->optimizer.self)
        callbacks_fill_optimizer(handle);
    frame->handle_is_outer = handle->scaler != NULL;
    handle->scaler = frame->scaler;
    return 0;
}

/* Undoes busy_enter; -1. */
static int refuse_within(py_scaler *scaler)
{
    PyErr_SetString(PyExc_RuntimeError, "this scaler is inside a call that is taking its arrays (an array's "
                                        "__dlpack__, a name, a finalizer, or what they call); call it when that has "
                                        "returned");
    busy_leave(&scaler->busy);
    return -1;
}

int call_claim(py_scaler *scaler)
{
    if (busy_enter(&scaler->busy) < 0)
        return -1;
    bool within = scaler->busy.depth > 1;
    if (within && scaler->busy.phase == BUSY_ARRAYS)
        return refuse_within(scaler);
    if (!within)
        busy_set_phase(&scaler->busy, BUSY_ARRAYS);
    return 0;
}

void call_unclaim(py_scaler *scaler) { busy_leave(&scaler->busy); }

int call_begin(call_frame *frame, py_scaler *scaler, PyObject *object, PyObject *name)
{
    py_handle *handle = NULL;
    if (object) {
        handle = handle_from_object(object);
        if (!handle)
            return -1;
    }
    if (busy_enter(&scaler->busy) < 0)
        return -1;
    if (scaler->frame && scaler->busy.phase == BUSY_ARRAYS)
        return refuse_within(scaler);
    *frame = (call_frame){.scaler = scaler, .handle = handle, .name = name == Py_None ? NULL : name};
    if (handle && claim_handle(frame) < 0) {
        busy_leave(&scaler->busy);
        return -1;
    }
    frame->outer = scaler->frame;
    scaler->frame = frame;
    frame->outer_phase = busy_set_phase(&scaler->busy, BUSY_ARRAYS);
    return 0;
}

static int borrow_grads(call_frame *frame, PyObject *grads)
{
    if (PyObject_IsInstance(grads, PyExc_BaseException)) {
        PyErr_SetObject((PyObject *)Py_TYPE(grads), grads);
        return -1;
    }
    return arrays_take(&frame->grads, grads, true, frame->name ? frame->name : Py_None);
}

/* Gradients could not be borrowed, and an exception is set. With ranks, the core is called all the same, with a
 * gradient that fails: so it tells the other ranks, which would wait in the collective. The exception is raised
 * afterwards. */
static int refuse_with_ranks(call_frame *frame)
{
    if (!frame->scaler->allreduce_max)
        return -1;
    frame_stash_exception(frame, (PyObject *)frame->scaler);
    frame->refused = true;
    return 0;
}

int call_take_grads(call_frame *frame, PyObject *grads)
{
    py_handle *handle = frame->handle;
    frame->grads = handle->grads; /* its memory; a nested call on the same handle allocates its own */
    handle->grads = (arrays){0};
    frame->releases_gil = false;
    if (borrow_grads(frame, grads) < 0)
        return refuse_with_ranks(frame);
    frame->releases_gil = arrays_free_the_gil(&frame->grads);
    return 0;
}

/* Raises the exception that is set once more, with the frame's stashed one as its context. */
static void chain_stashed(call_frame *frame)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    PyErr_NormalizeException(&frame->error_type, &frame->error, &frame->error_traceback);
    if (frame->error_traceback)
        PyException_SetTraceback(frame->error, frame->error_traceback);
    PyException_SetContext(error, frame->error); /* takes the reference */
    Py_DECREF(frame->error_type);
    Py_XDECREF(frame->error_traceback);
    PyErr_Restore(type, error, trace);
}

/* A stashed exception is raised as it was. Where the core failed for another reason, that is raised, and the stashed
 * exception is its context. */
static void raise_failures(call_frame *frame)
{
    bool python_failed =
        frame->refused || (frame->error_type && (frame->status == GSC_ERR_OPTIMIZER || frame->status == GSC_ERR_COMM));
    if (frame->status != GSC_OK && !python_failed)
        raise_status(frame->status);
    if (!frame->error_type)
        return;
    if (PyErr_Occurred())
        chain_stashed(frame);
    else
        PyErr_Restore(frame->error_type, frame->error, frame->error_traceback);
}

/* The memory goes back to the handle, unless a nested call has left its own there. */
static void give_back_grads(call_frame *frame)
{
    arrays_release(&frame->grads);
    if (frame->handle->grads.capacity == 0) {
        frame->handle->grads = frame->grads;
        frame->grads = (arrays){0};
    }
    arrays_free(&frame->grads);
}

PyObject *call_end(call_frame *frame)
{
    py_scaler *scaler = frame->scaler;
    raise_failures(frame);
    if (frame->handle) {
        give_back_grads(frame);
        if (!frame->handle_is_outer)
            frame->handle->scaler = NULL;
    }
    Py_XDECREF(frame->name_bytes);
    scaler->frame = frame->outer;
    busy_set_phase(&scaler->busy, frame->outer_phase);
    busy_leave(&scaler->busy);
    if (PyErr_Occurred()) {
        Py_XDECREF(frame->value);
        return NULL;
    }
    if (frame->value)
        return frame->value;
    Py_INCREF(Py_None);
    return Py_None;
}
