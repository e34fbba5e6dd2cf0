/* SPDX-License-Identifier: Apache-2.0 */
/* call.h: one call of a scaler, from the arguments to the result. */
#ifndef EXT_CALL_H
#define EXT_CALL_H

#include "arrays.h"
#include "busy.h"
#include "handle.h"

#include <stdbool.h>

#include "gradscaler/status.h"

struct py_scaler;

/* One call under way, on the C stack. Calls of one scaler nest where a callback calls it again.
 *
 *     core_call call;
 *     if (call_begin(&call, self, handle, name) < 0)
 *         return NULL;
 *     if (call_take(&call, grads) == 0)
 *         CALL_CORE(&call, gsc_scaler_…);
 *     return call_end(&call);
 */
typedef struct core_call {
    struct py_scaler *scaler;
    struct core_call *outer;        /* of the same scaler, or NULL */
    py_handle *handle;              /* NULL: it concerns no optimizer */
    bool nested;                    /* in another call on the same handle */
    arrays grads;                   /* borrowed for the call */
    bool refuses;                   /* they could not be taken, and the core is to refuse in our place */
    PyObject *name;                 /* borrowed; NULL: there are no names */
    PyObject *step, *step_scaled;   /* borrowed; NULL: not this call, or nothing is to be done */
    PyObject *value;                /* what call_end returns; NULL: None */
    PyObject *text;                 /* the name that the core was told last, in bytes */
    PyObject *type, *error, *trace; /* the first exception of a callback */
    gsc_status status;              /* the core's answer */
    busy_phase phase;               /* of the outer call */
    bool frees_gil;                 /* while in the core */
    PyThreadState *freed;
} core_call;

/* `with scaler:` makes it this thread's for several calls and what lies between them. Others wait until it is left, or
 * are refused while a callback runs. Inside itself it is refused too, but for callbacks: neither a finalizer nor an
 * array's __dlpack__ comes between. 0, or -1 with RuntimeError. */
int call_claim(struct py_scaler *scaler);
void call_unclaim(struct py_scaler *scaler);

/* Makes the scaler ours and, with an object (checked to be a handle; NULL: none), the handle known to it. name: None,
 * NULL or a callable from an index to a string or None. 0, or -1 with a Python exception. */
int call_begin(core_call *call, struct py_scaler *scaler, PyObject *object, PyObject *name);
/* Borrows gradients for the handle; an exception instead of a list says why there are none. 0, or -1 with a Python
 * exception, for call_end to pass on. */
int call_take(core_call *call, PyObject *grads);
/* Around the core's function: without the GIL where there is enough to do. */
void call_enter_core(core_call *call);
void call_leave_core(core_call *call);
#define CALL_CORE(call, expression) (call_enter_core(call), (call)->status = (expression), call_leave_core(call))
/* Gives everything back. Returns the call's value; NULL with a Python exception: one that is set already, a callback's,
 * or the core's failure. */
PyObject *call_end(core_call *call);

/* For callbacks: around Python code, with the GIL. */
void call_enter_python(core_call *call);
void call_leave_python(core_call *call);
/* Keeps the exception that is set for call_end; a second one is only shown, as where's. */
void call_stash(core_call *call, PyObject *where);

#endif
