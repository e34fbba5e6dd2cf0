/* SPDX-License-Identifier: Apache-2.0 */
/* call.h: one call of a scaler, from the arguments to the result.
 *
 *     call_frame frame;
 *     if (call_begin(&frame, self, handle, name) < 0)
 *         return NULL;
 *     if (call_take_grads(&frame, grads) == 0)
 *         CALL_CORE(&frame, gsc_scaler_…);
 *     return call_end(&frame);
 */
#ifndef EXT_CALL_H
#define EXT_CALL_H

#include "frame.h"

/* `with scaler:` makes the scaler this thread's for several calls and what lies between them. Other threads wait until
 * it is left; they are refused while a callback runs. The same thread is refused within it, so that neither a finalizer
 * nor an array's __dlpack__ comes between, but not in callbacks. 0, or -1 with RuntimeError. */
int call_claim(py_scaler *scaler);
void call_unclaim(py_scaler *scaler);

/* Makes the scaler this thread's. object: a handle, which it makes known to the scaler; TypeError for anything else;
 * NULL: none. name: None, NULL or a callable from an index to a string or None. 0, or -1 with a Python exception. */
int call_begin(call_frame *frame, py_scaler *scaler, PyObject *object, PyObject *name);
/* Borrows gradients for the handle. An exception in place of the list is raised. 0; or -1 with a Python exception, for
 * call_end to pass on. */
int call_take_grads(call_frame *frame, PyObject *grads);
#define CALL_CORE(frame, expression) (frame_enter_core(frame), (frame)->status = (expression), frame_leave_core(frame))
/* Gives everything back. Returns the call's value; or NULL with a Python exception: the one that is set already, a
 * callback's, or the core's failure. */
PyObject *call_end(call_frame *frame);

#endif
