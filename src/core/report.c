/* SPDX-License-Identifier: Apache-2.0 */
/* report.c: which gradients overflowed. Costs nothing while all are finite; memory is taken when an optimizer is first
 * seen at a size, so that an overflow allocates nothing either. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/internal.h"
#include "gradients/nonfinite.h"

/* Copies of names. Callers may hold pointers into a block until the next overflow, so one that is in use is freed only
 * then. */
struct gsc__names {
    struct gsc__names *next;
    size_t capacity, used;
    char text[];
};

static size_t names_size(gsc_scaler *scaler, const gsc_optimizer *optimizer, size_t grads)
{
    if (!optimizer->name)
        return 0;
    size_t size = 0;
    gsc__callback_begin(scaler);
    for (size_t i = 0; i < grads; i++) {
        const char *name = optimizer->name(optimizer->self, i);
        size += name ? strlen(name) + 1 : 0;
    }
    gsc__callback_end(scaler);
    return size;
}

static struct gsc__names *new_names(size_t capacity)
{
    struct gsc__names *names = malloc(sizeof *names + capacity);
    if (names)
        *names = (struct gsc__names){.capacity = capacity};
    return names;
}

static gsc_status no_memory(size_t grads)
{
    return gsc_fail(GSC_ERR_MEMORY, "no memory for an overflow report on %zu gradients", grads);
}

gsc_status gsc__report_reserve(gsc_scaler *scaler, gsc__record *record, size_t grads)
{
    gsc__report *report = &record->report;
    if (grads <= report->capacity)
        return GSC_OK;
    gsc_overflow *entries =
        grads <= SIZE_MAX / sizeof *entries ? realloc(report->entries, grads * sizeof *entries) : NULL;
    if (!entries)
        return no_memory(grads);
    report->entries = entries;
    size_t size = names_size(scaler, record->optimizer, grads);
    if (size > 0) {
        struct gsc__names *names = new_names(size);
        if (!names)
            return no_memory(grads);
        free(report->spare);
        report->spare = names;
    }
    report->capacity = grads;
    return GSC_OK;
}

static void free_names(struct gsc__names *names)
{
    while (names) {
        struct gsc__names *next = names->next;
        free(names);
        names = next;
    }
}

static void report_clear(gsc_scaler *scaler, gsc__report *report)
{
    report->count = 0;
    if (report->spare) {
        free_names(report->names);
        report->names = report->spare;
        report->spare = NULL;
    }
    if (report->names) {
        free_names(report->names->next);
        report->names->next = NULL;
        report->names->used = 0;
    }
    free_names(scaler->forgotten_names);
    scaler->forgotten_names = NULL;
}

void gsc__report_forget(gsc_scaler *scaler, gsc__report *report)
{
    struct gsc__names **last = &scaler->forgotten_names;
    while (*last)
        last = &(*last)->next;
    *last = report->names;
    free(report->spare);
    free(report->entries);
    *report = (gsc__report){0};
}

void gsc__reports_free(gsc_scaler *scaler) { free_names(scaler->forgotten_names); }

/* Names that have become longer than they were when the optimizer was first seen take a larger block. */
static struct gsc__names *room_for(gsc__report *report, size_t size)
{
    struct gsc__names *names = report->names;
    if (names && size <= names->capacity - names->used)
        return names;
    struct gsc__names *larger = new_names(size + (names ? 2 * names->capacity : 0));
    if (!larger)
        return NULL;
    larger->next = names;
    report->names = larger;
    return larger;
}

/* Returns the copy; NULL without a name, or without memory for it: the report itself matters more. */
static const char *keep_name(gsc__report *report, const char *name)
{
    size_t size = name ? strlen(name) + 1 : 0;
    struct gsc__names *names = name ? room_for(report, size) : NULL;
    if (!names)
        return NULL;
    char *copy = memcpy(names->text + names->used, name, size);
    names->used += size;
    return copy;
}

/* Returns the views of gradients [first, first + count): those of the check's list where it holds every gradient once,
 * else new ones in `views`. */
