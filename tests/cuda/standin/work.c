/* SPDX-License-Identifier: Apache-2.0 */
/* work.c: the graph of operations that have not run, and the choice of the next one.
 *
 * Whoever waits draws how: run only what is needed; run everything else that can run first; or run whatever comes. So
 * each of two operations that nothing orders comes first under some seed. */
#include "work.h"

#include <fenv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "random.h"
#include "ranks.h"

typedef struct op_list {
    op **ops;
    size_t count, capacity;
} op_list;

struct op {
    work work;
    size_t holders, unmet; /* unmet: what it waits for, and 1 until it is submitted */
    bool done;
    uint64_t mark;          /* equal to the marker: the one who waits needs it */
    op_list earlier, later; /* those that are not done */
};

typedef enum { ONLY_NEEDED, OTHERS_FIRST, ANY } choice;

static op_list ready;
static size_t pending;
static uint64_t marker;
static int early_percent = -1; /* not set yet */
static uint64_t kernels_run;
static struct {
    char name[128];
    uint64_t left;
    CUresult result;
} kernel_failure;

enum { MAX_KERNELS = 512 };
static struct {
    const standin_kernel *kernel;
    uint64_t runs;
} runs_of[MAX_KERNELS];

/* ---- What an operation does ---- */

bool work_copy(work *out, const work *in)
{
    *out = *in;
    if (in->owned == NULL)
        return true;
    out->owned = malloc(in->owned_bytes == 0 ? 1 : in->owned_bytes);
    if (out->owned == NULL)
        return false;
    memcpy(out->owned, in->owned, in->owned_bytes);
    if (out->kind == WORK_COPY)
        out->from = out->owned;
    return true;
}

void work_free(work *w)
{
    free(w->owned);
    w->owned = NULL;
}

static unsigned device_bit(const void *address)
{
    const allocation *a = memory_find(address, 1);
    return a == NULL || a->device < 0 ? 0 : 1U << a->device;
}

static void count_run(const standin_kernel *kernel)
{
    kernels_run++;
    for (size_t i = 0; i < MAX_KERNELS; i++)
        if (runs_of[i].kernel == kernel || runs_of[i].kernel == NULL) {
            runs_of[i].kernel = kernel;
            runs_of[i].runs++;
            return;
        }
}

/* The failure that was asked for, if it is this kernel's turn. */
static CUresult injected_failure(const char *kernel)
{
    if (kernel_failure.left == 0 || (kernel_failure.name[0] != '\0' && strcmp(kernel_failure.name, kernel) != 0) ||
        --kernel_failure.left > 0)
        return CUDA_SUCCESS;
    return kernel_failure.result;
}

static void run_kernel(const work *w)
{
    CUresult injected = injected_failure(w->kernel->name);
    if (injected != CUDA_SUCCESS) {
        context_fail(w->context, injected);
        return;
    }
    int device = w->context->device;
    grid_launch launch = {w->kernel, w->blocks, w->threads, w->owned};
    fenv_t environment; /* kernels round to nearest, whatever the host does */
    fegetenv(&environment);
    fesetenv(FE_DFL_ENV);
    memory_open(1U << device);
    memory_working_on(w->kernel->name, device);
    bool fine = grid_run(&launch);
    memory_working_on(NULL, device);
    fesetenv(&environment);
    if (!fine)
        complain("%s", grid_complaint());
    if (!memory_is_whole(device, w->kernel->name))
        fine = false;
    if (fine)
        count_run(w->kernel);
    else
        context_fail(w->context, CUDA_ERROR_LAUNCH_FAILED);
}

static void run_set(const work *w)
{
    memory_open(device_bit(w->to));
    for (size_t i = 0; i < w->bytes; i += w->width)
        memcpy(w->to + i, &w->value, w->width);
}

static void run_work(const work *w)
{
    memory_working_on("a copy", w->context == NULL ? -1 : w->context->device);
    switch (w->kind) {
    case WORK_NOTHING: break;
    case WORK_LAUNCH: run_kernel(w); break;
    case WORK_COPY:
        memory_open(device_bit(w->to) | device_bit(w->from));
        memmove(w->to, w->from, w->bytes);
        break;
    case WORK_SET: run_set(w); break;
    case WORK_MEET: break; /* see run */
    }
    memory_working_on(NULL, -1);
}

/* ---- The graph ---- */

static bool list_add(op_list *list, op *o)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity * 2 + 4;
        op **larger = realloc(list->ops, capacity * sizeof *larger);
        if (larger == NULL)
            return false;
        list->ops = larger;
        list->capacity = capacity;
    }
    list->ops[list->count++] = o;
    return true;
}

static void list_remove(op_list *list, const op *o)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->ops[i] == o) {
            list->ops[i] = list->ops[--list->count];
            return;
        }
}

op *op_create(work *w)
{
    op *o = calloc(1, sizeof *o);
    if (o == NULL) {
        work_free(w);
        return NULL;
    }
    o->work = *w;
    o->holders = 1;
    o->unmet = 1;
    return o;
}

