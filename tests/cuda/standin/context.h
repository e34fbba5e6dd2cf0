/* SPDX-License-Identifier: Apache-2.0 */
/* context.h: devices and their primary contexts; what belongs to a context. */
#ifndef GSC_TESTS_STANDIN_CONTEXT_H
#define GSC_TESTS_STANDIN_CONTEXT_H

#include <pthread.h>

#include "call.h"
#include "memory.h"
#include "work.h"

typedef struct capture capture; /* capture.h */

/* The nodes after which the next one of a capturing stream comes. */
typedef struct node_set {
    size_t *nodes;
    size_t count;
} node_set;

struct CUstream_st {
    CUstream next;
    CUcontext context;
    unsigned flags;
    bool is_legacy;
    bool is_per_thread;
    pthread_t thread; /* of a per-thread stream */
    op *last;
    capture *capture; /* NULL: not capturing */
    node_set tail;
};

struct CUevent_st {
    CUevent next;
    CUcontext context;
    op *record;       /* of the last record; NULL: none */
    uint64_t capture; /* the number of the capture in which it was last recorded; 0: in none */
    node_set nodes;   /* there */
};

struct CUfunc_st {
    CUfunction next;
    CUcontext context;
    const standin_kernel *kernel;
};

struct CUmod_st {
    CUmodule next;
    CUcontext context;
    CUfunction functions;
};

struct CUctx_st {
    int device;
    unsigned retains;
    CUresult failure; /* of work that ran; each later call returns it */
    struct CUstream_st legacy;
    CUstream streams; /* those that were created, and per-thread ones */
    CUevent events;
    CUmodule modules;
};

/* The thread's current context: CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_INVALID_CONTEXT, or the context's failure. */
CUresult context_current(CUcontext *out);
CUresult context_check_initialised(void);
/* The primary context of a device, retained or not; NULL: no such device. */
CUcontext context_of_device(int device);
/* All of its work has run. */
CUresult context_wait(CUcontext context);
void context_fail(CUcontext context, CUresult result);

/* NULL and CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, or one that was created, of any context. */
CUresult stream_find(CUstream handle, CUstream *out);
CUresult event_find(CUevent handle);
/* Enqueues work that it takes over, or gives it to the capture. */
CUresult stream_enqueue(CUstream stream, work *w);
/* The op is the stream's next: it waits for what the stream, and the legacy default stream, have before it. */
CUresult stream_append(CUstream stream, op *o);
/* Of a stream that was created: after its work has run. */
void stream_release(CUstream stream);
void event_release(CUevent event);
void module_release(CUmodule module);

void node_set_free(node_set *set);

#endif
