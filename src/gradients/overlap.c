/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.c: tests that decide every layout made by slicing, transposing, reversing or taking diagonals. */
#include "gradients/overlap.h"

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Each dimension begins past the end of the ones inside it. */
static bool nested(const gsc__layout *layout)
{
    int64_t end = 1;
    for (int d = 0; d < layout->ndim; d++) {
        if (layout->shape[d] > 1 && layout->stride[d] < end)
            return false;
        end += (layout->shape[d] - 1) * layout->stride[d];
    }
    return true;
}

/* Steps in the two dimensions reach the same element where i * inner stride = j * outer stride. The least such i and j
 * are the strides without their greatest common divisor; both dimensions must be long enough for them. */
static bool dimensions_overlap(const gsc__layout *layout, int inner, int outer)
{
    int64_t divisor = greatest_common_divisor(layout->stride[inner], layout->stride[outer]);
    return layout->stride[outer] / divisor < layout->shape[inner] &&
           layout->stride[inner] / divisor < layout->shape[outer];
}

gsc__overlap gsc__self_overlap(const gsc__layout *collapsed)
{
    if (nested(collapsed))
        return GSC_DISJOINT;
    if (collapsed->ndim == 1)
        return GSC_OVERLAPPING; /* its stride is 0 */
    for (int outer = 1; outer < collapsed->ndim; outer++)
        for (int inner = 0; inner < outer; inner++)
            if (dimensions_overlap(collapsed, inner, outer))
                return GSC_OVERLAPPING;
    return collapsed->ndim == 2 ? GSC_DISJOINT : GSC_UNDECIDED;
}

/* One unknown of the equation below: an integer from low to high, times stride. */
typedef struct term {
    int64_t stride, low, high;
} term;

/* Two tensors share a byte where the sum of all terms equals `distance`. */
typedef struct equation {
    int64_t distance;                      /* bytes from a's first element to b's */
    int count;                             /* of terms; strides ascend */
    int budget;                            /* values left to try */
    term terms[2 * GSC_MAX_NDIM + 1];      /* the first one counts bytes within an element */
    int64_t divisor[2 * GSC_MAX_NDIM + 1]; /* greatest common divisor of the strides of terms 1 to this one */
    int64_t low[2 * GSC_MAX_NDIM + 1], high[2 * GSC_MAX_NDIM + 1]; /* of the sum of the terms before this one */
} equation;

static bool merge_into(term *finer, const term *coarser)
{
    int64_t ratio = coarser->stride / finer->stride;
    if (coarser->stride % finer->stride != 0 || finer->high - finer->low + 1 < ratio)
        return false;
    finer->low += ratio * coarser->low;
    finer->high += ratio * coarser->high;
    return true;
}

/* Strides come in ascending order. A term that reaches as far as the next multiple of its stride takes that one in:
 * rows and columns of one matrix become few terms, whose equation takes few trials. */
static void add_term(equation *e, term added)
{
    for (int t = e->count - 1; t >= 0; t--) {
        if (merge_into(&e->terms[t], &added))
            return;
    }
    e->terms[e->count++] = added;
}

static void add_dimensions(equation *e, const gsc__layout *a, const gsc__layout *b)
{
    int64_t a_size = (int64_t)gsc__kind_size(a->kind), b_size = (int64_t)gsc__kind_size(b->kind);
    for (int i = 0, j = 0; i < a->ndim || j < b->ndim;) {
        int64_t a_stride = i < a->ndim ? a->stride[i] * a_size : INT64_MAX;
        int64_t b_stride = j < b->ndim ? b->stride[j] * b_size : INT64_MAX;
        term added = {.stride = a_stride < b_stride ? a_stride : b_stride};
        if (a_stride <= b_stride)
            added.high = a->shape[i++] - 1;
        else
            added.low = -(b->shape[j++] - 1);
        if (added.stride > 0) /* a stride of 0 reaches nothing new */
            add_term(e, added);
    }
}

static void sum_up(equation *e)
{
    e->low[0] = e->high[0] = e->divisor[0] = 0;
    for (int t = 1; t < e->count; t++) {
        const term *before = &e->terms[t - 1];
        e->divisor[t] = greatest_common_divisor(e->terms[t].stride, e->divisor[t - 1]);
        e->low[t] = e->low[t - 1] + before->low * before->stride;
        e->high[t] = e->high[t - 1] + before->high * before->stride;
    }
}

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

/* Whether some multiple of what divides terms 1 to `last` is near enough to `rest` for term 0. */
static bool divisible(const equation *e, int last, int64_t rest)
{
    int64_t least = rest - e->terms[0].high, most = rest - e->terms[0].low, divisor = e->divisor[last];
    return floor_divide(most, divisor) * divisor >= least;
}

/* Whether terms 0 to `last` can sum up to rest. Tries the few values of the last term that the others can make up for.
 */
static gsc__overlap solve(equation *e, int last, int64_t rest)
{
    const term *t = &e->terms[last];
    if (last == 0)
        return rest >= t->low && rest <= t->high ? GSC_OVERLAPPING : GSC_DISJOINT;
    if (!divisible(e, last, rest))
        return GSC_DISJOINT;
    int64_t first = -floor_divide(-(rest - e->high[last]), t->stride),
            end = floor_divide(rest - e->low[last], t->stride);
    first = first > t->low ? first : t->low;
    end = end < t->high ? end : t->high;
    for (int64_t k = first; k <= end; k++) {
        if (e->budget-- == 0)
            return GSC_UNDECIDED;
        gsc__overlap overlap = solve(e, last - 1, rest - k * t->stride);
        if (overlap != GSC_DISJOINT)
            return overlap;
    }
    return GSC_DISJOINT;
}

gsc__overlap gsc__pair_overlap(const gsc__layout *a, const gsc__layout *b)
{
    enum { TRIALS = 20000 }; /* a few do for slices of one tensor with equal steps */
    uintptr_t a_start = (uintptr_t)a->data, b_start = (uintptr_t)b->data;
    if (a_start + (uintptr_t)gsc__layout_span(a, a->ndim) <= b_start ||
        b_start + (uintptr_t)gsc__layout_span(b, b->ndim) <= a_start)
        return GSC_DISJOINT;
    equation e; /* uninitialised: clearing it would take longer than solving it */
    e.distance = (int64_t)(b_start - a_start);
    e.budget = TRIALS;
    e.count = 1;
    e.terms[0] = (term){1, -((int64_t)gsc__kind_size(b->kind) - 1), (int64_t)gsc__kind_size(a->kind) - 1};
    add_dimensions(&e, a, b);
    sum_up(&e);
    return solve(&e, e.count - 1, e.distance);
}
