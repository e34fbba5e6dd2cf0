/* SPDX-License-Identifier: Apache-2.0 */
#include "call.h"

#include "errors.h"
#include "scaler.h"

static int claim_handle(core_call *call)
{
    py_scaler *scaler = call->scaler;
    if (call->handle->scaler && call->handle->scaler != scaler) {
        PyErr_SetString(PyExc_RuntimeError, "this optimizer is inside a call of another scaler; one at a time may use "
                                            "it");
        return -1;
    }
    if (PySet_Add(scaler->handles, (PyObject *)call->handle) < 0)
        return -1;
    call->nested = call->handle->scaler != NULL;
    call->handle->scaler = scaler;
    return 0;
}

/* -1; what busy_enter took is left again. */
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
        busy_change(&scaler->busy, BUSY_ARRAYS);
    return 0;
}

void call_unclaim(py_scaler *scaler) { busy_leave(&scaler->busy); }

int call_begin(core_call *call, py_scaler *scaler, PyObject *object, PyObject *name)
{
    py_handle *handle = NULL;
    if (object) {
        handle = handle_from(object);
        if (!handle)
            return -1;
    }
    if (busy_enter(&scaler->busy) < 0)
        return -1;
    if (scaler->call && scaler->busy.phase == BUSY_ARRAYS)
        return refuse_within(scaler);
    *call = (struct core_call){.scaler = scaler, .handle = handle, .name = name == Py_None ? NULL : name};
    if (handle && claim_handle(call) < 0) {
        busy_leave(&scaler->busy);
        return -1;
    }
    call->outer = scaler->call;
    scaler->call = call;
    call->phase = busy_change(&scaler->busy, BUSY_ARRAYS);
    return 0;
}

static int take_grads(core_call *call, PyObject *grads)
{
    if (PyObject_IsInstance(grads, PyExc_BaseException)) {
        PyErr_SetObject((PyObject *)Py_TYPE(grads), grads);
        return -1;
    }
    return arrays_take(&call->grads, grads, true, call->name ? call->name : Py_None);
}

/* Other ranks would wait for this one in the collective. So the core enters it too, with a gradient that it refuses;
 * the exception that is set is raised afterwards. */
static int refuse_with_ranks(core_call *call)
{
    if (!call->scaler->allreduce_max)
        return -1;
    call_stash(call, (PyObject *)call->scaler);
    call->refuses = true;
    return 0;
}

int call_take(core_call *call, PyObject *grads)
{
    py_handle *handle = call->handle; /* a call nested in this one finds no memory there, and takes its own */
    call->grads = handle->grads;
    handle->grads = (arrays){0};
    call->frees_gil = false;
    if (take_grads(call, grads) < 0)
        return refuse_with_ranks(call);
    call->frees_gil = arrays_free_the_gil(&call->grads);
    return 0;
}

void call_enter_core(core_call *call)
{
    busy_change(&call->scaler->busy, BUSY_CORE);
    if (call->frees_gil)
        call->freed = PyEval_SaveThread();
}

void call_leave_core(core_call *call)
{
    if (call->frees_gil)
        PyEval_RestoreThread(call->freed);
    busy_change(&call->scaler->busy, BUSY_ARRAYS);
}

void call_enter_python(core_call *call)
{
    if (call->frees_gil)
        PyEval_RestoreThread(call->freed);
    busy_change(&call->scaler->busy, BUSY_CALLBACK);
}

void call_leave_python(core_call *call)
{
    busy_change(&call->scaler->busy, BUSY_CORE);
    if (call->frees_gil)
        call->freed = PyEval_SaveThread();
}

void call_stash(core_call *call, PyObject *where)
{
    if (call->type)
        PyErr_WriteUnraisable(where);
    else
        PyErr_Fetch(&call->type, &call->error, &call->trace);
}

/* A stashed exception is raised as it was. Where the core failed for a reason of its own, that is raised, and the
 * callback's exception is its context. */
static void raise_failures(core_call *call)
{
    bool python_failed =
        call->refuses || (call->type && (call->status == GSC_ERR_OPTIMIZER || call->status == GSC_ERR_COMM));
    if (call->status != GSC_OK && !python_failed)
        raise_status(call->status);
    if (!call->type)
        return;
    if (PyErr_Occurred()) {
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        PyErr_NormalizeException(&type, &error, &trace);
        PyErr_NormalizeException(&call->type, &call->error, &call->trace);
        if (call->trace)
            PyException_SetTraceback(call->error, call->trace);
        PyException_SetContext(error, call->error); /* takes the reference */
        Py_DECREF(call->type);
        Py_XDECREF(call->trace);
        PyErr_Restore(type, error, trace);
    } else {
        PyErr_Restore(call->type, call->error, call->trace);
    }
}

static void give_back_grads(core_call *call)
{
    arrays_release(&call->grads);
    if (call->handle->grads.capacity == 0) {
        call->handle->grads = call->grads;
        call->grads = (arrays){0};
    }
    arrays_free(&call->grads);
}

PyObject *call_end(core_call *call)
{
    py_scaler *scaler = call->scaler;
    raise_failures(call);
    if (call->handle) {
        give_back_grads(call);
        if (!call->nested)
            call->handle->scaler = NULL;
    }
    Py_XDECREF(call->text);
    scaler->call = call->outer;
    busy_change(&scaler->busy, call->phase);
    busy_leave(&scaler->busy);
    if (PyErr_Occurred()) {
        Py_XDECREF(call->value);
        return NULL;
    }
    if (call->value)
        return call->value;
    Py_INCREF(Py_None);
    return Py_None;
}
