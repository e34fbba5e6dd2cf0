/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c: batches of runs for the kernels, and what the kernels return. */
#include "gradients/sweep.h"

#include <math.h>
#include <string.h>

#include "base/fpenv.h"
#include "gradients/rows.h"
#include "gradients/runs.h"

enum {
    MOST_RUNS = 64,   /* in one kernel call */
    SHORTEST_ROW = 64 /* elements: rows of a strided tensor at least as long go to the kernel unpacked */
};

typedef struct shared {
    const gsc__sweep *sweep;
    size_t elements_per_task;
    _Atomic uint64_t max_bits[GSC_KINDS];
} shared;

/* Runs of one kind that wait for a kernel call. */
typedef struct batch {
    const gsc__sweep *sweep;
    uint64_t max_bits[GSC_KINDS];
    gsc__kind kind;
    size_t count;
    size_t first_block; /* of the first run, where there are partials */
    gsc__run runs[MOST_RUNS];
} batch;

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static void flush(batch *b)
{
    if (b->count == 0)
        return;
    const gsc__sweep *sweep = b->sweep;
    gsc__partial *partials = sweep->partials ? sweep->partials + b->first_block : NULL;
    uint64_t bits = sweep->kernels[b->kind](b->runs, b->count, sweep->factor[b->kind], partials);
    b->max_bits[b->kind] = larger(b->max_bits[b->kind], bits);
    b->count = 0;
}

static inline void add_run(batch *b, gsc__kind kind, void *data, size_t count, size_t block)
{
    if (b->count == MOST_RUNS || b->kind != kind)
        flush(b);
    if (b->count == 0) {
        b->kind = kind;
        b->first_block = block;
    }
    if (b->sweep->partials) /* one a run */
        b->runs[b->count++] = (gsc__run){data, count};
    else
        b->count = gsc__runs_append(b->runs, b->count, data, count, gsc__kind_size(kind));
}

static void sweep_packed(batch *b, const gsc__layout *layout, size_t first, size_t end, size_t first_block)
{
    _Alignas(64) unsigned char packed[GSC_GRADIENT_BLOCK * sizeof(double)];
    flush(b);
    for (; first < end; first += GSC_GRADIENT_BLOCK) {
        size_t count = gsc__block_length(first, end);
        gsc__rows_pack(layout, first, count, packed);
        add_run(b, layout->kind, packed, count, first_block + first / GSC_GRADIENT_BLOCK);
        flush(b);
        if (b->sweep->stores)
            gsc__rows_unpack(layout, first, count, packed);
    }
}

static void sweep_strided(batch *b, const gsc__view *view, size_t first, size_t end)
{
    gsc__layout layout;
    gsc__layout_collapse(view->tensor, view->kind, &layout);
    /* A partial is of a block, which rows do not keep to. */
    if (b->sweep->partials || layout.stride[0] != 1 || layout.shape[0] < SHORTEST_ROW) {
        sweep_packed(b, &layout, first, end, view->first_block);
        return;
    }
    gsc__rows rows;
    gsc__row row;
    for (gsc__rows_begin(&rows, &layout, first, end - first); gsc__rows_next(&rows, &row);)
        add_run(b, view->kind, row.data, row.count, 0);
}

static inline void sweep_dense(batch *b, const gsc__view *view, size_t first, size_t end)
{
    size_t size = gsc__kind_size(view->kind);
    if (!b->sweep->partials) {
        add_run(b, view->kind, view->start + first * size, end - first, 0);
        return;
    }
    for (; first < end; first += GSC_GRADIENT_BLOCK)
        add_run(b, view->kind, view->start + first * size, gsc__block_length(first, end),
                view->first_block + first / GSC_GRADIENT_BLOCK);
}

static inline void sweep_view(void *ctx, const gsc__view *view, size_t first, size_t end)
{
    if (view->dense)
        sweep_dense(ctx, view, first, end);
    else
        sweep_strided(ctx, view, first, end);
}

/* Leaves the runs uninitialised: clearing them would slow small lists down. */
static void batch_begin(batch *b, const gsc__sweep *sweep)
{
    b->sweep = sweep;
    b->count = 0;
    b->kind = GSC_F32;
    memset(b->max_bits, 0, sizeof b->max_bits);
}