bool op_after(op *later, op *earlier)
{
    if (op_is_done(earlier))
        return true;
    if (!list_add(&earlier->later, later))
        return false;
    if (!list_add(&later->earlier, earlier)) {
        earlier->later.count--;
        return false;
    }
    later->unmet++;
    return true;
}

static void met(op *o)
{
    if (--o->unmet == 0 && !list_add(&ready, o))
        abort();
}

void op_submit(op *o)
{
    pending++;
    op_hold(o);
    met(o);
    call_wake();
}

op *op_hold(op *o)
{
    o->holders++;
    return o;
}

void op_let_go(op *o)
{
    if (o == NULL || --o->holders > 0)
        return;
    free(o->earlier.ops);
    free(o->later.ops);
    work_free(&o->work);
    free(o);
}

bool op_is_done(const op *o) { return o == NULL || o->done; }

static void finish(op *o)
{
    work_free(&o->work);
    o->done = true;
    pending--;
    for (size_t i = 0; i < o->later.count; i++) {
        list_remove(&o->later.ops[i]->earlier, o);
        met(o->later.ops[i]);
    }
    o->later.count = 0;
    op_let_go(o);
}

static bool has_failed(const work *w) { return w->context != NULL && w->context->failure != CUDA_SUCCESS; }

static void run(op *o)
{
    list_remove(&ready, o);
    if (has_failed(&o->work)) { /* nothing runs in such a context */
        finish(o);
    } else if (o->work.kind == WORK_MEET) {
        op *released[MAX_RANKS];
        size_t count = ranks_arrive(&o->work, o, released);
        for (size_t i = 0; i < count; i++)
            finish(released[i]);
    } else {
        run_work(&o->work);
        finish(o);
    }
}

/* Marks the op and all that it waits for. A loop over a list of its own: chains are long. */
static void mark_needed(op *target)
{
    op_list stack = {0};
    marker++;
    target->mark = marker;
    if (!list_add(&stack, target))
        abort();
    while (stack.count > 0) {
        op *o = stack.ops[--stack.count];
        for (size_t i = 0; i < o->earlier.count; i++) {
            if (o->earlier.ops[i]->mark == marker)
                continue;
            o->earlier.ops[i]->mark = marker;
            if (!list_add(&stack, o->earlier.ops[i]))
                abort();
        }
    }
    free(stack.ops);
}

/* One of those ready that are marked (or not), drawn by lot; NULL: there is none. */
static op *draw(bool marked)
{
    size_t found = 0;
    op *drawn = NULL;
    for (size_t i = 0; i < ready.count; i++)
        if ((ready.ops[i]->mark == marker) == marked && random_below(++found) == 0)
            drawn = ready.ops[i];
    return drawn;
}

static op *choose(choice how)
{
    if (how == ANY)
        return ready.count == 0 ? NULL : ready.ops[random_below(ready.count)];
    /* Needed, but neither done nor ready: a collective for which other ranks' work must run, which is not marked. */
    op *chosen = draw(how == ONLY_NEEDED);
    return chosen == NULL ? draw(how != ONLY_NEEDED) : chosen;
}

bool op_wait(op *o)
{
    choice how = (choice)random_below(3);
    mark_needed(o);
    while (!o->done) {
        op *next = choose(how);
        if (next != NULL) {
            run(next);
            continue;
        }
        if (!call_wait()) {
            complain("a call waits for a collective that other ranks have not entered in 20 seconds");
            return false;
        }
        mark_needed(o);
    }
    return true;
}

size_t work_run(size_t most)
{
    size_t count = 0;
    for (; count < most && ready.count > 0; count++)
        run(ready.ops[random_below(ready.count)]);
    return count;
}

size_t work_pending(void) { return pending; }

void work_enqueued(void)
{
    if (early_percent < 0) {
        const char *text = getenv("STANDIN_EARLY");
        early_percent = text == NULL ? 0 : atoi(text);
    }
    if (early_percent > 0 && random_share(early_percent))
        work_run(1);
}

/* ---- For tests ---- */

void standin_seed(uint64_t seed)
{
    call_lock();
    random_seed(seed);
    call_unlock();
}

uint64_t standin_seed_now(void) { return random_seed_now(); }

void standin_set_early(int percent) { early_percent = percent; }

size_t standin_run(size_t most)
{
    call_lock();
    size_t count = work_run(most);
    memory_open(0);
    call_unlock();
    return count;
}

void standin_run_all(void) { standin_run(SIZE_MAX); }

size_t standin_pending(void)
{
    call_lock();
    size_t count = pending;
    call_unlock();
    return count;
}

uint64_t standin_kernels_run(const char *name)
{
    call_lock();
    uint64_t count = name == NULL ? kernels_run : 0;
    for (size_t i = 0; name != NULL && i < MAX_KERNELS && runs_of[i].kernel != NULL; i++)
        if (strcmp(runs_of[i].kernel->name, name) == 0)
            count += runs_of[i].runs;
    call_unlock();
    return count;
}

void standin_fail_kernel(const char *kernel, uint64_t k, int result)
{
    call_lock();
    snprintf(kernel_failure.name, sizeof kernel_failure.name, "%s", kernel == NULL ? "" : kernel);
    kernel_failure.left = k;
    kernel_failure.result = result;
    call_unlock();
}
