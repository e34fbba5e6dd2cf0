/* SPDX-License-Identifier: Apache-2.0 */
/* norm.c: norms over all elements of a list, in double.
 *
 * p = 1 and 2: a kernel sums each block in 16 fixed lanes, and a fixed tree adds the blocks up. Tiny and huge blocks
 * are prescaled and summed in bins of their own, which saves a second pass. p infinite: the check's maximum. Other p:
 * libm's pow on numbers scaled to about 1. */
#include "gradients/norm.h"

#include <limits.h>
#include <math.h>

#include "gradients/layout.h"
#include "gradients/rows.h"
#include "gradients/tasks.h"

typedef struct power_sweep {
    const gsc__list *list;
    gsc__partial *partials;
    double r, p;
    int exponent;
    size_t elements_per_task;
} power_sweep;

static gsc__partial add_partials(const gsc__partial *partials, size_t count)
{
    if (count == 1)
        return partials[0];
    size_t half = count / 2;
    gsc__partial a = add_partials(partials, half), b = add_partials(partials + half, count - half);
    for (int bin = 0; bin < 3; bin++)
        a.sums[bin] += b.sums[bin];
    return a;
}

static double sum_block(const power_sweep *all, const gsc__view *view, const gsc__layout *layout, size_t first)
{
    _Alignas(64) unsigned char packed[GSC_GRADIENT_BLOCK * sizeof(double)];
    size_t count = gsc__block_length(first, view->count);
    gsc__rows_pack(layout, first, count, packed);
    const gsc__run run = {packed, count};
    if (all->r != 1.0)
        gsc__kernels()->unscale[view->kind](&run, 1, all->r, NULL);
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += pow(ldexp(fabs(gsc__element(view->kind, packed, i)), -all->exponent), all->p);
    return sum;
}

static void sum_blocks(void *ctx, const gsc__view *view, size_t first, size_t end)
{
    const power_sweep *all = ctx;
    gsc__layout layout;
    gsc__layout_collapse(view->tensor, view->kind, &layout);
    for (; first < end; first += GSC_GRADIENT_BLOCK)
        all->partials[view->first_block + first / GSC_GRADIENT_BLOCK] =
            (gsc__partial){.sums = {sum_block(all, view, &layout, first), 0.0, 0.0}};
}

static void sum_task(void *ctx, size_t index)
{
    power_sweep *all = ctx;
    gsc__list_visit(all->list, index, all->elements_per_task, sum_blocks, all);
}

static gsc__check_result sweep_powers(const gsc__list *list, double r, const gsc__norm_sums *sums)
{
    power_sweep all = {.list = list, .partials = list->sums, .r = r, .p = sums->p, .exponent = sums->exponent};
    gsc_parallel_run(gsc__task_split(list->elements, &all.elements_per_task), sum_task, &all);
    return gsc__sweep_check(list, r);
}

static gsc__check_result sweep_sums(const gsc__list *list, double r, double p)
{
    uint64_t max_bits[GSC_KINDS];
    const gsc__kernel_table *kernels = gsc__kernels();
    const gsc__sweep sweep = {.list = list,
                              .kernels = p == 1.0 ? kernels->norm1 : kernels->norm2,
                              .factor = {r, r, r, r},
                              .partials = list->sums};
    gsc__sweep_run(&sweep, max_bits);
    return gsc__check_result_from_bits(max_bits);
}

static bool has_kernel(double p) { return p == 1.0 || p == 2.0; }

int gsc__norm_exponent(const gsc__list *list, double r, double p)
{
    if (has_kernel(p) || isinf(p))
        return 0;
    double max_abs = gsc__sweep_check(list, r).max_abs;
    int exponent = INT_MIN / 2;
    if (max_abs > 0.0 && isfinite(max_abs)) {
        (void)frexp(max_abs, &exponent);
        /* Tiny powers of any number round to 1. The norm is then the unit, 2^exponent, which must not exceed the
         * largest element; gsc__norm_from_sums raises it to that. */
        exponent -= p < 1.0;
    }
    return exponent;
}

void gsc__norm_sum(const gsc__list *list, double r, double p, gsc__norm_sums *sums, gsc__check_result *result)
{
    gsc__check_result found = {.found_inf = false, .max_abs = 0.0};
    sums->p = p;
    sums->sums[0] = sums->sums[1] = sums->sums[2] = 0.0;
    if (isinf(p)) {
        found = gsc__sweep_check(list, r);
    } else if (list->count > 0) {
        found = has_kernel(p) ? sweep_sums(list, r, p) : sweep_powers(list, r, sums);
        gsc__partial total = add_partials(list->sums, list->blocks);
        for (int bin = 0; bin < 3; bin++)
            sums->sums[bin] = total.sums[bin];
    }
    sums->max_abs = found.max_abs;
    if (result)
        *result = found;
}

/* sqrt of the three bins together, in the scale of the greatest bin that is not empty. */
static double euclidean(const double bins[3])
{
    if (!(bins[2] == 0.0))
        return ldexp(sqrt(bins[2] + ldexp(bins[0] + ldexp(bins[1], -2 * GSC_PRESCALE), -2 * GSC_PRESCALE)),
                     GSC_PRESCALE);
    if (!(bins[0] == 0.0))
        return sqrt(bins[0] + ldexp(bins[1], -2 * GSC_PRESCALE));
    return ldexp(sqrt(bins[1]), -GSC_PRESCALE);
}

static double norm_of(const gsc__norm_sums *sums)
{
    const double *bins = sums->sums;
    if (isinf(sums->p))
        return sums->max_abs;
    if (sums->p == 1.0)
        return bins[0] + ldexp(bins[1], -GSC_PRESCALE) + ldexp(bins[2], GSC_PRESCALE);
    if (sums->p == 2.0)
        return euclidean(bins);
    double norm = ldexp(pow(bins[0], 1.0 / sums->p), sums->exponent);
    /* A norm is at least the largest element. Powers beyond about 1000 underflow, where the two hardly differ. */
    return norm < sums->max_abs ? sums->max_abs : norm;
}

double gsc__norm_from_sums(const gsc__norm_sums *sums)
{
    double norm = norm_of(sums);
    return isnan(norm) ? (double)NAN : norm;
}

double gsc__clip_coefficient(double max_norm, double norm)
{
    if (!isfinite(norm))
        return 1.0;
    double coefficient = max_norm / (norm + 1e-6);
    return coefficient < 1.0 ? coefficient : 1.0;
}
