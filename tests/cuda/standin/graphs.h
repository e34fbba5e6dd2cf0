/* SPDX-License-Identifier: Apache-2.0 */
/* graphs.h: work that can be launched again and again. */
#ifndef GSC_TESTS_STANDIN_GRAPHS_H
#define GSC_TESTS_STANDIN_GRAPHS_H

#include "context.h"

typedef struct node {
    work work;
    node_set after; /* the nodes that it waits for; all before it in the graph */
} node;

struct CUgraph_st {
    CUgraph next;
    node *nodes;
    size_t count;
};

/* Takes over the work, also where it fails. */
bool graph_add(CUgraph graph, work *w, const node_set *after);
void graph_publish(CUgraph graph); /* it becomes the program's */
void graph_free(CUgraph graph);

bool node_set_add(node_set *set, size_t index);
bool node_set_add_all(node_set *set, const node_set *more);

size_t graphs_alive(void);
size_t graph_execs_alive(void);

#endif