static void sweep_task(void *ctx, size_t index)
{
    shared *all = ctx;
    batch b;
    batch_begin(&b, all->sweep);
    gsc__list_visit(all->sweep->list, index, all->elements_per_task, sweep_view, &b);
    flush(&b);
    for (int kind = 0; kind < GSC_KINDS; kind++)
        gsc__atomic_max(&all->max_bits[kind], b.max_bits[kind]);
}

/* One kernel call for dense tensors of one kind, which most training loops have. */
static inline void sweep_plain(const gsc__sweep *sweep, uint64_t max_bits[GSC_KINDS])
{
    const gsc__list *list = sweep->list;
    memset(max_bits, 0, GSC_KINDS * sizeof *max_bits);
    if (list->count == 0)
        return;
    gsc__kind kind = list->views[0].kind;
    max_bits[kind] = sweep->kernels[kind](list->runs, list->run_count, sweep->factor[kind], NULL);
}

static void sweep_alone(const gsc__sweep *sweep, uint64_t max_bits[GSC_KINDS])
{
    if (sweep->list->plain && !sweep->partials) {
        sweep_plain(sweep, max_bits);
        return;
    }
    batch b;
    batch_begin(&b, sweep);
    for (size_t v = 0; v < sweep->list->count; v++)
        sweep_view(&b, &sweep->list->views[v], 0, sweep->list->views[v].count);
    flush(&b);
    memcpy(max_bits, b.max_bits, sizeof b.max_bits);
}

void gsc__sweep_run(const gsc__sweep *sweep, uint64_t max_bits[GSC_KINDS])
{
    size_t per_task, tasks = gsc__task_split_quick(sweep->list->elements, &per_task);
    if (tasks == 1) {
        sweep_alone(sweep, max_bits);
        return;
    }
    shared all = {.sweep = sweep, .elements_per_task = per_task};
    gsc_parallel_run(tasks, sweep_task, &all);
    for (int kind = 0; kind < GSC_KINDS; kind++)
        max_bits[kind] = atomic_load(&all.max_bits[kind]);
}

static double value_of_bits(gsc__kind kind, uint64_t bits)
{
    if (bits > gsc__kind_infinity(kind))
        return (double)NAN;
    double value;
    switch (kind) {
    case GSC_F64: memcpy(&value, &bits, sizeof value); return value;
    case GSC_F32: return (double)gsc__bits_float((uint32_t)bits);
    case GSC_BF16: return (double)gsc__bf16_to_f32((uint16_t)bits);
    default: return (double)gsc__f16_to_f32((uint16_t)bits);
    }
}

gsc__check_result gsc__check_result_from_bits(const uint64_t max_bits[GSC_KINDS])
{
    gsc__check_result result = {.found_inf = false, .max_abs = 0.0};
    for (int kind = 0; kind < GSC_KINDS; kind++) {
        if (max_bits[kind] == 0)
            continue;
        double value = gsc__fpenv_pin(value_of_bits((gsc__kind)kind, max_bits[kind]));
        result.found_inf |= max_bits[kind] >= gsc__kind_infinity((gsc__kind)kind);
        if (value > result.max_abs || isnan(value))
            result.max_abs = value;
    }
    return result;
}

gsc__check_result gsc__sweep_kernels(const gsc__list *list, gsc__kernel *const *kernels, double factor, bool stores)
{
    uint64_t max_bits[GSC_KINDS];
    const gsc__sweep sweep = {
        .list = list, .kernels = kernels, .factor = {factor, factor, factor, factor}, .stores = stores};
    gsc__sweep_run(&sweep, max_bits);
    return gsc__check_result_from_bits(max_bits);
}

gsc__check_result gsc__sweep_check(const gsc__list *list, double r)
{
    return gsc__sweep_kernels(list, gsc__kernels()->check, r, false);
}

gsc__check_result gsc__sweep_unscale(const gsc__list *list, double r)
{
    /* A product with 1 would make signalling NaNs quiet. */
    return r == 1.0 ? gsc__sweep_check(list, r) : gsc__sweep_kernels(list, gsc__kernels()->unscale, r, true);
}

void gsc__sweep_multiply(const gsc__list *list, double factor) { (void)gsc__sweep_unscale(list, factor); }
