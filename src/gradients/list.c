/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: collecting views, dropping the ones listed twice. */
#include "gradients/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/message.h"
#include "base/try.h"
#include "gradients/fast_view.h"
#include "gradients/layout.h"
#include "gradients/runs.h"
#include "gradients/tasks.h"

void gsc__list_init(gsc__list *list)
{
    list->previous_count = list->capacity = list->sums_capacity = 0;
    list->heap_views = NULL;
    list->heap_runs = NULL;
    list->table = NULL;
    list->heap_sums = NULL;
}

/* From here on the list differs from the previous one. */
static void begin_anew(gsc__list *list)
{
    list->previous_count = list->count = list->elements = list->run_count = 0;
    list->matches_previous = false;
    list->plain = list->ascending = true;
}

static gsc_status reserve_views(gsc__list *list, size_t n)
{
    size_t capacity = (size_t)2 * GSC_LIST_INLINE, bytes_per_tensor = sizeof(gsc__view);
    while (capacity < n && capacity <= SIZE_MAX / 2 / bytes_per_tensor)
        capacity *= 2;
    gsc__view *views = capacity < n ? NULL : malloc(capacity * sizeof *views);
    gsc__run *runs = views ? malloc(capacity * sizeof *runs) : NULL;
    size_t *table = runs ? malloc(2 * capacity * sizeof *table) : NULL;
    if (!table) {
        free(views);
        free(runs);
        return gsc_fail(GSC_ERR_MEMORY, "out of memory for a list of %zu gradients", n);
    }
    free(list->heap_views);
    free(list->heap_runs);
    free(list->table);
    list->heap_views = views;
    list->heap_runs = runs;
    list->table = table;
    list->capacity = capacity;
    list->previous_count = 0; /* the new arrays are empty */
    return GSC_OK;
}

gsc_status gsc__list_begin(gsc__list *list, size_t n)
{
    list->count = 0;
    if (n > GSC_LIST_INLINE && n > list->capacity)
        GSC_TRY(reserve_views(list, n));
    list->views = list->heap_views ? list->heap_views : list->inline_views;
    list->runs = list->heap_views ? list->heap_runs : list->inline_runs;
    list->matches_previous = list->previous_count > 0;
    if (!list->matches_previous)
        begin_anew(list);
    return GSC_OK;
}

/* Counts in the view that stands at list->views[list->count]. */
static inline gsc_status append_view(gsc__list *list, const char *api)
{
    gsc__view *view = &list->views[list->count];
    size_t elements;
    if (__builtin_add_overflow(list->elements, view->count, &elements))
        return gsc_fail(GSC_ERR_VALUE, "%s: the gradients have more than 2^64 elements in all", api);
    view->first_element = list->elements;
    list->elements = elements;
    list->plain = list->plain && view->dense && view->kind == list->views[0].kind;
    list->ascending = list->ascending && (list->count == 0 || view[-1].start < view->start);
    list->run_count =
        gsc__runs_append(list->runs, list->run_count, view->start, view->count, gsc__kind_size(view->kind));
    list->count++;
    return GSC_OK;
}

/* The list keeps only its first `count` views: recomputes totals and runs from those. */
__attribute__((noinline)) static void recount(gsc__list *list)
{
    size_t count = list->count;
    begin_anew(list);
    while (list->count < count)
        (void)append_view(list, ""); /* a subset of views whose elements were counted without overflow */
}

__attribute__((noinline)) static gsc_status add_checked(gsc__list *list, const DLTensor *tensor, size_t index,
                                                        const char *name, const gsc__list_rules *rules)
{
    const gsc__message_subject subject = {
        .api = rules->api, .what = "gradient", .listed = true, .index = index, .name = name};
    const gsc__view_rules view_rules = {.writes = rules->writes, .allow_fp16 = rules->allow_fp16};
    gsc__view *view = &list->views[list->count];
    GSC_TRY(gsc__view_check(tensor, &view_rules, &subject, view));
    return view->count > 0 ? append_view(list, rules->api) : GSC_OK;
}

static inline gsc_status add(gsc__list *list, const DLTensor *tensor, size_t index, const gsc__list_rules *rules)
{
    if (!tensor)
        return GSC_OK;
    gsc__view *view = &list->views[list->count];
    if (list->matches_previous) {
        if (list->count < list->previous_count && gsc__view_unchanged(view, tensor)) {
            list->count++;
            return GSC_OK;
        }
        recount(list);
    }
    if (gsc__view_fast(tensor, view))
        return append_view(list, rules->api);
    return add_checked(list, tensor, index, NULL, rules);
}

gsc_status gsc__list_add(gsc__list *list, const DLTensor *tensor, size_t index, const gsc__list_rules *rules)
{
    return add(list, tensor, index, rules);
}

