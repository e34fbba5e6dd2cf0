/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h: a call of a scaler in progress, and the switches between Python and the core, which take or give up the GIL
 * and set the scaler's phase (busy.h). */
#ifndef EXT_FRAME_H
#define EXT_FRAME_H

#include "objects.h"

#include <stdbool.h>

/* One call, on the C stack. Calls of one scaler nest where a callback calls it again. */
typedef struct call_frame {
    py_scaler *scaler;
    struct call_frame *outer;     /* the call of the same scaler that this one is nested in; NULL: none */
    busy_phase outer_phase;       /* the scaler's phase in that call */
    py_handle *handle;            /* NULL: the call concerns no optimizer */
    bool handle_is_outer;         /* an outer call uses the same handle */
    arrays grads;                 /* borrowed for the call */
    bool refused;                 /* the gradients could not be borrowed; the core is given one that it refuses */
    PyObject *name;               /* borrowed; NULL: gradients have no names */
    PyObject *step, *step_scaled; /* borrowed; NULL: not this call, or nothing to do */
    PyObject *value;              /* what the call returns; NULL: None */
    PyObject *name_bytes;         /* keeps the last name that the core was given */
    PyObject *error_type;         /* the first exception of a callback, as PyErr_Fetch gives it; NULL: none */
    PyObject *error, *error_traceback;
    gsc_status status;     /* the core's answer */
    bool releases_gil;     /* the GIL is given up while in the core; false: too little to do */
    PyThreadState *thread; /* with which the GIL is taken back */
} call_frame;

/* Around the call of a core function: from the Python code of this module into the core, and out of it for good.
 * Outside of the core the phase is BUSY_ARRAYS: other threads may wait, since the call ends soon. */
void frame_enter_core(call_frame *frame);
void frame_leave_core(call_frame *frame);

/* Around Python code that the core runs as a callback: out of the core for a while, with the GIL. The phase is
 * BUSY_CALLBACK: other threads are refused, since the user's code may wait for them. */
void frame_enter_python(call_frame *frame);
void frame_leave_python(call_frame *frame);

/* Takes the exception that is set. The first one of a call is kept, to be raised when the call ends. Later ones are
 * printed, as raised by `source`. */
void frame_stash_exception(call_frame *frame, PyObject *source);

#endif
