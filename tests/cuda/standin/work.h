/* SPDX-License-Identifier: Apache-2.0 */
/* work.h: operations, each of which waits for others, and the order in which they run.
 *
 * A stream is nothing but the rule that an operation waits for the one enqueued before it. */
#ifndef GSC_TESTS_STANDIN_WORK_H
#define GSC_TESTS_STANDIN_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi.h"
#include "grid.h"

typedef enum work_kind { WORK_NOTHING, WORK_LAUNCH, WORK_COPY, WORK_SET, WORK_MEET } work_kind;

/* What is to be done; also a node of a graph. */
typedef struct work {
    work_kind kind;
    CUcontext context;
    void *owned; /* LAUNCH: the arguments. COPY: the source as it was at the call, or NULL. Freed with the work */
    size_t owned_bytes;
    /* LAUNCH */
    const standin_kernel *kernel;
    unsigned blocks, threads;
    /* COPY, SET, MEET */
    char *to;
    const char *from;
    size_t bytes;
    size_t width;   /* SET, MEET: of a value */
    uint32_t value; /* SET */
    /* MEET: a collective of ranks, on the values at `to` */
    standin_world *world;
    int rank, operation;
} work;

/* Copies what is owned, too. Returns false where there is no memory. */
bool work_copy(work *out, const work *in);
void work_free(work *w);

typedef struct op op;

/* Takes over what the work owns, also where it fails (NULL). The op waits for nothing yet, and does not run before
 * op_submit. The caller holds it and lets go of it. */
op *op_create(work *w);
/* `later` waits for `earlier` (NULL: for nothing). Returns false where there is no memory. */
bool op_after(op *later, op *earlier);
void op_submit(op *o);
op *op_hold(op *o);
void op_let_go(op *o);        /* NULL is fine */
bool op_is_done(const op *o); /* NULL is done */

/* Runs work, in an order of the seed's choice, until the op is done. Returns false if that cannot be: nobody enqueues
 * what it waits for. */
bool op_wait(op *o);
size_t work_run(size_t most);
size_t work_pending(void);
/* A piece of work was enqueued: perhaps something runs now. */
void work_enqueued(void);

#endif
