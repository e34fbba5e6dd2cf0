/* SPDX-License-Identifier: Apache-2.0 */
/* streams.c: streams, and the rules of the legacy default stream: its work waits for what the blocking streams of the
 * context have, and their later work waits for it. */
#define _GNU_SOURCE
#include <stdlib.h>

#include "capture.h"

static CUresult add_stream(CUcontext context, unsigned flags, CUstream *out)
{
    CUstream s = calloc(1, sizeof *s);
    if (s == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    s->context = context;
    s->flags = flags;
    s->next = context->streams;
    context->streams = s;
    *out = s;
    return CUDA_SUCCESS;
}

static CUresult per_thread_stream(CUcontext context, CUstream *out)
{
    for (CUstream s = context->streams; s != NULL; s = s->next)
        if (s->is_per_thread && pthread_equal(s->thread, pthread_self())) {
            *out = s;
            return CUDA_SUCCESS;
        }
    TRY(add_stream(context, 0, out));
    (*out)->is_per_thread = true;
    (*out)->thread = pthread_self();
    return CUDA_SUCCESS;
}

CUresult stream_find(CUstream handle, CUstream *out)
{
    CUcontext context;
    TRY(context_current(&context));
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        context->legacy.context = context;
        context->legacy.is_legacy = true;
        *out = &context->legacy;
        return CUDA_SUCCESS;
    }
    if (handle == CU_STREAM_PER_THREAD)
        return per_thread_stream(context, out);
    for (int device = 0; (context = context_of_device(device)) != NULL; device++)
        for (CUstream s = context->streams; s != NULL; s = s->next)
            if (s == handle) {
                *out = s;
                return context->failure;
            }
    return CUDA_ERROR_INVALID_HANDLE;
}

static bool is_blocking(const struct CUstream_st *s) { return (s->flags & CU_STREAM_NON_BLOCKING) == 0; }

CUresult stream_append(CUstream stream, op *o)
{
    CUcontext context = stream->context;
    bool fine = op_after(o, stream->last);
    if (stream->is_legacy) {
        for (CUstream s = context->streams; s != NULL; s = s->next)
            fine = (!is_blocking(s) || op_after(o, s->last)) && fine;
    } else if (is_blocking(stream))
        fine = op_after(o, context->legacy.last) && fine;
    op_let_go(stream->last);
    stream->last = op_hold(o);
    return fine ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult stream_enqueue(CUstream stream, work *w)
{
    if (stream->capture != NULL)
        return capture_add(stream, w);
    CUresult refused = stream->is_legacy
                           ? capture_refuse_any(stream->context, false, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
                           : CUDA_SUCCESS;
    if (refused != CUDA_SUCCESS) {
        work_free(w);
        return refused;
    }
    op *o = op_create(w);
    if (o == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = stream_append(stream, o);
    op_submit(o);
    op_let_go(o);
    work_enqueued();
    return result;
}

void stream_release(CUstream stream)
{
    capture_stream_gone(stream);
    if (!op_is_done(stream->last))
        op_wait(stream->last);
    op_let_go(stream->last);
    for (CUstream *link = &stream->context->streams; *link != NULL; link = &(*link)->next)
        if (*link == stream) {
            *link = stream->next;
            break;
        }
    free(stream);
}

static CUresult create(CUstream *out, unsigned flags)
{
    CUcontext context;
    TRY(context_current(&context));
    if (out == NULL || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return add_stream(context, flags, out);
}

static bool is_predefined(CUstream handle)
{
    return handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD;
}

static CUresult destroy(CUstream handle)
{
    CUstream stream;
    if (is_predefined(handle))
        return CUDA_ERROR_INVALID_HANDLE;
    TRY(stream_find(handle, &stream));
    call_synchronises();
    stream_release(stream);
    return CUDA_SUCCESS;
}

/* What the host may not ask while the stream, or for the legacy one any blocking stream, is capturing. */
static CUresult find_for_host(CUstream handle, CUstream *out)
{
    TRY(stream_find(handle, out));
    if ((*out)->capture != NULL)
        return capture_refuse(*out, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if ((*out)->is_legacy)
        return capture_refuse_any((*out)->context, false, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    return CUDA_SUCCESS;
}

/* The legacy stream's work counts as done only with that of the blocking streams, which it would wait for. */
static CUresult wait(CUstream stream)
{
    if (stream->is_legacy) {
        work nothing = {.kind = WORK_NOTHING, .context = stream->context};
        TRY(stream_enqueue(stream, &nothing));
    }
    op *last = stream->last == NULL ? NULL : op_hold(stream->last);
    bool fine = op_is_done(last) || op_wait(last);
    op_let_go(last);
    return fine ? stream->context->failure : CUDA_ERROR_LAUNCH_TIMEOUT;
}

static CUresult synchronise(CUstream handle)
{
    CUstream stream;
    TRY(find_for_host(handle, &stream));
    call_synchronises();
    return wait(stream);
}

static CUresult query(CUstream handle)
{
    CUstream stream;
    TRY(find_for_host(handle, &stream));
    bool done = op_is_done(stream->last);
    for (CUstream s = stream->context->streams; stream->is_legacy && s != NULL; s = s->next)
        done = done && (!is_blocking(s) || op_is_done(s->last));
    if (!done)
        work_run(1);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags) { CALL(cuStreamCreate, create(stream, flags)); }
CUresult cuStreamDestroy_v2(CUstream stream) { CALL_FREEING(cuStreamDestroy_v2, destroy(stream)); }
CUresult cuStreamSynchronize(CUstream stream) { CALL(cuStreamSynchronize, synchronise(stream)); }
CUresult cuStreamQuery(CUstream stream) { CALL(cuStreamQuery, query(stream)); }
