/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/gradlist.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/sweep.h"

gsc_status gsc_gradlist_begin(gsc_gradlist *list, size_t n)
{
    list->count = 0;
    if (n <= list->capacity)
        return GSC_OK;
    size_t capacity = 16, bytes_per_tensor = sizeof(gsc_view) + 2 * sizeof(size_t);
    while (capacity < n && capacity <= SIZE_MAX / 2 / bytes_per_tensor)
        capacity *= 2;
    gsc_view *views = capacity < n ? NULL : malloc(capacity * sizeof *views);
    size_t *table = views ? malloc(2 * capacity * sizeof *table) : NULL;
    if (!table) {
        free(views);
        return gsc_fail(GSC_ERR_MEMORY, "out of memory for a list of %zu gradients", n);
    }
    free(list->views);
    free(list->table);
    list->views = views;
    list->table = table;
    list->capacity = capacity;
    return GSC_OK;
}

gsc_status gsc_gradlist_add(gsc_gradlist *list, const DLTensor *tensor, size_t index, const char *name,
                            const gsc_gradlist_rules *rules)
{
    if (!tensor)
        return GSC_OK;
    const gsc_place place = {.caller = rules->caller, .what = "gradient", .listed = true, .index = index, .name = name};
    const gsc_view_rules view_rules = {.writes = rules->writes, .allow_fp16 = rules->allow_fp16};
    gsc_view *view = &list->views[list->count];
    gsc_status status = gsc_view_check(tensor, &view_rules, &place, view);
    if (status == GSC_OK && view->count > 0)
        list->count++;
    return status;
}

static bool same_layout(const gsc_view *a, const gsc_view *b)
{
    if (a->dense)
        return true;
    gsc_layout one, other;
    gsc_layout_collapse(a->tensor, a->kind, &one);
    gsc_layout_collapse(b->tensor, b->kind, &other);
    size_t bytes = (size_t)one.ndim * sizeof one.shape[0];
    return one.ndim == other.ndim && memcmp(one.shape, other.shape, bytes) == 0 &&
           memcmp(one.stride, other.stride, bytes) == 0;
}

static bool same_elements(const gsc_view *a, const gsc_view *b)
{
    return a->start == b->start && a->count == b->count && a->kind == b->kind && a->dense == b->dense &&
           same_layout(a, b);
}

static size_t hash_address(const void *address)
{
    uint64_t bits = (uint64_t)(uintptr_t)address * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
    return (size_t)(bits >> 32);
}

/* Identical views begin at the same element, so ascending addresses prove that there are none. */
static bool starts_ascend(const gsc_gradlist *list)
{
    for (size_t i = 1; i < list->count; i++)
        if (list->views[i - 1].start >= list->views[i].start)
            return false;
    return true;
}

/* Keeps the first of each set of identical views. Open addressing; slots hold a view's position + 1, 0 is free. */
static void drop_duplicates(gsc_gradlist *list)
{
    size_t *table = list->table, mask = 31;
    while (mask + 1 < 2 * list->count)
        mask = 2 * mask + 1;
    memset(table, 0, (mask + 1) * sizeof *table);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        const gsc_view *view = &list->views[i];
        size_t slot = hash_address(view->start) & mask;
        while (table[slot] != 0 && !same_elements(view, &list->views[table[slot] - 1]))
            slot = (slot + 1) & mask;
        if (table[slot] != 0)
            continue;
        list->views[kept++] = *view;
        table[slot] = kept;
    }
    list->count = kept;
}

static gsc_status place_views(gsc_gradlist *list)
{
    size_t elements = 0, blocks = 0;
    for (size_t i = 0; i < list->count; i++) {
        gsc_view *view = &list->views[i];
        view->first_element = elements;
        view->first_block = blocks;
        blocks += gsc_blocks(view->count);
        if (__builtin_add_overflow(elements, view->count, &elements))
            return gsc_fail(GSC_ERR_VALUE, "the gradients have more than 2^64 elements in all");
    }
    return GSC_OK;
}

static gsc_status reserve_sums(gsc_gradlist *list)
{
    size_t blocks = gsc_gradlist_blocks(list);
    if (blocks <= list->sums_capacity)
        return GSC_OK;
    gsc_partial *sums = blocks <= SIZE_MAX / sizeof *sums ? malloc(blocks * sizeof *sums) : NULL;
    if (!sums)
        return gsc_fail(GSC_ERR_MEMORY, "out of memory for the norm of %zu elements", gsc_gradlist_elements(list));
    free(list->sums);
    list->sums = sums;
    list->sums_capacity = blocks;
    return GSC_OK;
}

gsc_status gsc_gradlist_finish(gsc_gradlist *list, bool want_norm)
{
    if (!starts_ascend(list))
        drop_duplicates(list);
    gsc_status status = place_views(list);
    return status == GSC_OK && want_norm ? reserve_sums(list) : status;
}

void gsc_gradlist_free(gsc_gradlist *list)
{
    free(list->views);
    free(list->table);
    free(list->sums);
    *list = (gsc_gradlist){.count = 0};
}

static gsc_finding scan(const gsc_gradlist *list, gsc_kernel *const *kernels, double factor, bool stores)
{
    uint64_t max_bits[GSC_KINDS];
    const gsc_sweep sweep = {
        .list = list, .kernels = kernels, .factor = {factor, factor, factor, factor}, .stores = stores};
    gsc_sweep_run(&sweep, max_bits);
    return gsc_finding_from_bits(max_bits);
}

gsc_finding gsc_gradlist_check(const gsc_gradlist *list, double r)
{
    return scan(list, gsc_kernels()->check, r, false);
}

gsc_finding gsc_gradlist_unscale(const gsc_gradlist *list, double r)
{
    /* A product with 1 would make signalling NaNs quiet. */
    return r == 1.0 ? gsc_gradlist_check(list, r) : scan(list, gsc_kernels()->unscale, r, true);
}

void gsc_gradlist_multiply(const gsc_gradlist *list, double factor) { (void)gsc_gradlist_unscale(list, factor); }
