/* SPDX-License-Identifier: Apache-2.0 */
/* frame.c: the switches between Python and the core. */
#include "frame.h"

void frame_enter_core(call_frame *frame)
{
    busy_set_phase(&frame->scaler->busy, BUSY_CORE);
    if (frame->releases_gil)
        frame->thread = PyEval_SaveThread();
}

void frame_leave_core(call_frame *frame)
{
    if (frame->releases_gil)
        PyEval_RestoreThread(frame->thread);
    busy_set_phase(&frame->scaler->busy, BUSY_ARRAYS);
}

void frame_enter_python(call_frame *frame)
{
    if (frame->releases_gil)
        PyEval_RestoreThread(frame->thread);
    busy_set_phase(&frame->scaler->busy, BUSY_CALLBACK);
}

void frame_leave_python(call_frame *frame)
{
    busy_set_phase(&frame->scaler->busy, BUSY_CORE);
    if (frame->releases_gil)
        frame->thread = PyEval_SaveThread();
}

void frame_stash_exception(call_frame *frame, PyObject *source)
{
    if (frame->error_type)
        PyErr_WriteUnraisable(source);
    else
        PyErr_Fetch(&frame->error_type, &frame->error, &frame->error_traceback);
}
