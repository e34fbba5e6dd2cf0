/* SPDX-License-Identifier: Apache-2.0 */
/* enumerate.c: depth first. Restoring the heap undoes a call, since a scaler keeps nothing elsewhere (rule 15: no
 * global state but kernel choice, thread pool and the message). */
#include <stdatomic.h>
#include <stdlib.h>

#include "enumerate.h"
#include "heap.h"
#include "known.h"
#include "trial.h"

/* One thread's. Sequences are dealt out by their first two calls. */
typedef struct explorer {
    const variant *v;
    int length;
    atomic_uint *dealt;
    known *known;          /* NULL: continuations are tried for every sequence */
    unsigned mine, passed; /* number of the next pair dealt to this thread; of pairs gone by */
    bool counts_first;     /* single calls are tried by every thread, counted by one */
    heap *heap, *saved;    /* saved[depth] */
    subject *s;
    call calls[MAX_LENGTH];
    enumeration done;
} explorer;

static bool is_mine(explorer *e)
{
    if (e->passed++ != e->mine)
        return false;
    e->mine = atomic_fetch_add(e->dealt, 1);
    return true;
}

/* What the sequences that start here depend on: all that the scaler and its optimizers keep, the model, the calls that
 * may come, how many. */
static digest digest_of(const explorer *e, const model *m, const bool *due, int remaining)
{
    digest d = digest_start((uint64_t)remaining << 2 | (uint64_t)due[0] << 1 | due[1]);
    digest_add_heap(&d, e->heap->bytes, e->heap->used);
    digest_add(&d, m, sizeof *m);
    return d;
}

static void try_call(explorer *e, const call *c, model *m, int depth)
{
    e->calls[depth] = *c;
    heap_copy(e->heap, &e->saved[depth]);
    heap_use(e->heap);
    trial_check(e->s, m, e->calls, depth + 1, e->v->name);
    heap_use(NULL);
    e->done.calls++;
}

static uint64_t explore(explorer *e, const model *before, const bool *due, int depth);

static uint64_t explore_each_call(explorer *e, const model *before, const bool *due, int depth)
{
    call next[MAX_CALLS];
    int n = list_calls(e->v, due, next);
    uint64_t count = 0;
    heap_copy(&e->saved[depth], e->heap);
    for (int i = 0; i < n; i++) {
        if (depth == 1 && !is_mine(e))
            continue;
        model after = *before;
        bool due_after[2] = {due[0], due[1]};
        try_call(e, &next[i], &after, depth);
        count += depth > 0 || e->counts_first;
        note_due(due_after, &next[i]);
        if (depth + 1 < e->length)
            count += explore(e, &after, due_after, depth + 1);
    }
    return count;
}

/* Returns how many sequences of 1 to length - depth calls start here; at the first two calls, this thread's alone. */
static uint64_t explore(explorer *e, const model *before, const bool *due, int depth)
{
    if (depth < 2 || !e->known)
        return explore_each_call(e, before, due, depth);
    digest state = digest_of(e, before, due, e->length - depth);
    uint64_t count = known_find(e->known, state);
    if (count > 0)
        return count;
    count = explore_each_call(e, before, due, depth);
    if (!known_add(e->known, state, count))
        trial_out_of_memory();
    return count;
}

static void *run(void *context)
{
    explorer *e = context;
    const bool due[2] = {true, true};
    model start = model_create(&e->v->options, 2, e->v->scale_aware);
    e->heap = calloc(1, sizeof *e->heap);
    e->saved = calloc((size_t)e->length, sizeof *e->saved);
    if (!e->heap || !e->saved)
        trial_out_of_memory();
    heap_use(e->heap);
    e->s = subject_create(&e->v->options, 2, e->v->scale_aware);
    heap_use(NULL);
    if (!e->s)
        trial_out_of_memory();
    e->mine = atomic_fetch_add(e->dealt, 1);
    e->done.sequences = explore(e, &start, due, 0);
    free(e->heap);
    free(e->saved);
    return NULL;
}

enumeration enumerate(const variant *v, int length, bool each, int threads)
{
    explorer explorers[MAX_THREADS];
    atomic_uint dealt = 0;
    enumeration all = {0, 0};
    known *k = each ? NULL : known_create();
    if (!each && !k)
        trial_out_of_memory();
    for (int i = 0; i < threads; i++)
        explorers[i] = (explorer){.v = v, .length = length, .dealt = &dealt, .known = k, .counts_first = i == 0};
    run_threads(threads, run, explorers, sizeof explorers[0]);
    for (int i = 0; i < threads; i++) {
        all.sequences += explorers[i].done.sequences;
        all.calls += explorers[i].done.calls;
    }
    known_destroy(k);
    return all;
}
