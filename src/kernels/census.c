/* SPDX-License-Identifier: Apache-2.0 */
/* census.c: which elements of one tensor are not finite, in row-major order: what a report says after an overflow. */
#include <stdatomic.h>

#include "kernels/sweep.h"

typedef struct census {
    const gsc_layout *layout; /* logical */
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

/* The elements are known to hold one that is not finite. */
static uint64_t first_in(gsc_kind kind, void *data, size_t count, double r)
{
    size_t size = gsc_kind_size(kind), low = 0;
    gsc_kernel *check = gsc_kernels()->check[kind];
    while (count > 1) {
        const gsc_run lower = {(char *)data + low * size, count / 2};
        if (check(&lower, 1, r, NULL) >= gsc_kind_infinity(kind)) {
            count = lower.count;
        } else {
            low += lower.count;
            count -= lower.count;
        }
    }
    return low;
}

static void count_block(census *all, size_t first, size_t count)
{
    _Alignas(64) unsigned char packed[GSC_BLOCK * sizeof(double)];
    const gsc_layout *layout = all->layout;
    gsc_run run = {layout->data + first * gsc_kind_size(layout->kind), count};
    if (layout->ndim > 1 || layout->stride[0] != 1) {
        gsc_layout_pack(layout, first, count, packed);
        run.data = packed;
    }
    gsc_partial found;
    gsc_kernels()->count[layout->kind](&run, 1, all->r, &found);
    if (found.counts.infs + found.counts.nans == 0)
        return;
    atomic_fetch_add(&all->infs, found.counts.infs);
    atomic_fetch_add(&all->nans, found.counts.nans);
    if (first < atomic_load(&all->first))
        keep_least(&all->first, first + first_in(layout->kind, run.data, count, all->r));
}

static void count_task(void *ctx, size_t index)
{
    census *all = ctx;
    size_t first = index * all->elements_per_task;
    size_t end = all->count - first > all->elements_per_task ? first + all->elements_per_task : all->count;
    for (; first < end; first += GSC_BLOCK)
        count_block(all, first, end - first < GSC_BLOCK ? end - first : GSC_BLOCK);
}

/* After an overflow in one of thousands of small tensors, most of them need no more than this. */
static bool is_small_and_finite(const gsc_view *view, double r)
{
    const gsc_run run = {view->start, view->count};
    return view->dense && view->count < 2 * (size_t)GSC_TASK_LEAST &&
           gsc_kernels()->check[view->kind](&run, 1, r, NULL) < gsc_kind_infinity(view->kind);
}

static bool get_view(const DLTensor *tensor, gsc_view *view)
{
    const gsc_view_rules rules = {.writes = false, .allow_fp16 = true};
    const gsc_place place = {.caller = "gsc_tensor_census", .what = "tensor"};
    return gsc_view_usual(tensor, view) || gsc_view_check(tensor, &rules, &place, view) == GSC_OK;
}

bool gsc_tensor_census(const DLTensor *tensor, double r, gsc_census *out)
{
    *out = (gsc_census){.inf_count = 0};
    gsc_view view;
    if (!tensor || !get_view(tensor, &view) || view.count == 0 || is_small_and_finite(&view, r))
        return false;
    gsc_layout layout;
    gsc_layout_logical(tensor, view.kind, &layout);
    census all = {.layout = &layout, .count = view.count, .r = r};
    atomic_store(&all.first, UINT64_MAX);
    gsc_parallel_run(gsc_task_split(view.count, &all.elements_per_task), count_task, &all);
    *out = (gsc_census){.inf_count = all.infs, .nan_count = all.nans, .first_index = all.first};
    if (all.infs + all.nans == 0)
        out->first_index = 0;
    return all.infs + all.nans > 0;
}