/* The message ends in the source's own. */
static gsc_status tensor_failed(const gsc__list_source *source, size_t index, const char *api, bool has_message)
{
    char reason[GSC_MESSAGE_SIZE], text[GSC_MESSAGE_SIZE];
    snprintf(reason, sizeof reason, "%s", has_message ? gsc_last_error() : "it left no message (gsc_fail)");
    const gsc__message_subject subject = {.api = api,
                                          .what = "gradient",
                                          .listed = true,
                                          .index = index,
                                          .name = source->name ? source->name(source->self, index) : NULL};
    return gsc_fail(GSC_ERR_OPTIMIZER, "%s: the optimizer's grad failed: %s",
                    gsc__message_subject_text(&subject, text, sizeof text), reason);
}

gsc_status gsc__list_add_each(gsc__list *list, size_t n, const gsc__list_source *source, const gsc__list_rules *rules)
{
    uint64_t messages = gsc__message_count();
    for (size_t i = 0; i < n; i++) {
        const DLTensor *tensor = source->tensor(source->self, i);
        if (tensor && tensor == source->failed)
            return tensor_failed(source, i, rules->api, gsc__message_count() != messages);
        if (add(list, tensor, i, rules) == GSC_OK)
            continue;
        /* Fails again, now with the name in the message. */
        const char *name = source->name ? source->name(source->self, i) : NULL;
        return add_checked(list, tensor, i, name, rules);
    }
    return GSC_OK;
}

static bool same_layout(const gsc__view *a, const gsc__view *b)
{
    if (a->dense)
        return true;
    gsc__layout one, other;
    gsc__layout_collapse(a->tensor, a->kind, &one);
    gsc__layout_collapse(b->tensor, b->kind, &other);
    size_t bytes = (size_t)one.ndim * sizeof one.shape[0];
    return one.ndim == other.ndim && memcmp(one.shape, other.shape, bytes) == 0 &&
           memcmp(one.stride, other.stride, bytes) == 0;
}

static bool same_elements(const gsc__view *a, const gsc__view *b)
{
    return a->start == b->start && a->count == b->count && a->kind == b->kind && a->dense == b->dense &&
           same_layout(a, b);
}

static size_t hash_address(const void *address)
{
    uint64_t bits = (uint64_t)(uintptr_t)address * 0x9e3779b97f4a7c15u; /* 2^64 / golden ratio */
    return (size_t)(bits >> 32);
}

/* Keeps the first of each set of identical views. Open addressing; slots hold a view's position + 1, 0 is free. */
static void drop_duplicates(gsc__list *list)
{
    size_t inline_table[2 * GSC_LIST_INLINE], *table = list->table ? list->table : inline_table;
    size_t mask = 2 * GSC_LIST_INLINE - 1;
    while (mask + 1 < 2 * list->count)
        mask = 2 * mask + 1;
    memset(table, 0, (mask + 1) * sizeof *table);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        const gsc__view *view = &list->views[i];
        size_t slot = hash_address(view->start) & mask;
        while (table[slot] != 0 && !same_elements(view, &list->views[table[slot] - 1]))
            slot = (slot + 1) & mask;
        if (table[slot] != 0)
            continue;
        list->views[kept++] = *view;
        table[slot] = kept;
    }
    if (kept == list->count)
        return;
    list->count = kept;
    recount(list);
}

static void place_blocks(gsc__list *list)
{
    list->blocks = 0;
    for (size_t i = 0; i < list->count; i++) {
        list->views[i].first_block = list->blocks;
        list->blocks += gsc__gradient_blocks(list->views[i].count);
    }
}

static gsc_status reserve_sums(gsc__list *list)
{
    size_t blocks = list->blocks;
    if (blocks > GSC_LIST_INLINE && blocks > list->sums_capacity) {
        gsc__partial *sums = blocks <= SIZE_MAX / sizeof *sums ? malloc(blocks * sizeof *sums) : NULL;
        if (!sums)
            return gsc_fail(GSC_ERR_MEMORY, "out of memory for the norm of %zu elements", list->elements);
        free(list->heap_sums);
        list->heap_sums = sums;
        list->sums_capacity = blocks;
    }
    list->sums = list->heap_sums ? list->heap_sums : list->inline_sums;
    return GSC_OK;
}

/* Views that begin at ascending addresses differ: only others need the hash table. */
gsc_status gsc__list_finish(gsc__list *list, bool want_norm)
{
    if (list->matches_previous && list->count < list->previous_count)
        recount(list);
    if (!list->matches_previous && !list->ascending)
        drop_duplicates(list);
    list->previous_count = list->count;
    if (!want_norm)
        return GSC_OK;
    place_blocks(list);
    return reserve_sums(list);
}

void gsc__list_free(gsc__list *list)
{
    free(list->heap_views);
    free(list->heap_runs);
    free(list->table);
    free(list->heap_sums);
    gsc__list_init(list);
    list->count = 0;
}
