/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.c: strides overlap where a linear equation has a solution within bounds:
 *
 *     c[0] v[0] + … + c[n-1] v[n-1] in [low, high],   0 <= v[k] <= most[k],   c[k] > 0
 *
 * Searched depth first, largest coefficient first. Two bounds cut nearly everything: what the remaining terms can
 * reach, and the multiples of their greatest common divisor. */
#include "gradients/overlap.h"

enum { MAX_TERMS = 2 * GSC_MAX_NDIM, SEARCH_STEPS = 100000 };

typedef struct term {
    int64_t coefficient, most;
} term;

typedef struct equation {
    int count;
    term terms[MAX_TERMS];
    int64_t reach[MAX_TERMS + 1];   /* greatest sum of terms k and later */
    int64_t divisor[MAX_TERMS + 1]; /* of terms k and later; 0 past the last */
    int steps;
} equation;

static int64_t greatest_common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static void add_term(equation *e, int64_t coefficient, int64_t most)
{
    if (most == 0)
        return;
    int place = e->count++;
    for (; place > 0 && e->terms[place - 1].coefficient < coefficient; place--)
        e->terms[place] = e->terms[place - 1];
    e->terms[place] = (term){coefficient, most};
}

/* Where a coefficient is a multiple of the next and the next covers the steps between, both are one term. */
static void merge_terms(equation *e)
{
    int kept = e->count - 1;
    for (int k = e->count - 2; k >= 0; k--) {
        term outer = e->terms[k], *inner = &e->terms[kept];
        int64_t ratio = outer.coefficient / inner->coefficient;
        if (outer.coefficient % inner->coefficient == 0 && ratio - 1 <= inner->most)
            inner->most += ratio * outer.most;
        else
            e->terms[--kept] = outer;
    }
    if (e->count > 0) {
        for (int k = kept; k < e->count; k++)
            e->terms[k - kept] = e->terms[k];
        e->count -= kept;
    }
}

static gsc__overlap search(equation *e, int k, int64_t low, int64_t high)
{
    if (++e->steps > SEARCH_STEPS)
        return GSC_UNDECIDED;
    if (high < 0 || low > e->reach[k])
        return GSC_DISJOINT;
    if (low <= 0)
        return GSC_OVERLAPPING; /* all remaining v zero */
    if (k == e->count || floor_divide(high, e->divisor[k]) * e->divisor[k] < low)
        return GSC_DISJOINT;
    int64_t coefficient = e->terms[k].coefficient;
    int64_t from = -floor_divide(e->reach[k + 1] - low, coefficient);
    int64_t to = floor_divide(high, coefficient);
    if (from < 0)
        from = 0;
    if (to > e->terms[k].most)
        to = e->terms[k].most;
    for (int64_t v = from; v <= to; v++) {
        gsc__overlap answer = search(e, k + 1, low - v * coefficient, high - v * coefficient);
        if (answer != GSC_DISJOINT)
            return answer;
    }
    return GSC_DISJOINT;
}

static gsc__overlap solve(equation *e, int64_t low, int64_t high)
{
    merge_terms(e);
    e->reach[e->count] = 0;
    e->divisor[e->count] = 0;
    for (int k = e->count - 1; k >= 0; k--) {
        e->reach[k] = e->reach[k + 1] + e->terms[k].coefficient * e->terms[k].most;
        e->divisor[k] = greatest_common_divisor(e->terms[k].coefficient, e->divisor[k + 1]);
    }
    return search(e, 0, low, high);
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

gsc__overlap gsc__self_overlap(const gsc__layout *collapsed)
{
    if (nested(collapsed))
        return GSC_DISJOINT;
    for (int d = 0; d < collapsed->ndim; d++)
        if (collapsed->stride[d] == 0 && collapsed->shape[d] > 1)
            return GSC_OVERLAPPING;
    /* Two elements meet where a vector of index differences, not zero, gives distance 0. Say that its first entry that
     * is not zero is in dimension d, and positive; the later ones are shifted to begin at zero. */
    equation e = {.steps = 0};
    for (int d = 0; d < collapsed->ndim; d++) {
        if (collapsed->shape[d] == 1)
            continue;
        int64_t target = -collapsed->stride[d];
        e.count = 0;
        add_term(&e, collapsed->stride[d], collapsed->shape[d] - 2);
        for (int later = d + 1; later < collapsed->ndim; later++) {
            int64_t most = collapsed->shape[later] - 1;
            target += collapsed->stride[later] * most;
            add_term(&e, collapsed->stride[later], 2 * most);
        }
        gsc__overlap answer = target < 0 ? GSC_DISJOINT : solve(&e, target, target);
        if (answer != GSC_DISJOINT)
            return answer;
    }
    return GSC_DISJOINT;
}

static int64_t span(const gsc__layout *layout) /* bytes from the first element to the end of the last */
{
    int64_t size = (int64_t)gsc__kind_size(layout->kind), end = size;
    for (int d = 0; d < layout->ndim; d++)
        end += (layout->shape[d] - 1) * layout->stride[d] * size;
    return end;
}

static void add_layout(equation *e, const gsc__layout *layout)
{
    for (int d = 0; d < layout->ndim; d++)
        if (layout->stride[d] > 0)
            add_term(e, layout->stride[d] * (int64_t)gsc__kind_size(layout->kind), layout->shape[d] - 1);
}

gsc__overlap gsc__pair_overlap(const gsc__layout *a, const gsc__layout *b)
{
    uintptr_t a_start = (uintptr_t)a->data, b_start = (uintptr_t)b->data;
    if (a_start + (uintptr_t)span(a) <= b_start || b_start + (uintptr_t)span(b) <= a_start)
        return GSC_DISJOINT;
    /* Elements at a_start + i and b_start + j meet where i - j - (b_start - a_start) is in (-a's size, b's size). With
     * j counted down from b's last element every coefficient is positive. */
    int64_t a_size = (int64_t)gsc__kind_size(a->kind), b_size = (int64_t)gsc__kind_size(b->kind);
    int64_t target = (int64_t)(b_start - a_start) + span(b) - b_size;
    equation e = {.steps = 0};
    add_layout(&e, a);
    add_layout(&e, b);
    return solve(&e, target - a_size + 1, target + b_size - 1);
}
