/* SPDX-License-Identifier: Apache-2.0 */
/* statistics.c: what the values of one gradient look like: the histogram of exponents that shows under- and overflow.
 */
#include <math.h>

#include "base/fpenv.h"
#include "gradscaler/gradients.h"
#include "kernels/sweep.h"

enum { LEAST_EXPONENT = -150, MOST_EXPONENT = 129 };

/* floor(log2 |x|) of a finite x that is not zero; float64's subnormals are below what is told apart. */
static int exponent_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)((bits >> 52) & 0x7ff) - 1023;
    return exponent < LEAST_EXPONENT ? LEAST_EXPONENT : exponent > MOST_EXPONENT ? MOST_EXPONENT : exponent;
}

static void count_value(double x, gsc_grad_stats *stats)
{
    double magnitude = fabs(x);
    if (isnan(x)) {
        stats->nans++;
    } else if (isinf(x)) {
        stats->infs++;
    } else if (magnitude == 0.0) {
        stats->zeros++;
    } else {
        stats->exponents[exponent_of(x) - LEAST_EXPONENT]++;
        if (stats->min_abs == 0.0 || magnitude < stats->min_abs)
            stats->min_abs = magnitude;
        if (magnitude > stats->max_abs)
            stats->max_abs = magnitude;
    }
}

static void count_values(const gsc_view *view, gsc_grad_stats *stats)
{
    _Alignas(64) unsigned char packed[GSC_BLOCK * sizeof(double)];
    gsc_layout layout;
    gsc_layout_collapse(view->tensor, view->kind, &layout);
    for (size_t first = 0; first < view->count; first += GSC_BLOCK) {
        size_t count = view->count - first < GSC_BLOCK ? view->count - first : GSC_BLOCK;
        gsc_layout_pack(&layout, first, count, packed);
        for (size_t i = 0; i < count; i++)
            count_value(gsc_element(view->kind, packed, i), stats);
    }
}

gsc_status gsc_grad_statistics(const DLTensor *grad, gsc_grad_stats *out)
{
    if (!grad || !out)
        return gsc_fail(GSC_ERR_VALUE, "gsc_grad_statistics: %s is NULL", grad ? "out" : "grad");
    const gsc_view_rules rules = {.writes = false, .allow_fp16 = true};
    const gsc_place place = {.caller = "gsc_grad_statistics", .what = "grad"};
    gsc_view view;
    gsc_status status = gsc_view_check(grad, &rules, &place, &view);
    if (status != GSC_OK)
        return status;
    *out = (gsc_grad_stats){.count = view.count};
    gsc_fpenv caller = gsc_fpenv_enter();
    if (view.count > 0)
        count_values(&view, out);
    gsc_fpenv_leave(caller);
    return GSC_OK;
}
