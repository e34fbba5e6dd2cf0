/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: collecting views, dropping the ones listed twice, refusing those that share elements. */
#include "gradients/list.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/message.h"
#include "base/try.h"
#include "gradients/fast_view.h"
#include "gradients/layout.h"
#include "gradients/runs.h"
#include "gradients/tasks.h"

void gsc__list_init(gsc__list *list)
{
    list->previous_count = list->capacity = list->addresses_capacity = list->sums_capacity = 0;
    list->heap_views = NULL;
    list->heap_runs = NULL;
    list->heap_addresses = NULL;
    list->heap_sums = NULL;
}

/* From here on the list differs from the previous one. */
static void begin_anew(gsc__list *list)
{
    list->previous_count = list->count = list->elements = list->run_count = 0;
    list->matches_previous = false;
    list->plain = list->ascending = true;
    list->end = 0;
}

static gsc_status no_memory(size_t n)
{
    return gsc_fail(GSC_ERR_MEMORY, "out of memory for a list of %zu gradients", n);
}

static gsc_status reserve_views(gsc__list *list, size_t n)
{
    size_t capacity = (size_t)2 * GSC_LIST_INLINE, bytes_per_tensor = sizeof(gsc__view);
    while (capacity < n && capacity <= SIZE_MAX / 2 / bytes_per_tensor)
        capacity *= 2;
    gsc__view *views = capacity < n ? NULL : malloc(capacity * sizeof *views);
    gsc__run *runs = views ? malloc(capacity * sizeof *runs) : NULL;
    if (!runs) {
        free(views);
        return no_memory(n);
    }
    free(list->heap_views);
    free(list->heap_runs);
    list->heap_views = views;
    list->heap_runs = runs;
    list->capacity = capacity;
    list->previous_count = 0; /* the new arrays are empty */
    return GSC_OK;
}

static gsc_status reserve_addresses(gsc__list *list, size_t n)
{
    gsc__address *addresses = malloc(2 * n * sizeof *addresses); /* the views are larger, and they fit */
    if (!addresses)
        return no_memory(n);
    free(list->heap_addresses);
    list->heap_addresses = addresses;
    list->addresses_capacity = 2 * n;
    return GSC_OK;
}

gsc_status gsc__list_begin(gsc__list *list, size_t n)
{
    list->count = 0;
    if (n > GSC_LIST_INLINE && n > list->capacity)
        GSC_TRY(reserve_views(list, n));
    if (n > GSC_LIST_INLINE && 2 * n > list->addresses_capacity)
        GSC_TRY(reserve_addresses(list, n));
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
    list->ascending = list->ascending && (uintptr_t)view->start >= list->end;
    list->end = gsc__view_end(view);
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
    const gsc__view_rules view_rules = {
        .writes = rules->writes, .allow_fp16 = rules->allow_fp16, .served = rules->served};
    gsc__view *view = &list->views[list->count];
    GSC_TRY(gsc__view_check(tensor, &view_rules, &subject, view));
    return view->count > 0 ? append_view(list, rules->api) : GSC_OK;
}

#define SHORT_INDEX(index) ((uint32_t)(index)&0x7fffffffu) /* of more gradients, messages name another one */

/* device: whose compact tensors are checked fast. Always inlined with a constant for the CPU. */
__attribute__((always_inline)) static inline gsc_status add(gsc__list *list, const DLTensor *tensor, size_t index,
                                                            const gsc__list_rules *rules, DLDevice device)
{
    if (!tensor)
        return GSC_OK;
    gsc__view *view = &list->views[list->count];
    if (list->matches_previous) {
        if (list->count < list->previous_count && view->index == SHORT_INDEX(index) &&
            gsc__view_unchanged(view, tensor, device)) {
            list->count++;
            return GSC_OK;
        }
        recount(list);
    }
    view->index = SHORT_INDEX(index);
    if (gsc__view_fast(tensor, device, view))
        return append_view(list, rules->api);
    return add_checked(list, tensor, index, NULL, rules);
}

gsc_status gsc__list_add(gsc__list *list, const DLTensor *tensor, size_t index, const gsc__list_rules *rules)
{
    return add(list, tensor, index, rules, rules->served ? rules->served->device : GSC_ON_CPU);
}

gsc_status gsc__list_tensor_failed(const gsc__list_source *source, size_t index, const char *api, bool has_message)
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

__attribute__((always_inline)) static inline gsc_status
add_each(gsc__list *list, size_t n, const gsc__list_source *source, const gsc__list_rules *rules, DLDevice device)
{
    uint64_t messages = gsc__message_count();
    for (size_t i = 0; i < n; i++) {
        const DLTensor *tensor = source->tensor(source->self, i);
        if (tensor && tensor == source->failed)
            return gsc__list_tensor_failed(source, i, rules->api, gsc__message_count() != messages);
        if (add(list, tensor, i, rules, device) == GSC_OK)
            continue;
        /* Fails again, now with the name in the message. */
        const char *name = source->name ? source->name(source->self, i) : NULL;
        return add_checked(list, tensor, i, name, rules);
    }
    return GSC_OK;
}

gsc_status gsc__list_add_each(gsc__list *list, size_t n, const gsc__list_source *source, const gsc__list_rules *rules)
{
    if (rules->served)
        return add_each(list, n, source, rules, rules->served->device);
    return add_each(list, n, source, rules, GSC_ON_CPU);
}

static gsc__gradient_text describe(const gsc__list *list, size_t view, const gsc__list_source *source)
{
    size_t index = list->views[view].index;
    return gsc__describe_gradient(index, source && source->name ? source->name(source->self, index) : NULL);
}

__attribute__((cold, noinline)) static gsc_status refuse_pair(const gsc__list *list, const size_t pair[2],
                                                              gsc__overlap overlap, const gsc__list_source *source,
                                                              const gsc__list_rules *rules)
{
    bool swapped = list->views[pair[0]].index > list->views[pair[1]].index;
    gsc__gradient_text first = describe(list, pair[swapped], source), second = describe(list, pair[!swapped], source);
    return gsc_fail(GSC_ERR_VALUE, "%s: %s and %s %s; pass each element once, or the same view twice", rules->api,
                    first.text, second.text,
                    overlap == GSC_OVERLAPPING ? "share memory, which would be written twice"
                                               : "are interleaved too irregularly to tell whether they share memory");
}

/* Keeps the first of each set of identical views. */
static gsc_status make_distinct(gsc__list *list, const gsc__list_source *source, const gsc__list_rules *rules)
{
    gsc__address inline_addresses[2 * GSC_LIST_INLINE];
    gsc__address *work = list->heap_addresses ? list->heap_addresses : inline_addresses;
    size_t pair[2];
    gsc__overlap overlap = gsc__views_distinct(list->views, list->count, rules->writes, work, pair);
    if (overlap != GSC_DISJOINT)
        return refuse_pair(list, pair, overlap, source, rules);
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (list->views[i].count > 0)
            list->views[kept++] = list->views[i];
    }
    if (kept < list->count) {
        list->count = kept;
        recount(list);
    }
    return GSC_OK;
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

/* Views that ascend without touching one another need no comparison, nor do those of the previous list. */
gsc_status gsc__list_finish(gsc__list *list, const gsc__list_source *source, const gsc__list_rules *rules,
                            bool want_norm)
{
    if (list->matches_previous && list->count < list->previous_count)
        recount(list);
    if (!list->matches_previous && !list->ascending && !rules->distinct)
        GSC_TRY(make_distinct(list, source, rules));
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
    free(list->heap_addresses);
    free(list->heap_sums);
    gsc__list_init(list);
    list->count = 0;
}
