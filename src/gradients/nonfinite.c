/* SPDX-License-Identifier: Apache-2.0 */
/* nonfinite.c: counts per tensor, and where they begin in row-major order: what a report says after an overflow. */
#include "gradients/nonfinite.h"

#include <stdatomic.h>
#include <string.h>

#include "gradients/fast_view.h"
#include "gradients/layout.h"
#include "gradients/rows.h"
#include "gradients/tasks.h"
#include "gradscaler/status.h"
#include "kernels/kernels.h"

/* One tensor on all threads. */
typedef struct census {
    const gsc__layout *layout; /* logical */
    size_t count, elements_per_task;
    double r;
    atomic_uint_least64_t infs, nans, first;
} census;

static void keep_least(atomic_uint_least64_t *least, uint64_t value)
{
    uint64_t seen = atomic_load(least);
    while (value < seen && !atomic_compare_exchange_weak(least, &seen, value))
        ;
}

static void count_block(census *all, size_t first, size_t count)
{
    _Alignas(64) unsigned char packed[GSC_GRADIENT_BLOCK * sizeof(double)];
    const gsc__layout *layout = all->layout;
    gsc__run run = {packed, count};
    if (layout->ndim == 1 && layout->stride[0] == 1)
        run.data = layout->data + first * gsc__kind_size(layout->kind);
    else
        gsc__layout_pack(layout, first, count, packed);
    const gsc__kernel_table *kernels = gsc__kernels();
    if (kernels->check[layout->kind](&run, 1, all->r, NULL) < gsc__kind_infinity(layout->kind))
        return; /* as nearly all are, and a check is faster than a count */
    gsc__partial found;
    kernels->count[layout->kind](&run, 1, all->r, &found);
    atomic_fetch_add(&all->infs, found.counts.infs);
    atomic_fetch_add(&all->nans, found.counts.nans);
    keep_least(&all->first, first + found.counts.first);
}

static void count_task(void *ctx, size_t index)
{
    census *all = ctx;
    size_t first = index * all->elements_per_task;
    size_t end = all->count - first > all->elements_per_task ? first + all->elements_per_task : all->count;
    for (; first < end; first += GSC_GRADIENT_BLOCK)
        count_block(all, first, end - first < GSC_GRADIENT_BLOCK ? end - first : GSC_GRADIENT_BLOCK);
}

/* Any size, any strides. */
static bool count_large(const gsc__view *view, double r, gsc__nonfinite *out)
{
    gsc__layout layout;
    gsc__layout_logical(view->tensor, view->kind, &layout);
    census all = {.layout = &layout, .count = view->count, .r = r};
    atomic_store(&all.first, view->count);
    gsc_parallel_run(gsc__task_split(view->count, &all.elements_per_task), count_task, &all);
    if (all.infs + all.nans == 0)
        return false;
    *out = (gsc__nonfinite){.inf_count = all.infs, .nan_count = all.nans, .first_index = all.first};
    return true;
}

/* Neighbours in memory become one run. Returns how many there are. */
static size_t join(const gsc__run *runs, size_t n, size_t element_size, gsc__run *joined)
{
    size_t count = 0;
    const char *end = NULL;
    for (size_t k = 0; k < n; k++) {
        if (runs[k].count == 0)
            continue;
        if (count > 0 && runs[k].data == end)
            joined[count - 1].count += runs[k].count;
        else
            joined[count++] = runs[k];
        end = (const char *)runs[k].data + runs[k].count * element_size;
    }
    return count;
}

static bool is_small(const gsc__view *view) { return view->dense && view->count < GSC_PARALLEL_MIN; }

/* How many small tensors of one kind come next. */
static size_t small_ones(const gsc__view *views, size_t n)
{
    size_t count = 0;
    while (count < n && is_small(&views[count]) && views[count].kind == views[0].kind)
        count++;
    return count;
}

/* After an overflow in one of thousands, a share in one check is all that most of them need. */
static bool count_small(const gsc__view *views, size_t n, double r, bool expected, gsc__nonfinite *out)
{
    gsc__run runs[GSC_NONFINITE_BATCH], joined[GSC_NONFINITE_BATCH];
    gsc__partial found[GSC_NONFINITE_BATCH];
    const gsc__kernel_table *kernels = gsc__kernels();
    const gsc__kind kind = views[0].kind;
    for (size_t k = 0; k < n; k++)
        runs[k] = (gsc__run){views[k].start, views[k].count};
    if (!expected &&
        kernels->check[kind](joined, join(runs, n, gsc__kind_size(kind), joined), r, NULL) < gsc__kind_infinity(kind))
        return false;
    kernels->count[kind](runs, n, r, found);
    bool any = false;
    for (size_t k = 0; k < n; k++) {
        if (found[k].counts.infs + found[k].counts.nans == 0)
            continue;
        any = true;
        if (gsc__fast_count(views[k].tensor) > 0) /* in row-major order */
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
    if (!tensor || (!gsc__view_fast(tensor, out) && gsc__view_check(tensor, &rules, &subject, out) != GSC_OK))
        *out = (gsc__view){.dense = true};
}

bool gsc__count_nonfinite(const gsc__view *views, size_t n, double r, bool expected, gsc__nonfinite *out)
{
    bool any = false;
    memset(out, 0, n * sizeof *out);
    for (size_t i = 0; i < n;) {
        size_t small = small_ones(views + i, n - i);
        any |= small > 0 ? count_small(views + i, small, r, expected, out + i) : count_large(&views[i], r, &out[i]);
        i += small > 0 ? small : 1;
    }
    return any;
}
