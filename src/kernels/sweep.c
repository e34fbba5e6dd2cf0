/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/sweep.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/fpenv.h"

enum {
    MOST_TASKS = 256,
    MOST_RUNS = 64,   /* of one kernel call */
    SHORTEST_ROW = 64 /* rows of a strided tensor that go to the kernel as they lie; shorter ones are packed */
};

typedef struct shared {
    const gsc_sweep *sweep;
    size_t elements_per_task;
    _Atomic uint64_t max_bits[GSC_KINDS];
} shared;

/* Runs of one kind that wait for a kernel call. */
typedef struct batch {
    const gsc_sweep *sweep;
    uint64_t max_bits[GSC_KINDS];
    gsc_kind kind;
    size_t count;
    size_t first_block; /* of the first run, where there are partials */
    gsc_run runs[MOST_RUNS];
} batch;

size_t gsc_gradlist_elements(const gsc_gradlist *list)
{
    if (list->count == 0)
        return 0;
    const gsc_view *last = &list->views[list->count - 1];
    return last->first_element + last->count;
}

size_t gsc_gradlist_blocks(const gsc_gradlist *list)
{
    if (list->count == 0)
        return 0;
    const gsc_view *last = &list->views[list->count - 1];
    return last->first_block + gsc_blocks(last->count);
}

size_t gsc_task_split(size_t elements, size_t *elements_per_task)
{
    size_t tasks = elements / GSC_TASK_LEAST;
    tasks = tasks < 2 ? 1 : tasks > MOST_TASKS ? MOST_TASKS : tasks;
    *elements_per_task = elements / tasks + (elements % tasks != 0);
    return tasks;
}

