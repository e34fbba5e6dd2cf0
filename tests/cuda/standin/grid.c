/* SPDX-License-Identifier: Apache-2.0 */
/* grid.c: blocks and threads in shuffled order; barriers and warp operations that wait for all their threads.
 *
 * A thread runs until it waits or returns; then one of those that are ready, drawn by lot, runs on. Where none is ready
 * and not all have returned, some wait for threads that never come: an error. */
#include "grid.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/fiber.h"
#include "fiber.h"
#include "random.h"

typedef enum { READY, AT_BARRIER, IN_WARP, RETURNED } thread_state;
typedef enum { WARP_BARRIER, WARP_ANY, WARP_XOR } warp_operation;

typedef struct thread {
    fiber fiber;
    bool prepared; /* its fiber waits in thread_main for its next kernel */
    thread_state state;
    int line; /* of the barrier or warp operation where it waits */
    warp_operation operation;
    unsigned parameter;
    uint32_t value, result;
} thread;

typedef struct shared_range {
    char *begin, *end;
} shared_range;

enum { MAX_RANGES = 64 };

static thread threads[GRID_MAX_THREADS];
static fiber host;
static const grid_launch *launch;
static char complaint[512];
static bool failed;
static shared_range ranges[MAX_RANGES];
static size_t range_count;

/* The block that runs. */
static struct {
    size_t size;        /* threads */
    size_t self;        /* the one that runs */
    size_t ready_count; /* those that could run on: */
    uint16_t ready[GRID_MAX_THREADS];
    size_t at_barrier, returned;
    size_t index; /* in the grid */
} block;

const char *grid_complaint(void) { return complaint; }

void grid_add_shared(char *begin, char *end)
{
    if (range_count == MAX_RANGES)
        abort();
    ranges[range_count++] = (shared_range){begin, end};
}

size_t grid_static_shared(void)
{
    size_t bytes = 0;
    for (size_t i = 0; i < range_count; i++)
        bytes += (size_t)(ranges[i].end - ranges[i].begin);
    return bytes;
}

static void set_complaint(const char *format, va_list args)
{
    char text[384];
    vsnprintf(text, sizeof text, format, args);
    snprintf(complaint, sizeof complaint, "kernel %s, block %zu, thread %zu: %s", launch->kernel->name, block.index,
             block.self, text);
    failed = true;
}

/* Leaves the kernel for good; grid_run returns false. */
__attribute__((format(printf, 1, 2), noreturn)) static void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    set_complaint(format, args);
    va_end(args);
    fiber_switch(&threads[block.self].fiber, &host);
    abort();
}

static void make_ready(size_t index)
{
    threads[index].state = READY;
    block.ready[block.ready_count++] = (uint16_t)index;
}

/* Draws the next thread. */
static size_t take_ready(void)
{
    size_t drawn = random_below(block.ready_count), index = block.ready[drawn];
    block.ready[drawn] = block.ready[--block.ready_count];
    return index;
}

/* Nobody can go on: some wait for threads that never come. */
_Noreturn static void fail_waiting(void)
{
    while (threads[block.self].state == RETURNED)
        block.self = (block.self + 1) % block.size;
    const thread *waiting = &threads[block.self];
    if (waiting->state == AT_BARRIER)
        fail("waits with %zu of %zu threads at the barrier of line %d, which the others never reach (%zu have "
             "returned)",
             block.at_barrier, block.size, waiting->line, block.returned);
    fail("waits in the warp operation of line %d for lanes that never come to it", waiting->line);
}

/* Runs another thread; returns when it is this one's turn again. */
static void switch_away(void)
{
    thread *self = &threads[block.self];
    if (block.ready_count == 0) {
        if (block.returned < block.size)
            fail_waiting();
        fiber_switch(&self->fiber, &host);
        return;
    }
    size_t next = take_ready();
    if (next == block.self)
        return;
    block.self = next;
    fiber_switch(&self->fiber, &threads[next].fiber);
}

/* The threads of the warp of this one; the last warp may be short. */
static size_t warp_begin(void) { return block.self / GRID_WARP * GRID_WARP; }

static size_t warp_size(void)
{
    size_t left = block.size - warp_begin();
    return left < GRID_WARP ? left : GRID_WARP;
}

static void warp_settle(void);

static void thread_main(void)
{
    for (;;) {
        launch->kernel->call(launch->args);
        threads[block.self].state = RETURNED;
        block.returned++;
        warp_settle();
        switch_away();
    }
}

