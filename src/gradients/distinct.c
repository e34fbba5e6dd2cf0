/* SPDX-License-Identifier: Apache-2.0 */
/* distinct.c: sorts views by address and compares those whose ranges of addresses intersect. */
#include "gradients/distinct.h"

#include <string.h>

#include "gradients/layout.h"

enum {
    FEW = 32,       /* views that are sorted by insertion */
    DIGIT_BITS = 8, /* the others are sorted by so many bits at a time */
    DIGITS = 1 << DIGIT_BITS
};

uintptr_t gsc__strided_end(const gsc__view *view)
{
    gsc__layout layout;
    gsc__layout_collapse(view->tensor, view->kind, &layout);
    return (uintptr_t)layout.data + (uintptr_t)gsc__layout_span(&layout, layout.ndim);
}

static bool same_layout(const gsc__view *a, const gsc__view *b)
{
    gsc__layout one, other;
    gsc__layout_collapse(a->tensor, a->kind, &one);
    gsc__layout_collapse(b->tensor, b->kind, &other);
    size_t bytes = (size_t)one.ndim * sizeof one.shape[0];
    return one.kind == other.kind && one.ndim == other.ndim && memcmp(one.shape, other.shape, bytes) == 0 &&
           memcmp(one.stride, other.stride, bytes) == 0;
}

bool gsc__view_same_elements(const gsc__view *a, const gsc__view *b)
{
    return a->start == b->start && a->count == b->count && a->kind == b->kind && a->dense == b->dense &&
           (a->dense || same_layout(a, b));
}

/* noinline: dense views would pay for the large stack frame. */
__attribute__((noinline)) static gsc__overlap strided_overlap(const gsc__view *a, const gsc__view *b)
{
    gsc__layout one, other;
    gsc__layout_collapse(a->tensor, a->kind, &one);
    gsc__layout_collapse(b->tensor, b->kind, &other);
    return gsc__pair_overlap(&one, &other);
}

gsc__overlap gsc__view_overlap(const gsc__view *a, const gsc__view *b)
{
    if (!a->dense || !b->dense)
        return strided_overlap(a, b);
    bool apart = gsc__view_end(a) <= (uintptr_t)b->start || gsc__view_end(b) <= (uintptr_t)a->start;
    return apart ? GSC_DISJOINT : GSC_OVERLAPPING;
}

static void sort_few(gsc__address *list, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        gsc__address moved = list[i];
        size_t slot = i;
        for (; slot > 0 && list[slot - 1].address > moved.address; slot--)
            list[slot] = list[slot - 1];
        list[slot] = moved;
    }
}

static void sort_by_digit(const gsc__address *from, gsc__address *to, size_t n, int shift)
{
    size_t next[DIGITS] = {0}, before = 0;
    for (size_t i = 0; i < n; i++)
        next[(from[i].address >> shift) % DIGITS]++;
    for (size_t digit = 0; digit < DIGITS; digit++) {
        size_t count = next[digit];
        next[digit] = before;
        before += count;
    }
    for (size_t i = 0; i < n; i++)
        to[next[(from[i].address >> shift) % DIGITS]++] = from[i];
}

/* By ascending address; equal ones stay in their order. *list and *work may be exchanged. Looks at those bits only in
 * which addresses differ. */
static void sort(gsc__address **list, gsc__address **work, size_t n)
{
    if (n <= FEW) {
        sort_few(*list, n);
        return;
    }
    uintptr_t different = 0;
    for (size_t i = 1; i < n; i++)
        different |= (*list)[i].address ^ (*list)[0].address;
    while (different != 0) {
        int shift = __builtin_ctzll((unsigned long long)different);
        sort_by_digit(*list, *work, n, shift);
        gsc__address *sorted = *work;
        *work = *list;
        *list = sorted;
        different &= ~(((uintptr_t)DIGITS - 1) << shift);
    }
}

static bool descending(const gsc__view *views, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (gsc__view_end(&views[i]) > (uintptr_t)views[i - 1].start)
            return false;
    }
    return true;
}

/* The views that a sweep over ascending addresses has passed, as far as they reach beyond the current address. */
typedef struct passed {
    gsc__address *ends;
    size_t count;
    uintptr_t least_end;
    bool alike; /* all have the layout of the last one */
} passed;

