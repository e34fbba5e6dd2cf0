/* SPDX-License-Identifier: Apache-2.0 */
#include "gradscaler/gradients.h"

#include <float.h>
#include <math.h>

#include "base/fpenv.h"
#include "gradients/list.h"
#include "gradients/sweep.h"

typedef struct request {
    const char *caller;
    bool writes, want_norm;
} request;

static gsc_status collect(gsc_gradlist *list, DLTensor *const *grads, size_t n, request of)
{
    const gsc_gradlist_rules rules = {.writes = of.writes, .allow_fp16 = true, .caller = of.caller};
    gsc_gradlist_init(list);
    if (n > 0 && !grads)
        return gsc_fail(GSC_ERR_VALUE, "%s: grads is NULL but n is %zu", of.caller, n);
    gsc_status status = gsc_gradlist_begin(list, n);
    for (size_t i = 0; i < n && status == GSC_OK; i++)
        status = gsc_gradlist_add(list, grads[i], i, &rules);
    return status == GSC_OK ? gsc_gradlist_finish(list, of.want_norm) : status;
}

/* One usual tensor for which no thread is woken: a list would cost as much as a thousand elements. false says nothing.
 */
static bool scan_one(DLTensor *const *grads, size_t n, gsc_kernel *const *kernels, double factor, bool *found_inf)
{
    gsc_view view;
    if (n != 1 || !grads || !grads[0] || !gsc_view_usual(grads[0], &view) || view.count >= GSC_ALONE)
        return false;
    const gsc_run run = {view.start, view.count};
    *found_inf = kernels[view.kind](&run, 1, factor, NULL) >= gsc_kind_infinity(view.kind);
    return true;
}

static gsc_status scan(DLTensor *const *grads, size_t n, request of, double factor, bool *found_inf)
{
    const bool stores = of.writes && factor != 1.0; /* a product with 1 would make signalling NaNs quiet */
    gsc_kernel *const *kernels = stores ? gsc_kernels()->unscale_flag : gsc_kernels()->look;
    if (scan_one(grads, n, kernels, factor, found_inf))
        return GSC_OK;
    gsc_gradlist list;
    gsc_status status = collect(&list, grads, n, of);
    if (status == GSC_OK)
        *found_inf = gsc_gradlist_scan(&list, kernels, factor, stores).found_inf;
    gsc_gradlist_free(&list);
    return status;
}

static gsc_status unscale(DLTensor *const *grads, size_t n, double scale, bool *found_inf)
{
    if (!(scale >= (double)FLT_MIN && scale <= (double)FLT_MAX))
        return gsc_fail(GSC_ERR_VALUE, "gsc_unscale_grads: scale is %g; allowed is %g to %g", scale, (double)FLT_MIN,
                        (double)FLT_MAX);
    const request of = {.caller = "gsc_unscale_grads", .writes = true};
    return scan(grads, n, of, gsc_fpenv_pin(1.0 / scale), found_inf);
}

static gsc_status check_norm_type(double norm_type, const char *caller)
{
    if (norm_type > 0.0)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: norm_type is %g; allowed are numbers above 0 and infinity", caller, norm_type);
}

static double total_norm_of(const gsc_gradlist *list, double norm_type)
{
    gsc_norm_sums sums = {.exponent = gsc_gradlist_norm_exponent(list, 1.0, norm_type)};
    gsc_gradlist_norm(list, 1.0, norm_type, &sums, NULL);
    return gsc_norm_from_sums(&sums);
}

static gsc_status take_norm(DLTensor *const *grads, size_t n, double norm_type, double *norm)
{
    static const char caller[] = "gsc_grad_norm";
    gsc_status status = check_norm_type(norm_type, caller);
    if (status != GSC_OK)
        return status;
    if (!norm)
        return gsc_fail(GSC_ERR_VALUE, "%s: norm is NULL", caller);
    gsc_gradlist list;
    status = collect(&list, grads, n, (request){.caller = caller, .want_norm = true});
    if (status == GSC_OK)
        *norm = total_norm_of(&list, norm_type);
    gsc_gradlist_free(&list);
    return status;
}

