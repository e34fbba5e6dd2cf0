/* SPDX-License-Identifier: Apache-2.0 */
/* events.c: an event is the operation that was the last one of a stream when it was recorded. */
#include <stdlib.h>

#include "capture.h"

CUresult event_find(CUevent handle)
{
    CUcontext context;
    TRY(context_current(&context));
    for (int device = 0; (context = context_of_device(device)) != NULL; device++)
        for (CUevent e = context->events; e != NULL; e = e->next)
            if (e == handle)
                return context->failure;
    return CUDA_ERROR_INVALID_HANDLE;
}

void event_release(CUevent event)
{
    for (CUevent *link = &event->context->events; *link != NULL; link = &(*link)->next)
        if (*link == event) {
            *link = event->next;
            break;
        }
    op_let_go(event->record);
    node_set_free(&event->nodes);
    free(event);
}

static CUresult create(CUevent *out, unsigned flags)
{
    CUcontext context;
    TRY(context_current(&context));
    if (out == NULL || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    CUevent e = calloc(1, sizeof *e);
    if (e == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->context = context;
    e->next = context->events;
    context->events = e;
    *out = e;
    return CUDA_SUCCESS;
}

static CUresult destroy(CUevent event)
{
    TRY(event_find(event));
    event_release(event);
    return CUDA_SUCCESS;
}

static CUresult record(CUevent event, CUstream handle)
{
    CUstream stream;
    TRY(event_find(event));
    TRY(stream_find(handle, &stream));
    if (event->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != NULL)
        return capture_record(event, stream);
    work nothing = {.kind = WORK_NOTHING, .context = stream->context};
    TRY(stream_enqueue(stream, &nothing));
    op_let_go(event->record);
    event->record = op_hold(stream->last);
    event->capture = 0;
    return CUDA_SUCCESS;
}

static CUresult stream_wait(CUstream handle, CUevent event, unsigned flags)
{
    CUstream stream;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(event_find(event));
    TRY(stream_find(handle, &stream));
    if (stream->capture != NULL || event->capture != 0)
        return capture_wait(stream, event);
    work nothing = {.kind = WORK_NOTHING, .context = stream->context};
    op *o = op_create(&nothing);
    if (o == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = op_after(o, event->record) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    CUresult appended = stream_append(stream, o);
    op_submit(o);
    op_let_go(o);
    return result == CUDA_SUCCESS ? appended : result;
}

static CUresult query(CUevent event)
{
    TRY(event_find(event));
    TRY(capture_check_event(event));
    TRY(capture_check_unsafe());
    if (op_is_done(event->record))
        return CUDA_SUCCESS;
    work_run(1);
    return CUDA_ERROR_NOT_READY;
}

static CUresult synchronise(CUevent event)
{
    TRY(event_find(event));
    TRY(capture_check_event(event));
    call_synchronises();
    CUcontext context = event->context;
    if (op_is_done(event->record))
        return CUDA_SUCCESS;
    op *o = op_hold(event->record);
    bool fine = op_wait(o);
    op_let_go(o);
    return fine ? context->failure : CUDA_ERROR_LAUNCH_TIMEOUT;
}

CUresult cuEventCreate(CUevent *event, unsigned flags) { CALL(cuEventCreate, create(event, flags)); }
CUresult cuEventDestroy_v2(CUevent event) { CALL_FREEING(cuEventDestroy_v2, destroy(event)); }
CUresult cuEventRecord(CUevent event, CUstream stream) { CALL(cuEventRecord, record(event, stream)); }
CUresult cuEventQuery(CUevent event) { CALL(cuEventQuery, query(event)); }
CUresult cuEventSynchronize(CUevent event) { CALL(cuEventSynchronize, synchronise(event)); }
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    CALL(cuStreamWaitEvent, stream_wait(stream, event, flags));
}
