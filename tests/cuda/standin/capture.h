/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h: what stream capture does to the calls of streams, events and memory. */
#ifndef GSC_TESTS_STANDIN_CAPTURE_H
#define GSC_TESTS_STANDIN_CAPTURE_H

#include "context.h"

/* Adds the work, which it takes over, to the graph that the stream is capturing. */
CUresult capture_add(CUstream stream, work *w);
/* An event is recorded in, or waited for by, a capturing stream, or it was recorded in one. */
CUresult capture_record(CUevent event, CUstream stream);
CUresult capture_wait(CUstream stream, CUevent event);
/* The call is not allowed while the stream captures: the capture becomes invalid. */
CUresult capture_refuse(CUstream stream, CUresult result);
/* The same where any stream of the context (NULL: of any context) captures, but for its non-blocking streams where
 * those do not matter. */
CUresult capture_refuse_any(CUcontext context, bool non_blocking_too, CUresult result);
/* An event that was last recorded in a capture cannot be asked for or waited for by the host. */
CUresult capture_check_event(CUevent event);
/* Allocations and other calls that the mode of a capture may forbid. */
CUresult capture_check_unsafe(void);
void capture_stream_gone(CUstream stream);
/* Adds the nodes of a graph that is launched while the stream captures. */
CUresult capture_graph(CUstream stream, const struct CUgraph_st *graph);

#endif
