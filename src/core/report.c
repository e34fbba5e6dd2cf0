/* SPDX-License-Identifier: Apache-2.0 */
/* report.c: which gradients overflowed. Costs nothing while all are finite. Its memory is reserved when an optimizer is
 * first seen with so many gradients, so that an overflow allocates nothing either. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/internal.h"
#include "gradients/nonfinite.h"

/* Copies of names. Callers may hold pointers to them until the next overflow; so a block that is no longer needed is
 * retired, and freed only then. */
struct gsc__names {
    struct gsc__names *next_retired;
    size_t capacity, used;
    char text[];
};

static void retire_names(gsc_scaler *scaler, struct gsc__names *names)
{
    if (!names)
        return;
    names->next_retired = scaler->retired_names;
    scaler->retired_names = names;
}

void gsc__retired_names_free(gsc_scaler *scaler)
{
    struct gsc__names *names = scaler->retired_names;
    scaler->retired_names = NULL;
    while (names) {
        struct gsc__names *next = names->next_retired;
        free(names);
        names = next;
    }
}

/* Moves the names to a larger block; false: there is no memory for it. */
static bool grow_names(gsc_scaler *scaler, gsc__report *report, size_t capacity)
{
    struct gsc__names *old = report->names, *names = malloc(sizeof *names + capacity);
    if (!names)
        return false;
    *names = (struct gsc__names){.capacity = capacity, .used = old ? old->used : 0};
    if (old)
        memcpy(names->text, old->text, old->used);
    for (size_t i = 0; i < report->count; i++) {
        const char **name = &report->entries[i].name;
        *name = *name ? names->text + (*name - old->text) : NULL;
    }
    report->names = names;
    retire_names(scaler, old);
    return true;
}

/* Without memory for a name there is none: the report itself matters more. */
const char *gsc__report_keep_name(gsc_scaler *scaler, gsc__report *report, const char *name)
{
    if (!name)
        return NULL;
    size_t size = strlen(name) + 1, used = report->names ? report->names->used : 0;
    if (!report->names || size > report->names->capacity - used) /* it was shorter when gsc__report_reserve asked */
        if (!grow_names(scaler, report, 2 * (used + size)))
            return NULL;
    report->names->used += size;
    return memcpy(report->names->text + used, name, size);
}

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
    if (size > (report->names ? report->names->capacity : 0) && !grow_names(scaler, report, size))
        return no_memory(grads);
    report->capacity = grads;
    return GSC_OK;
}

void gsc__report_free(gsc_scaler *scaler, gsc__report *report)
{
    if (report->count > 0)
        retire_names(scaler, report->names);
    else
        free(report->names); /* nobody has been given one */
    free(report->entries);
    *report = (gsc__report){0};
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
    for (size_t i = 0; i < count; i++) {
        const DLTensor *grad = optimizer->grad(optimizer->self, first + i);
        gsc__nonfinite_view(grad == GSC_GRAD_FAILED ? NULL : grad, &views[i]);
    }
    gsc__callback_end(scaler);
    return views;
}

/* The entries of the overflow before this one stand at the end of the array, in the order of their indices, while the
 * new ones are written from its beginning on. They do not reach one another: those left are of gradients that are yet
 * to come, and the new ones of gradients before. */
static void set_previous_aside(gsc__report *report, bool in_a_row)
{
    size_t kept = in_a_row ? report->count : 0;
    report->previous = report->capacity - kept;
    if (kept > 0)
        memmove(report->entries + report->previous, report->entries, kept * sizeof *report->entries);
}

/* How often in a row this gradient has overflowed in just this way. */
static uint64_t count_repeats(gsc__report *report, size_t index, const gsc__nonfinite *found)
{
    while (report->previous < report->capacity && report->entries[report->previous].index < index)
        report->previous++;
    if (report->previous == report->capacity)
        return 1;
    const gsc_overflow *before = &report->entries[report->previous];
    bool same = before->index == index && before->inf_count == found->inf_count &&
                before->nan_count == found->nan_count && before->first_index == found->first_index;
    return same ? before->repeats + 1 : 1;
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
        const char *copy =
            gsc__report_keep_name(scaler, report, name); /* may move the names of the entries before this one */
        uint64_t repeats = count_repeats(report, first + i, &found[i]);
        report->entries[report->count++] = (gsc_overflow){.index = first + i,
                                                          .name = copy,
                                                          .inf_count = found[i].inf_count,
                                                          .nan_count = found[i].nan_count,
                                                          .first_index = found[i].first_index,
                                                          .repeats = repeats};
        scaler->pending.repeats = repeats > scaler->pending.repeats ? repeats : scaler->pending.repeats;
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

static void describe_entries(gsc_scaler *scaler, const gsc__report *report)
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

/* GSC_ERR_DIVERGED names the gradients at update. The optimizer may be forgotten by then, so its message is made now.
 */
void gsc__report_describe(gsc_scaler *scaler, const gsc__report *report, gsc__overflow_source source)
{
    static const char *const words[] = {
        [GSC_OVERFLOW_ELSEWHERE] = "gradients of another rank (inf or NaN)",
        [GSC_OVERFLOW_RECORDED] = "gradients that the caller checked (inf or NaN)",
        [GSC_OVERFLOW_FORGOTTEN] = "gradients of an optimizer that was forgotten (inf or NaN)",
    };
    if (source == GSC_OVERFLOW_HERE)
        describe_entries(scaler, report);
    else
        add_words(scaler, words[source]);
}

void gsc__report_begin(gsc_scaler *scaler, gsc__report *report)
{
    gsc__retired_names_free(scaler);
    report->count = 0;
    if (report->names)
        report->names->used = 0;
}

void gsc__report_overflow(gsc_scaler *scaler, gsc__record *record, double r, gsc__overflow_source source)
{
    gsc__report *report = &record->report;
    set_previous_aside(report, report->check + 1 == record->check); /* no check in between found none */
    gsc__report_begin(scaler, report);
    report->check = record->check;
    if (source == GSC_OVERFLOW_HERE)
        read_gradients(scaler, record, r);
    gsc__report_describe(scaler, report, source);
    gsc__emit(scaler, GSC_EVENT_OVERFLOW, scaler->stats.updates, record, record->scale);
}