static const gsc__view *view_gradients(gsc_scaler *scaler, const gsc__record *record, size_t first, size_t count,
                                       gsc__view *views)
{
    if (scaler->list.count == record->grad_count)
        return scaler->list.views + first;
    const gsc_optimizer *optimizer = record->optimizer;
    gsc__callback_begin(scaler);
    for (size_t i = 0; i < count; i++)
        gsc__nonfinite_view(optimizer->grad(optimizer->self, first + i), &views[i]);
    gsc__callback_end(scaler);
    return views;
}

static void add_entries(gsc_scaler *scaler, gsc__record *record, size_t first, size_t count,
                        const gsc__nonfinite *found)
{
    const gsc_optimizer *optimizer = record->optimizer;
    gsc__report *report = &record->report;
    gsc__callback_begin(scaler);
    for (size_t i = 0; i < count; i++) {
        if (found[i].inf_count + found[i].nan_count == 0)
            continue;
        const char *name = optimizer->name ? optimizer->name(optimizer->self, first + i) : NULL;
        report->entries[report->count++] = (gsc_overflow){.index = first + i,
                                                          .name = keep_name(report, name),
                                                          .inf_count = found[i].inf_count,
                                                          .nan_count = found[i].nan_count,
                                                          .first_index = found[i].first_index};
    }
    gsc__callback_end(scaler);
}

/* In batches, since each entry into the environment costs as much as a small gradient. */
static void read_gradients(gsc_scaler *scaler, gsc__record *record, double r)
{
    gsc__view new_views[GSC_NONFINITE_BATCH];
    gsc__nonfinite found[GSC_NONFINITE_BATCH];
    bool any = false; /* in the batch before; if so, the next one probably has more */
    for (size_t first = 0; first < record->grad_count; first += GSC_NONFINITE_BATCH) {
        size_t left = record->grad_count - first, count = left < GSC_NONFINITE_BATCH ? left : GSC_NONFINITE_BATCH;
        const gsc__view *views = view_gradients(scaler, record, first, count, new_views);
        gsc__env_enter(scaler);
        any = gsc__count_nonfinite(views, count, r, any, found);
        if (any)
            add_entries(scaler, record, first, count, found);
    }
}

static void add_words(gsc_scaler *scaler, const char *words)
{
    size_t length = strlen(scaler->overflow_text);
    if (length > 0)
        length += (size_t)snprintf(scaler->overflow_text + length, sizeof scaler->overflow_text - length, ", ");
    if (length < sizeof scaler->overflow_text)
        snprintf(scaler->overflow_text + length, sizeof scaler->overflow_text - length, "%s", words);
}

/* GSC_ERR_DIVERGED names the gradients at update. The optimizer may be forgotten by then, so its message is made now.
 */
static void describe(gsc_scaler *scaler, const gsc__report *report)
{
    enum { NAMED = 3, LONGEST = 80 };
    char words[LONGEST + 32];
    for (size_t i = 0; i < report->count && i < NAMED; i++) {
        const gsc_overflow *entry = &report->entries[i];
        const char *what = entry->nan_count == 0 ? "inf" : entry->inf_count == 0 ? "NaN" : "inf and NaN";
        if (entry->name)
            snprintf(words, sizeof words, "\"%.*s\" (%s)", LONGEST, entry->name, what);
        else
            snprintf(words, sizeof words, "gradient %zu (%s)", entry->index, what);
        add_words(scaler, words);
    }
    if (report->count > NAMED) {
        snprintf(words, sizeof words, "%zu more", report->count - NAMED);
        add_words(scaler, words);
    }
}

void gsc__report_overflow(gsc_scaler *scaler, gsc__record *record, double r, gsc__overflow_source source)
{
    report_clear(scaler, &record->report);
    if (source == GSC_OVERFLOW_HERE) {
        read_gradients(scaler, record, r);
        describe(scaler, &record->report);
    } else {
        add_words(scaler, source == GSC_OVERFLOW_RECORDED ? "gradients that the caller checked (inf or NaN)"
                                                          : "gradients of another rank (inf or NaN)");
    }
    gsc__emit(scaler, GSC_EVENT_OVERFLOW, scaler->stats.updates, record->optimizer);
}
