/* SPDX-License-Identifier: Apache-2.0 */
/* nonfinite.c: counts elements that are not finite: a fast check of each block or batch, and a count only of those
 * where the check finds something. */
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

/* Counting one tensor on all threads. */
typedef struct tensor_count {
    const gsc__layout *layout; /* gsc__layout_logical's: elements in row-major order */
    size_t count, elements_per_task;
    double r; /* the factor: what counts is element * r */
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

/* Counts one tensor of any size and any strides. */
static bool count_tensor(const gsc__view *view, double r, gsc__nonfinite *out)
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

/* Returns how many views at the beginning are small and of one kind: one batch. */
static size_t small_batch_length(const gsc__view *views, size_t n)
{
    size_t count = 0;
    while (count < n && is_small(&views[count]) && views[count].kind == views[0].kind)
        count++;
    return count;
}

/* One kernel call for n views of one kind. Neighbours in memory become one run. n is at most GSC_NONFINITE_BATCH. */
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

/* Whether the elements lie in memory in row-major order. False for a tensor without elements. */
static bool is_compact(const DLTensor *tensor) { return gsc__fast_count(tensor) > 0; }

/* Counts a batch of small views of one kind; n is at most GSC_NONFINITE_BATCH, as nonfinite.h demands. After
 * an overflow in one of thousands of tensors most batches are finite, which one check shows. With likely_nonfinite that
 * check would be wasted, so it is left out. */
static bool count_batch(const gsc__view *views, size_t n, double r, bool likely_nonfinite, gsc__nonfinite *out)
{
    if (!likely_nonfinite && all_finite(views, n, r))
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
        if (is_compact(views[k].tensor)) /* found.first counts in the order of memory */
            out[k] = (gsc__nonfinite){.inf_count = found[k].counts.infs,
                                      .nan_count = found[k].counts.nans,
                                      .first_index = found[k].counts.first};
        else
            count_tensor(&views[k], r, &out[k]);
    }
    return any;
}

void gsc__nonfinite_view(const DLTensor *tensor, gsc__view *out)
{
    const gsc__view_rules rules = {.writes = false, .allow_fp16 = true};
    const gsc__message_subject subject = {.api = "gsc__nonfinite_view", .what = "tensor"};
    if (!tensor || gsc__view_make(tensor, &rules, &subject, out) != GSC_OK)
        *out = (gsc__view){.dense = true}; /* a tensor that cannot be read counts as empty */
}

bool gsc__count_nonfinite(const gsc__view *views, size_t n, double r, bool likely_nonfinite, gsc__nonfinite *out)
{
    bool any = false;
    memset(out, 0, n * sizeof *out);
    for (size_t i = 0; i < n;) {
        size_t batch = small_batch_length(views + i, n - i);
        if (batch > 0)
            any |= count_batch(views + i, batch, r, likely_nonfinite, out + i);
        else
            any |= count_tensor(&views[i], r, &out[i]);
        i += batch > 0 ? batch : 1;
    }
    return any;
}
