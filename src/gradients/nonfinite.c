/* SPDX-License-Identifier: Apache-2.0 */
/* nonfinite.c: a fast check of each part, and a count only where something is not finite. */
#include "gradients/nonfinite.h"

#include <string.h>

#include "base/blocks.h"
#include "gradients/fast_view.h"
#include "gradients/layout.h"
#include "gradients/rows.h"
#include "gradients/runs.h"
#include "gradients/tasks.h"
#include "gradscaler/status.h"
#include "kernels/kernels.h"

/* One tensor on all threads. */
typedef struct tensor_count {
    const gsc__layout *layout; /* logical */
    size_t count, elements_per_task;
    double r;
    _Atomic uint64_t infs, nans, first;
} tensor_count;

static void count_block(tensor_count *all, size_t first, size_t count)
{
    _Alignas(64) unsigned char packed[GSC_GRADIENT_BLOCK * sizeof(double)];
    const gsc__kind kind = all->layout->kind;
    const gsc__run run = {gsc__rows_neighbours(all->layout, first, count, packed), count};
    const gsc__kernel_table *kernels = gsc__kernels();
    if (kernels->check[kind](&run, 1, all->r, NULL) < gsc__kind_infinity(kind))
        return; /* nearly all blocks are finite, and a check is faster than a count */
    gsc__partial found;
    kernels->count[kind](&run, 1, all->r, &found);
    atomic_fetch_add(&all->infs, found.counts.infs);
    atomic_fetch_add(&all->nans, found.counts.nans);
    gsc__atomic_min(&all->first, first + found.counts.first);
}

static void count_task(void *ctx, size_t index)
{
    tensor_count *all = ctx;
    gsc__range task = gsc__part(all->count, all->elements_per_task, index);
    for (; task.first < task.end; task.first += GSC_GRADIENT_BLOCK)
        count_block(all, task.first, gsc__block_length(task.first, task.end));
}

/* Any size, any strides. */
static bool count_large(const gsc__view *view, double r, gsc__nonfinite *out)
{
    gsc__layout layout;
    gsc__layout_logical(view->tensor, view->kind, &layout);
    tensor_count all = {.layout = &layout, .count = view->count, .r = r};
    atomic_store(&all.first, view->count);
    gsc_parallel_run(gsc__task_split(view->count, &all.elements_per_task), count_task, &all);
    if (all.infs + all.nans == 0)
        return false;
    *out = (gsc__nonfinite){.inf_count = all.infs, .nan_count = all.nans, .first_index = all.first};
    return true;
}

static bool is_small(const gsc__view *view) { return view->dense && view->count < GSC_PARALLEL_MIN; }

/* How many of the first views are small and of one kind. */
static size_t count_small_views(const gsc__view *views, size_t n)
{
    size_t count = 0;
    while (count < n && is_small(&views[count]) && views[count].kind == views[0].kind)
        count++;
    return count;
}

/* One kernel call for all, neighbours as one run. */
static bool all_finite(const gsc__view *views, size_t n, double r)
{
    gsc__run runs[GSC_NONFINITE_BATCH];
    const gsc__kind kind = views[0].kind;
    size_t run_count = 0;
    for (size_t k = 0; k < n; k++)
        if (views[k].count > 0)
            run_count = gsc__runs_append(runs, run_count, views[k].start, views[k].count, gsc__kind_size(kind));
    return gsc__kernels()->check[kind](runs, run_count, r, NULL) < gsc__kind_infinity(kind);
}

/* After an overflow in one of thousands of tensors most batches are finite: one check settles them. */
static bool count_small(const gsc__view *views, size_t n, double r, bool expected, gsc__nonfinite *out)
{
    if (!expected && all_finite(views, n, r))
        return false;
    gsc__run runs[GSC_NONFINITE_BATCH];
    gsc__partial found[GSC_NONFINITE_BATCH];
    for (size_t k = 0; k < n; k++)
        runs[k] = (gsc__run){views[k].start, views[k].count};
    gsc__kernels()->count[views[0].kind](runs, n, r, found);
    bool any = false;
    for (size_t k = 0; k < n; k++) {
        if (found[k].counts.infs + found[k].counts.nans == 0)
            continue;
        any = true;
        if (gsc__fast_count(views[k].tensor) > 0) /* compact: the order of memory is the row-major one */
            out[k] = (gsc__nonfinite){.inf_count = found[k].counts.infs,
                                      .nan_count = found[k].counts.nans,
                                      .first_index = found[k].counts.first};
        else
            count_large(&views[k], r, &out[k]);
    }
    return any;
}

void gsc__nonfinite_view(const DLTensor *tensor, gsc__view *out)
{
    const gsc__view_rules rules = {.writes = false, .allow_fp16 = true};
    const gsc__message_subject subject = {.api = "gsc__nonfinite_view", .what = "tensor"};
    if (!tensor || gsc__view_make(tensor, &rules, &subject, out) != GSC_OK)
        *out = (gsc__view){.dense = true};
}

bool gsc__count_nonfinite(const gsc__view *views, size_t n, double r, bool expected, gsc__nonfinite *out)
{
    bool any = false;
    memset(out, 0, n * sizeof *out);
    for (size_t i = 0; i < n;) {
        size_t small = count_small_views(views + i, n - i);
        any |= small > 0 ? count_small(views + i, small, r, expected, out + i) : count_large(&views[i], r, &out[i]);
        i += small > 0 ? small : 1;
    }
    return any;
}