static gsc_status clip_norm(DLTensor *const *grads, size_t n, double max_norm, double norm_type, double *total_norm)
{
    static const char caller[] = "gsc_clip_grad_norm";
    if (!(max_norm >= 0.0))
        return gsc_fail(GSC_ERR_VALUE, "%s: max_norm is %g; allowed are 0, numbers above and infinity", caller,
                        max_norm);
    gsc_status status = check_norm_type(norm_type, caller);
    if (status != GSC_OK)
        return status;
    gsc_gradlist list;
    status = collect(&list, grads, n, (request){.caller = caller, .writes = true, .want_norm = true});
    if (status == GSC_OK) {
        double norm = total_norm_of(&list, norm_type);
        double coefficient = gsc_clip_coefficient(max_norm, norm);
        if (coefficient < 1.0)
            gsc_gradlist_multiply(&list, coefficient);
        if (total_norm)
            *total_norm = norm;
    }
    gsc_gradlist_free(&list);
    return status;
}

/* Towards zero, so that no element is left above the limit. */
static double rounded_down(gsc_kind kind, double limit)
{
    float single = (float)limit;
    if ((double)single > limit)
        single = gsc_bits_float(gsc_float_bits(single) - 1);
    uint16_t half = kind == GSC_BF16 ? gsc_f32_to_bf16(single) : gsc_f32_to_f16(single);
    if (gsc_element(kind == GSC_BF16 ? GSC_BF16 : GSC_F16, &half, 0) > limit)
        half--;
    switch (kind) {
    case GSC_F64: return limit;
    case GSC_F32: return (double)single;
    case GSC_BF16: return (double)gsc_bf16_to_f32(half);
    default: return (double)gsc_f16_to_f32(half);
    }
}

static void clamp_all(const gsc_gradlist *list, double limit)
{
    uint64_t max_bits[GSC_KINDS];
    gsc_sweep sweep = {.list = list, .kernels = gsc_kernels()->clamp, .stores = true};
    for (int kind = 0; kind < GSC_KINDS; kind++)
        sweep.factor[kind] = rounded_down((gsc_kind)kind, limit);
    gsc_sweep_run(&sweep, max_bits);
}

static gsc_status clip_values(DLTensor *const *grads, size_t n, double limit)
{
    static const char caller[] = "gsc_clip_grad_value";
    if (!(limit >= 0.0))
        return gsc_fail(GSC_ERR_VALUE, "%s: clip_value is %g; allowed are 0, numbers above and infinity", caller,
                        limit);
    gsc_gradlist list;
    gsc_status status = collect(&list, grads, n, (request){.caller = caller, .writes = true});
    if (status == GSC_OK)
        clamp_all(&list, limit);
    gsc_gradlist_free(&list);
    return status;
}

/* The public functions: the above in the library's floating-point environment, the checks of numbers included. */

gsc_status gsc_unscale_grads(DLTensor *const *grads, size_t n, double scale, bool *found_inf)
{
    bool unused;
    gsc_fpenv caller = gsc_fpenv_enter();
    gsc_status status = unscale(grads, n, gsc_fpenv_pin(scale), found_inf ? found_inf : &unused);
    gsc_fpenv_leave(caller);
    return status;
}

gsc_status gsc_check_grads(DLTensor *const *grads, size_t n, bool *found_inf)
{
    bool unused;
    gsc_fpenv caller = gsc_fpenv_enter();
    gsc_status status = scan(grads, n, (request){.caller = "gsc_check_grads"}, 1.0, found_inf ? found_inf : &unused);
    gsc_fpenv_leave(caller);
    return status;
}

gsc_status gsc_grad_norm(DLTensor *const *grads, size_t n, double norm_type, double *norm)
{
    gsc_fpenv caller = gsc_fpenv_enter();
    gsc_status status = take_norm(grads, n, gsc_fpenv_pin(norm_type), norm);
    gsc_fpenv_leave(caller);
    return status;
}

gsc_status gsc_clip_grad_norm(DLTensor *const *grads, size_t n, double max_norm, double norm_type, double *total_norm)
{
    gsc_fpenv caller = gsc_fpenv_enter();
    gsc_status status = clip_norm(grads, n, gsc_fpenv_pin(max_norm), gsc_fpenv_pin(norm_type), total_norm);
    gsc_fpenv_leave(caller);
    return status;
}

gsc_status gsc_clip_grad_value(DLTensor *const *grads, size_t n, double clip_value)
{
    gsc_fpenv caller = gsc_fpenv_enter();
    gsc_status status = clip_values(grads, n, gsc_fpenv_pin(clip_value));
    gsc_fpenv_leave(caller);
    return status;
}