static void drop_ended(passed *p, uintptr_t start)
{
    if (p->count == 0 || p->least_end > start)
        return;
    size_t kept = 0;
    p->least_end = UINTPTR_MAX;
    for (size_t i = 0; i < p->count; i++) {
        if (p->ends[i].address <= start)
            continue;
        p->least_end = p->ends[i].address < p->least_end ? p->ends[i].address : p->least_end;
        p->ends[kept++] = p->ends[i];
    }
    p->count = kept;
    p->alike |= kept == 0;
}

static void add_passed(passed *p, size_t position, uintptr_t end)
{
    p->least_end = p->count == 0 || end < p->least_end ? end : p->least_end;
    p->ends[p->count++] = (gsc__address){end, position};
}

/* Columns of one matrix, and tiles: whether `view` has the layout of `last`, begins behind its first row and ends its
 * own first row before the second one of `first` begins. Then it shares nothing with any view between those two. Saves
 * comparing each column with each. */
static bool in_next_columns(const gsc__view *first, const gsc__view *last, const gsc__view *view)
{
    gsc__layout layout;
    gsc__layout_collapse(view->tensor, view->kind, &layout);
    int outer = layout.ndim - 1;
    uintptr_t row = (uintptr_t)gsc__layout_span(&layout, outer);
    uintptr_t period = (uintptr_t)layout.stride[outer] * gsc__kind_size(view->kind);
    return (uintptr_t)view->start - (uintptr_t)last->start >= row &&
           (uintptr_t)view->start + row - (uintptr_t)first->start <= period;
}

/* Whether a view shares elements with one of those that reach beyond its start; *other is that one. */
static gsc__overlap compare(const gsc__view *views, passed *p, size_t position, size_t *other)
{
    const gsc__view *view = &views[position];
    if (p->count > 0 && p->alike) {
        const gsc__view *last = &views[p->ends[p->count - 1].view];
        p->alike = !view->dense && !last->dense && same_layout(last, view);
        if (p->alike && in_next_columns(&views[p->ends[0].view], last, view))
            return GSC_DISJOINT;
    }
    for (size_t i = 0; i < p->count; i++) {
        gsc__overlap overlap = gsc__view_overlap(&views[p->ends[i].view], view);
        *other = p->ends[i].view;
        if (overlap != GSC_DISJOINT)
            return overlap;
    }
    return GSC_DISJOINT;
}

static gsc__overlap compare_all(const gsc__view *views, const gsc__address *sorted, size_t n, gsc__address *work,
                                size_t pair[2])
{
    passed p = {.ends = work, .alike = true};
    for (size_t i = 0; i < n; i++) {
        size_t position = sorted[i].view;
        if (views[position].count == 0)
            continue;
        drop_ended(&p, sorted[i].address);
        gsc__overlap overlap = compare(views, &p, position, &pair[0]);
        if (overlap != GSC_DISJOINT) {
            pair[1] = position;
            return overlap;
        }
        add_passed(&p, position, gsc__view_end(&views[position]));
    }
    return GSC_DISJOINT;
}

/* Of n views that start at one address, in the order of the list. */
static void drop_repeated(gsc__view *views, const gsc__address *same_start, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        gsc__view *view = &views[same_start[i].view];
        for (size_t j = 0; j < i && view->count > 0; j++) {
            if (gsc__view_same_elements(&views[same_start[j].view], view))
                view->count = 0;
        }
    }
}

static void drop_all_repeated(gsc__view *views, const gsc__address *sorted, size_t n)
{
    for (size_t first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && sorted[end].address == sorted[first].address;)
            end++;
        drop_repeated(views, sorted + first, end - first);
    }
}

gsc__overlap gsc__views_distinct(gsc__view *views, size_t n, bool writes, gsc__address *work, size_t pair[2])
{
    if (descending(views, n))
        return GSC_DISJOINT;
    gsc__address *sorted = work, *rest = work + n;
    for (size_t i = 0; i < n; i++)
        sorted[i] = (gsc__address){(uintptr_t)views[i].start, i};
    sort(&sorted, &rest, n);
    drop_all_repeated(views, sorted, n);
    return writes ? compare_all(views, sorted, n, rest, pair) : GSC_DISJOINT;
}