void gsc__fiber_block_barrier(int line)
{
    thread *self = &threads[block.self];
    for (size_t i = 0; block.at_barrier > 0 && i < block.size; i++)
        if (threads[i].state == AT_BARRIER) {
            if (threads[i].line != line)
                fail("is at the barrier of line %d while others are at that of line %d", line, threads[i].line);
            break;
        }
    self->state = AT_BARRIER;
    self->line = line;
    if (++block.at_barrier == block.size) {
        block.at_barrier = 0;
        for (size_t i = 0; i < block.size; i++)
            make_ready(i);
    }
    switch_away();
}

static uint32_t warp_any(const thread *warp, size_t size)
{
    uint32_t any = 0;
    for (size_t lane = 0; lane < size; lane++)
        any |= warp[lane].value;
    return any;
}

/* Lets the lanes of this thread's warp go on if all have come to the same operation. A lane that has returned need not
 * come to a mere barrier. */
static void warp_settle(void)
{
    size_t begin = warp_begin(), size = warp_size();
    thread *warp = &threads[begin];
    const thread *first = NULL;
    bool complete = size == GRID_WARP;
    for (size_t lane = 0; lane < size; lane++) {
        if (warp[lane].state == RETURNED) {
            complete = false;
            continue;
        }
        if (warp[lane].state != IN_WARP)
            return;
        if (first == NULL)
            first = &warp[lane];
        if (warp[lane].operation != first->operation || warp[lane].line != first->line)
            fail("lanes of a warp are in different operations: those of line %d and of line %d", first->line,
                 warp[lane].line);
    }
    if (first == NULL)
        return;
    warp_operation operation = first->operation;
    if (!complete && operation != WARP_BARRIER)
        fail("some lanes of its warp %s the warp operation of line %d",
             size < GRID_WARP ? "do not exist in" : "returned before", first->line);
    uint32_t any = warp_any(warp, size);
    for (size_t lane = 0; lane < size; lane++)
        warp[lane].result = operation == WARP_XOR ? warp[(lane ^ warp[lane].parameter) % GRID_WARP].value : any;
    for (size_t lane = 0; lane < size; lane++)
        if (warp[lane].state == IN_WARP)
            make_ready(begin + lane);
}

static uint32_t warp_wait(warp_operation operation, uint32_t value, unsigned parameter, int line)
{
    thread *self = &threads[block.self];
    self->state = IN_WARP;
    self->operation = operation;
    self->line = line;
    self->value = value;
    self->parameter = parameter;
    warp_settle();
    switch_away();
    return self->result;
}

void gsc__fiber_warp_barrier(int line) { warp_wait(WARP_BARRIER, 0, 0, line); }
bool gsc__fiber_warp_any(bool condition, int line) { return warp_wait(WARP_ANY, condition, 0, line) != 0; }
uint32_t gsc__fiber_warp_xor(uint32_t value, unsigned mask, int line) { return warp_wait(WARP_XOR, value, mask, line); }

void gsc__fiber_pause(void)
{
    if (block.ready_count == 0 || !random_share(25))
        return;
    make_ready(block.self);
    switch_away();
}

unsigned gsc__fiber_thread(void) { return (unsigned)block.self; }
unsigned gsc__fiber_block(void) { return (unsigned)block.index; }
unsigned gsc__fiber_block_threads(void) { return (unsigned)block.size; }
unsigned gsc__fiber_grid_blocks(void) { return launch->blocks; }
double gsc__fiber_square_root(double x) { return sqrt(x); }

/* A fiber for each thread; those that were left in the midst of a kernel begin anew. */
static void prepare_threads(void)
{
    for (size_t i = 0; i < block.size; i++)
        if (!threads[i].prepared) {
            if (!fiber_prepare(&threads[i].fiber, thread_main, i))
                abort();
            threads[i].prepared = true;
        }
}

static void abandon_threads(void)
{
    for (size_t i = 0; i < block.size; i++)
        threads[i].prepared = false;
}

static void run_block(size_t index)
{
    for (size_t i = 0; i < range_count; i++)
        random_fill(ranges[i].begin, (size_t)(ranges[i].end - ranges[i].begin));
    block.index = index;
    block.ready_count = block.at_barrier = block.returned = 0;
    for (size_t i = 0; i < block.size; i++)
        make_ready(i);
    block.self = take_ready();
    fiber_switch(&host, &threads[block.self].fiber);
}

static size_t common_divisor(size_t a, size_t b) { return b == 0 ? a : common_divisor(b, a % b); }

bool grid_run(const grid_launch *what)
{
    launch = what;
    failed = false;
    complaint[0] = '\0';
    block.size = what->threads;
    prepare_threads();
    size_t blocks = what->blocks, step = 1 + random_below(blocks), at = random_below(blocks);
    while (common_divisor(step, blocks) != 1)
        step = 1 + random_below(blocks);
    for (size_t i = 0; i < blocks && !failed; i++) {
        at = (at + step) % blocks;
        run_block(at);
    }
    if (failed)
        abandon_threads();
    return !failed;
}
