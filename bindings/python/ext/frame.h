/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h: one call of a scaler under way, and the ways between Python and the core: who holds the GIL, which phase the
 * scaler is in. */
#ifndef EXT_FRAME_H
#define EXT_FRAME_H

#include "objects.h"

#include <stdbool.h>

/* One call, on the C stack. Calls of one scaler nest where a callback calls it again. */
typedef struct call_frame {
    py_scaler *scaler;
    struct call_frame *outer;       /* the call of the same scaler that this one is nested in; NULL: none */
    busy_phase outer_phase;         /* the scaler's phase in that call */
    py_handle *handle;              /* NULL: the call concerns no optimizer */
    bool handle_is_outer;           /* an outer call uses the same handle */
    arrays grads;                   /* borrowed for the call */
    bool refused;                   /* the gradients could not be borrowed; the core is given one that it refuses */
    PyObject *name;                 /* borrowed; NULL: gradients have no names */
    PyObject *step, *step_scaled;   /* borrowed; NULL: not this call, or nothing to do */
    PyObject *value;                /* what the call returns; NULL: None */
    PyObject *name_bytes;           /* keeps the last name that the core was given */
    PyObject *type, *error, *trace; /* the first exception of a callback */
    gsc_status status;              /* the core's answer */
    bool frees_gil;                 /* while in the core */
    PyThreadState *thread;          /* of the GIL given up */
} call_frame;

/* Around the core's function: gives up the GIL where there is enough to do. */
void frame_enter_core(call_frame *frame);
void frame_leave_core(call_frame *frame);

/* Around Python code in a callback of the core: takes the GIL back. */
void frame_enter_python(call_frame *frame);
void frame_leave_python(call_frame *frame);

/* Keeps the exception that is set, to be raised when the call ends. A second one is only printed, as raised by
 * `source`. */
void frame_stash_exception(call_frame *frame, PyObject *source);

#endif
