/* SPDX-License-Identifier: Apache-2.0 */
/* graphs.c: graphs and their launches, which make an operation of each node, with the values that the work had. */
#include "graphs.h"

#include <stdlib.h>

#include "capture.h"

struct CUgraphExec_st {
    CUgraphExec next;
    CUgraph graph; /* a copy of its own */
    op *last;      /* of the launch before: launches of one graph follow one another */
};

static CUgraph graphs;
static CUgraphExec execs;

size_t graphs_alive(void)
{
    size_t count = 0;
    for (CUgraph g = graphs; g != NULL; g = g->next)
        count++;
    return count;
}

size_t graph_execs_alive(void)
{
    size_t count = 0;
    for (CUgraphExec e = execs; e != NULL; e = e->next)
        count++;
    return count;
}

static bool node_set_has(const node_set *set, size_t index)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->nodes[i] == index)
            return true;
    return false;
}

bool node_set_add(node_set *set, size_t index)
{
    if (node_set_has(set, index))
        return true;
    size_t *larger = realloc(set->nodes, (set->count + 1) * sizeof *larger);
    if (larger == NULL)
        return false;
    set->nodes = larger;
    set->nodes[set->count++] = index;
    return true;
}

bool node_set_add_all(node_set *set, const node_set *more)
{
    for (size_t i = 0; i < more->count; i++)
        if (!node_set_add(set, more->nodes[i]))
            return false;
    return true;
}

void node_set_free(node_set *set)
{
    free(set->nodes);
    *set = (node_set){0};
}

void graph_free(CUgraph graph)
{
    for (size_t i = 0; i < graph->count; i++) {
        work_free(&graph->nodes[i].work);
        node_set_free(&graph->nodes[i].after);
    }
    free(graph->nodes);
    free(graph);
}

bool graph_add(CUgraph graph, work *w, const node_set *after)
{
    node *larger = realloc(graph->nodes, (graph->count + 1) * sizeof *larger);
    if (larger != NULL)
        graph->nodes = larger;
    node n = {.work = *w};
    if (larger == NULL || !node_set_add_all(&n.after, after)) {
        work_free(w);
        node_set_free(&n.after);
        return false;
    }
    graph->nodes[graph->count++] = n;
    return true;
}

void graph_publish(CUgraph graph)
{
    graph->next = graphs;
    graphs = graph;
}

static CUgraph graph_copy(const struct CUgraph_st *graph)
{
    CUgraph copy = calloc(1, sizeof *copy);
    for (size_t i = 0; copy != NULL && i < graph->count; i++) {
        work w;
        if (work_copy(&w, &graph->nodes[i].work) && graph_add(copy, &w, &graph->nodes[i].after))
            continue;
        graph_free(copy);
        return NULL;
    }
    return copy;
}

static bool is_graph(CUgraph graph)
{
    CUgraph g = graphs;
    while (g != NULL && g != graph)
        g = g->next;
    return g != NULL;
}

static bool is_exec(CUgraphExec exec)
{
    CUgraphExec e = execs;
    while (e != NULL && e != exec)
        e = e->next;
    return e != NULL;
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    CUcontext context;
    TRY(context_current(&context));
    if (out == NULL || flags != 0 || !is_graph(graph))
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec exec = calloc(1, sizeof *exec);
    CUgraph copy = exec == NULL ? NULL : graph_copy(graph);
    if (copy == NULL) {
        free(exec);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    exec->graph = copy;
    exec->next = execs;
    execs = exec;
    *out = exec;
    return CUDA_SUCCESS;
}

/* An operation that does nothing, as a place in the order. */
static op *milestone(CUcontext context)
{
    work nothing = {.kind = WORK_NOTHING, .context = context};
    return op_create(&nothing);
}

/* The operations of the nodes, between two milestones in the stream. */
static bool enqueue_nodes(const struct CUgraph_st *graph, op **ops, op *first, op *last)
{
    bool fine = true;
    for (size_t i = 0; i < graph->count && fine; i++) {
        work w;
        ops[i] = work_copy(&w, &graph->nodes[i].work) ? op_create(&w) : NULL;
        fine = ops[i] != NULL && op_after(ops[i], first) && op_after(last, ops[i]);
        for (size_t k = 0; fine && k < graph->nodes[i].after.count; k++)
            fine = op_after(ops[i], ops[graph->nodes[i].after.nodes[k]]);
    }
    for (size_t i = 0; i < graph->count; i++)
        if (ops[i] != NULL) {
            op_submit(ops[i]);
            op_let_go(ops[i]);
        }
    return fine;
}

static CUresult launch(CUgraphExec exec, CUstream handle)
{
    CUstream stream;
    TRY(stream_find(handle, &stream));
    if (!is_exec(exec))
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture != NULL)
        return capture_graph(stream, exec->graph);
    if (stream->is_legacy)
        TRY(capture_refuse_any(stream->context, false, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT));
    op **ops = calloc(exec->graph->count + 1, sizeof *ops), *first = milestone(stream->context),
       *last = milestone(stream->context);
    bool fine = ops != NULL && first != NULL && last != NULL;
    if (fine) {
        fine = stream_append(stream, first) == CUDA_SUCCESS && op_after(first, exec->last);
        fine = enqueue_nodes(exec->graph, ops, first, last) && fine;
        fine = stream_append(stream, last) == CUDA_SUCCESS && fine;
        op_submit(first);
        op_submit(last);
        op_let_go(exec->last);
        exec->last = op_hold(last);
    }
    op_let_go(first);
    op_let_go(last);
    free(ops);
    work_enqueued();
    return fine ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult exec_destroy(CUgraphExec exec)
{
    TRY(context_check_initialised());
    if (!is_exec(exec))
        return CUDA_ERROR_INVALID_VALUE;
    for (CUgraphExec *link = &execs; *link != NULL; link = &(*link)->next)
        if (*link == exec) {
            *link = exec->next;
            break;
        }
    op_let_go(exec->last);
    graph_free(exec->graph);
    free(exec);
    return CUDA_SUCCESS;
}

static CUresult graph_destroy(CUgraph graph)
{
    TRY(context_check_initialised());
    if (!is_graph(graph))
        return CUDA_ERROR_INVALID_VALUE;
    for (CUgraph *link = &graphs; *link != NULL; link = &(*link)->next)
        if (*link == graph) {
            *link = graph->next;
            break;
        }
    graph_free(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    CALL(cuGraphInstantiateWithFlags, instantiate(exec, graph, flags));
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) { CALL(cuGraphLaunch, launch(exec, stream)); }
CUresult cuGraphExecDestroy(CUgraphExec exec) { CALL_FREEING(cuGraphExecDestroy, exec_destroy(exec)); }
CUresult cuGraphDestroy(CUgraph graph) { CALL_FREEING(cuGraphDestroy, graph_destroy(graph)); }