/* The last of the views that begins at or before an element of the concatenated list. */
static size_t find_view(const gsc_gradlist *list, size_t element)
{
    size_t low = 0, high = list->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (list->views[middle].first_element <= element)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static size_t whole_blocks(size_t elements) { return gsc_blocks(elements) * GSC_BLOCK; }

/* A block belongs to the task that has its first element. */
void gsc_gradlist_visit(const gsc_gradlist *list, size_t index, size_t elements_per_task, gsc_visit *visit, void *ctx)
{
    size_t first = index * elements_per_task, elements = gsc_gradlist_elements(list);
    size_t end = elements - first > elements_per_task ? first + elements_per_task : elements;
    for (size_t v = find_view(list, first); v < list->count && list->views[v].first_element < end; v++) {
        const gsc_view *view = &list->views[v];
        if (view->first_element >= first && view->count <= end - view->first_element) {
            visit(ctx, view, 0, view->count);
            continue;
        }
        size_t from = first > view->first_element ? whole_blocks(first - view->first_element) : 0;
        size_t to = whole_blocks(end - view->first_element);
        to = to < view->count ? to : view->count;
        if (from < to)
            visit(ctx, view, from, to);
    }
}

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void flush(batch *b)
{
    if (b->count == 0)
        return;
    const gsc_sweep *sweep = b->sweep;
    gsc_partial *partials = sweep->partials ? sweep->partials + b->first_block : NULL;
    uint64_t bits = sweep->kernels[b->kind](b->runs, b->count, sweep->factor[b->kind], partials);
    b->max_bits[b->kind] = larger(b->max_bits[b->kind], bits);
    b->count = 0;
}

static void add_run(batch *b, gsc_kind kind, void *data, size_t count, size_t block)
{
    if (b->count == MOST_RUNS || b->kind != kind)
        flush(b);
    if (b->count == 0) {
        b->kind = kind;
        b->first_block = block;
    }
    b->runs[b->count++] = (gsc_run){data, count};
}

static void sweep_packed(batch *b, const gsc_layout *layout, size_t from, size_t to, size_t first_block)
{
    _Alignas(64) unsigned char packed[GSC_BLOCK * sizeof(double)];
    flush(b);
    for (; from < to; from += GSC_BLOCK) {
        size_t count = to - from < GSC_BLOCK ? to - from : GSC_BLOCK;
        gsc_layout_pack(layout, from, count, packed);
        add_run(b, layout->kind, packed, count, first_block + from / GSC_BLOCK);
        flush(b);
        if (b->sweep->stores)
            gsc_layout_unpack(layout, from, count, packed);
    }
}

static void sweep_strided(batch *b, const gsc_view *view, size_t from, size_t to)
{
    gsc_layout layout;
    gsc_layout_collapse(view->tensor, view->kind, &layout);
    /* Partials are of blocks, and rows are not. */
    if (b->sweep->partials || layout.stride[0] != 1 || layout.shape[0] < SHORTEST_ROW) {
        sweep_packed(b, &layout, from, to, view->first_block);
        return;
    }
    gsc_rows rows;
    gsc_row row;
    for (gsc_rows_begin(&rows, &layout, from, to - from); gsc_rows_next(&rows, &row);)
        add_run(b, view->kind, row.data, row.count, 0);
}

static void sweep_dense(batch *b, const gsc_view *view, size_t from, size_t to)
{
    size_t size = gsc_kind_size(view->kind);
    if (!b->sweep->partials) {
        add_run(b, view->kind, view->start + from * size, to - from, 0);
        return;
    }
    for (; from < to; from += GSC_BLOCK)
        add_run(b, view->kind, view->start + from * size, to - from < GSC_BLOCK ? to - from : GSC_BLOCK,
                view->first_block + from / GSC_BLOCK);
}

static void sweep_part(void *ctx, const gsc_view *view, size_t from, size_t to)
{
    if (view->dense)
        sweep_dense(ctx, view, from, to);
    else
        sweep_strided(ctx, view, from, to);
}

static void sweep_task(void *ctx, size_t index)
{
    shared *all = ctx;
    batch b; /* its runs need no initial value, and small lists notice */
    b.sweep = all->sweep;
    b.count = 0;
    b.kind = GSC_F32;
    memset(b.max_bits, 0, sizeof b.max_bits);
    gsc_gradlist_visit(all->sweep->list, index, all->elements_per_task, sweep_part, &b);
    flush(&b);
    for (int kind = 0; kind < GSC_KINDS; kind++) {
        uint64_t seen = atomic_load_explicit(&all->max_bits[kind], memory_order_relaxed);
        while (b.max_bits[kind] > seen && !atomic_compare_exchange_weak(&all->max_bits[kind], &seen, b.max_bits[kind]))
            ;
    }
}

void gsc_sweep_run(const gsc_sweep *sweep, uint64_t max_bits[GSC_KINDS])
{
    shared all = {.sweep = sweep};
    size_t elements = gsc_gradlist_elements(sweep->list);
    if (elements > 0)
        gsc_parallel_run(gsc_task_split(elements, &all.elements_per_task), sweep_task, &all);
    for (int kind = 0; kind < GSC_KINDS; kind++)
        max_bits[kind] = atomic_load(&all.max_bits[kind]);
}

static double value_of_bits(gsc_kind kind, uint64_t bits)
{
    if (bits > gsc_kind_infinity(kind))
        return (double)NAN;
    double value;
    switch (kind) {
    case GSC_F64: memcpy(&value, &bits, sizeof value); return value;
    case GSC_F32: return (double)gsc_bits_float((uint32_t)bits);
    case GSC_BF16: return (double)gsc_bf16_to_f32((uint16_t)bits);
    default: return (double)gsc_f16_to_f32((uint16_t)bits);
    }
}

gsc_finding gsc_finding_from_bits(const uint64_t max_bits[GSC_KINDS])
{
    gsc_finding finding = {.found_inf = false, .max_abs = 0.0};
    gsc_fpenv caller = gsc_fpenv_enter();
    for (int kind = 0; kind < GSC_KINDS; kind++) {
        if (max_bits[kind] == 0)
            continue;
        double value = gsc_fpenv_pin(value_of_bits((gsc_kind)kind, max_bits[kind]));
        finding.found_inf |= max_bits[kind] >= gsc_kind_infinity((gsc_kind)kind);
        if (value > finding.max_abs || isnan(value))
            finding.max_abs = value;
    }
    gsc_fpenv_leave(caller);
    return finding;
}
