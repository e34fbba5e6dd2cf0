/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c: while a stream captures, its work becomes nodes of a graph. A node comes after those in the stream's tail,
 * which an event carries to other streams: they join the capture. */
#define _GNU_SOURCE
#include "capture.h"

#include <pthread.h>
#include <stdlib.h>

#include "graphs.h"

struct capture {
    capture *next;
    uint64_t number;
    CUstream origin;
    int mode;
    pthread_t thread;
    bool invalid;
    CUgraph graph;
};

static capture *captures; /* those that have not ended */
static uint64_t last_number;
static _Thread_local int thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static void leave_capture(CUstream stream)
{
    stream->capture = NULL;
    node_set_free(&stream->tail);
}

static void for_each_stream_of(const capture *c, void (*act)(CUstream stream, void *ctx), void *ctx)
{
    CUcontext context;
    for (int device = 0; (context = context_of_device(device)) != NULL; device++)
        for (CUstream s = context->streams; s != NULL; s = s->next)
            if (s->capture == c)
                act(s, ctx);
}

static capture *capture_numbered(uint64_t number)
{
    capture *c = captures;
    while (c != NULL && c->number != number)
        c = c->next;
    return c;
}

static CUresult begin(CUstream handle, int mode)
{
    CUstream stream;
    TRY(stream_find(handle, &stream));
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->is_legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->capture != NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    capture *c = calloc(1, sizeof *c);
    CUgraph graph = calloc(1, sizeof *graph);
    if (c == NULL || graph == NULL) {
        free(c);
        free(graph);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *c = (capture){captures, ++last_number, stream, mode, pthread_self(), false, graph};
    captures = c;
    stream->capture = c;
    return CUDA_SUCCESS;
}

CUresult capture_add(CUstream stream, work *w)
{
    capture *c = stream->capture;
    if (c->invalid) {
        work_free(w);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (!graph_add(c->graph, w, &stream->tail))
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->tail.count = 0;
    return node_set_add(&stream->tail, c->graph->count - 1) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult capture_record(CUevent event, CUstream stream)
{
    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = stream->capture->number;
    event->nodes.count = 0;
    return node_set_add_all(&event->nodes, &stream->tail) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult capture_wait(CUstream stream, CUevent event)
{
    if (stream->capture != NULL && stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (event->capture == 0) /* recorded outside, or never; the capture may depend on nothing outside */
        return event->record == NULL ? CUDA_SUCCESS : capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    capture *c = capture_numbered(event->capture);
    if (c == NULL)
        return stream->capture == NULL ? CUDA_ERROR_CAPTURED_EVENT : capture_refuse(stream, CUDA_ERROR_CAPTURED_EVENT);
    if (c->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->is_legacy)
        return capture_refuse(c->origin, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (stream->capture != NULL && stream->capture != c) {
        stream->capture->invalid = true;
        return capture_refuse(c->origin, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    stream->capture = c;
    return node_set_add_all(&stream->tail, &event->nodes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult capture_refuse(CUstream stream, CUresult result)
{
    stream->capture->invalid = true;
    return result;
}

CUresult capture_refuse_any(CUcontext context, bool non_blocking_too, CUresult result)
{
    CUresult answer = CUDA_SUCCESS;
    for (CUstream s = context->streams; s != NULL; s = s->next)
        if (s->capture != NULL && (non_blocking_too || (s->flags & CU_STREAM_NON_BLOCKING) == 0))
            answer = capture_refuse(s, result);
    return answer;
}

CUresult capture_check_event(CUevent event)
{
    if (event->capture == 0)
        return CUDA_SUCCESS;
    capture *c = capture_numbered(event->capture);
    if (c != NULL)
        c->invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
}

/* Whether a capture in its mode forbids the calling thread calls that may be unsafe, which the thread may have allowed
 * itself. */
static bool forbids_unsafe(const capture *c)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED || c->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (pthread_equal(c->thread, pthread_self()))
        return true;
    return c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult capture_check_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;
    for (capture *c = captures; c != NULL; c = c->next)
        if (forbids_unsafe(c)) {
            c->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

static void mark_reached(const struct CUgraph_st *graph, const node_set *from, bool *reached)
{
    for (size_t i = 0; i < from->count; i++)
        reached[from->nodes[i]] = true;
    for (size_t i = graph->count; i-- > 0;)
        for (size_t k = 0; reached[i] && k < graph->nodes[i].after.count; k++)
            reached[graph->nodes[i].after.nodes[k]] = true;
}

typedef struct join_check {
    const bool *reached;
    bool joined;
} join_check;

static void check_joined(CUstream stream, void *ctx)
{
    join_check *check = ctx;
    for (size_t i = 0; i < stream->tail.count; i++)
        check->joined = check->joined && check->reached[stream->tail.nodes[i]];
}

/* Whether the origin's tail comes after all that other streams have captured. */
static CUresult check_all_joined(const capture *c)
{
    bool *reached = calloc(c->graph->count + 1, sizeof *reached);
    if (reached == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mark_reached(c->graph, &c->origin->tail, reached);
    join_check check = {reached, true};
    for_each_stream_of(c, check_joined, &check);
    free(reached);
    return check.joined ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
}

static void leave_each(CUstream stream, void *ctx)
{
    (void)ctx;
    leave_capture(stream);
}

/* The graph is the caller's from then on. */
static void capture_end(capture *c)
{
    for_each_stream_of(c, leave_each, NULL);
    for (capture **link = &captures; *link != NULL; link = &(*link)->next)
        if (*link == c) {
            *link = c->next;
            break;
        }
    free(c);
}

static CUresult end(CUstream handle, CUgraph *out)
{
    CUstream stream;
    TRY(stream_find(handle, &stream));
    if (out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    capture *c = stream->capture;
    *out = NULL;
    if (c == NULL)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->origin != stream)
        return capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUgraph graph = c->graph;
    CUresult result = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : check_all_joined(c);
    capture_end(c);
    if (result != CUDA_SUCCESS) {
        graph_free(graph);
        return result;
    }
    graph_publish(graph);
    *out = graph;
    return CUDA_SUCCESS;
}

void capture_stream_gone(CUstream stream)
{
    capture *c = stream->capture;
    if (c == NULL)
        return;
    c->invalid = true;
    if (c->origin == stream) {
        graph_free(c->graph);
        capture_end(c);
    }
    leave_capture(stream);
}

static CUresult is_capturing(CUstream handle, int *status)
{
    CUstream stream;
    TRY(stream_find(handle, &stream));
    if (status == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (CUstream s = stream->context->streams; stream->is_legacy && s != NULL; s = s->next)
        if (s->capture != NULL && (s->flags & CU_STREAM_NON_BLOCKING) == 0)
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT; /* this call does not invalidate */
    *status = stream->capture == NULL    ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                         : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

static CUresult exchange_mode(int *mode)
{
    if (mode == NULL || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

CUresult capture_graph(CUstream stream, const struct CUgraph_st *graph)
{
    capture *c = stream->capture;
    if (c->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    size_t first = c->graph->count;
    node_set all = {0};
    bool fine = true;
    for (size_t i = 0; i < graph->count && fine; i++) {
        node_set after = {0};
        work w;
        fine = node_set_add_all(&after, &stream->tail) && work_copy(&w, &graph->nodes[i].work);
        for (size_t k = 0; k < graph->nodes[i].after.count && fine; k++)
            fine = node_set_add(&after, first + graph->nodes[i].after.nodes[k]);
        fine = fine && graph_add(c->graph, &w, &after) && node_set_add(&all, first + i);
        node_set_free(&after);
    }
    if (graph->count > 0) {
        node_set_free(&stream->tail);
        stream->tail = all;
    }
    return fine ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) { CALL(cuStreamBeginCapture_v2, begin(stream, mode)); }
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) { CALL(cuStreamEndCapture, end(stream, graph)); }
CUresult cuStreamIsCapturing(CUstream stream, int *status) { CALL(cuStreamIsCapturing, is_capturing(stream, status)); }
CUresult cuThreadExchangeStreamCaptureMode(int *mode) { CALL(cuThreadExchangeStreamCaptureMode, exchange_mode(mode)); }
