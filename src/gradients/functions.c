/* SPDX-License-Identifier: Apache-2.0 */
/* functions.c: the public functions of gradients.h on lists of gradients. */
#include "gradscaler/gradients.h"

#include <math.h>

#include "base/fpenv.h"
#include "base/try.h"
#include "gradients/fast_view.h"
#include "gradients/list.h"
#include "gradients/norm.h"
#include "gradients/sweep.h"
#include "gradients/tasks.h"
#include "gradients/unscale.h"

typedef struct list_request {
    const char *api;
    bool writes, want_norm;
} list_request;

/* A list on the stack, freed at the end of its scope, also where an exception of a host's parallel-for passes through.
 */
#define LIST_SCOPE(list)                                                                                               \
    __attribute__((cleanup(gsc__list_free))) gsc__list list;                                                           \
    gsc__list_init(&(list))

static gsc_status collect(gsc__list *list, DLTensor *const *grads, size_t n, list_request request)
{
    const gsc__list_rules rules = {.writes = request.writes, .allow_fp16 = true, .api = request.api};
    if (n > 0 && !grads)
        return gsc_fail(GSC_ERR_VALUE, "%s: grads is NULL but n is %zu", request.api, n);
    GSC_TRY(gsc__list_begin(list, n));
    for (size_t i = 0; i < n; i++)
        GSC_TRY(gsc__list_add(list, grads[i], i, &rules));
    return gsc__list_finish(list, NULL, &rules, request.want_norm);
}

/* One tensor, small enough for the calling thread: a list would cost as much as a thousand elements. Returns false if
 * the tensor needs a list. */
static bool scan_one(DLTensor *const *grads, size_t n, gsc__kernel *const *kernels, double factor, bool *found_inf)
{
    gsc__view view;
    if (n != 1 || !grads || !grads[0] || !gsc__view_fast(grads[0], GSC_ON_CPU, &view) || view.count >= GSC_PARALLEL_MIN)
        return false;
    const gsc__run run = {view.start, view.count};
    *found_inf = kernels[view.kind](&run, 1, factor, NULL) >= gsc__kind_infinity(view.kind);
    return true;
}

static gsc_status scan(DLTensor *const *grads, size_t n, list_request request, double factor, bool *found_inf)
{
    const bool stores = request.writes && factor != 1.0; /* a product with 1 would make signalling NaNs quiet */
    gsc__kernel *const *kernels = stores ? gsc__kernels()->unscale_flag : gsc__kernels()->check_raw;
    if (scan_one(grads, n, kernels, factor, found_inf))
        return GSC_OK;
    LIST_SCOPE(list);
    GSC_TRY(collect(&list, grads, n, request));
    *found_inf = gsc__sweep_kernels(&list, kernels, factor, stores).found_inf;
    return GSC_OK;
}

static gsc_status unscale(DLTensor *const *grads, size_t n, double scale, bool *found_inf)
{
    const list_request request = {.api = "gsc_unscale_grads", .writes = true};
    GSC_TRY(gsc__unscale_check_scale(scale, request.api));
    return scan(grads, n, request, gsc__fpenv_pin(1.0 / scale), found_inf);
}

static gsc_status check_norm_type(double norm_type, const char *api)
{
    if (norm_type > 0.0)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: norm_type is %g; allowed are numbers above 0 and infinity", api, norm_type);
}

static double norm_of_list(const gsc__list *list, double norm_type)
{
    gsc__norm_sums sums = {.exponent = gsc__norm_exponent(list, 1.0, norm_type)};
    gsc__norm_sum(list, 1.0, norm_type, &sums, NULL);
    return gsc__norm_from_sums(&sums);
}

static gsc_status take_norm(DLTensor *const *grads, size_t n, double norm_type, double *norm)
{
    static const char api[] = "gsc_grad_norm";
    GSC_TRY(check_norm_type(norm_type, api));
    if (!norm)
        return gsc_fail(GSC_ERR_VALUE, "%s: norm is NULL", api);
    LIST_SCOPE(list);
    GSC_TRY(collect(&list, grads, n, (list_request){.api = api, .want_norm = true}));
    *norm = norm_of_list(&list, norm_type);
    return GSC_OK;
}

static gsc_status clip_norm(DLTensor *const *grads, size_t n, double max_norm, double norm_type, double *total_norm)
{
    static const char api[] = "gsc_clip_grad_norm";
    if (!(max_norm >= 0.0))
        return gsc_fail(GSC_ERR_VALUE, "%s: max_norm is %g; allowed are 0, numbers above and infinity", api, max_norm);
    GSC_TRY(check_norm_type(norm_type, api));
    LIST_SCOPE(list);
    GSC_TRY(collect(&list, grads, n, (list_request){.api = api, .writes = true, .want_norm = true}));
    double norm = norm_of_list(&list, norm_type);
    double coefficient = gsc__clip_coefficient(max_norm, norm);
    if (coefficient < 1.0)
        gsc__sweep_multiply(&list, coefficient);
    if (total_norm)
        *total_norm = norm;
    return GSC_OK;
}

/* The limit in a kind, rounded towards zero so that no element stays above it. */
static double rounded_down(gsc__kind kind, double limit)
{
    float single = (float)limit;
    if ((double)single > limit)
        single = gsc__bits_float(gsc__float_bits(single) - 1);
    uint16_t half = kind == GSC_BF16 ? gsc__f32_to_bf16(single) : gsc__f32_to_f16(single);
    if (gsc__element(kind == GSC_BF16 ? GSC_BF16 : GSC_F16, &half, 0) > limit)
        half--;
    switch (kind) {
    case GSC_F64: return limit;
    case GSC_F32: return (double)single;
    case GSC_BF16: return (double)gsc__bf16_to_f32(half);
    default: return (double)gsc__f16_to_f32(half);
    }
}

static void clamp_all(const gsc__list *list, double limit)
{
    uint64_t max_bits[GSC_KINDS];
    gsc__sweep sweep = {.list = list, .kernels = gsc__kernels()->clamp, .stores = true};
    for (int kind = 0; kind < GSC_KINDS; kind++)
        sweep.factor[kind] = rounded_down((gsc__kind)kind, limit);
    gsc__sweep_run(&sweep, max_bits);
}

static gsc_status clip_values(DLTensor *const *grads, size_t n, double limit)
{
    static const char api[] = "gsc_clip_grad_value";
    if (!(limit >= 0.0))
        return gsc_fail(GSC_ERR_VALUE, "%s: clip_value is %g; allowed are 0, numbers above and infinity", api, limit);
    LIST_SCOPE(list);
    GSC_TRY(collect(&list, grads, n, (list_request){.api = api, .writes = true}));
    clamp_all(&list, limit);
    return GSC_OK;
}

/* The public functions enter the floating-point environment first: the checks above compare numbers too. */

gsc_status gsc_unscale_grads(DLTensor *const *grads, size_t n, double scale, bool *found_inf)
{
    bool unused;
    GSC_FPENV_SCOPE;
    return unscale(grads, n, gsc__fpenv_pin(scale), found_inf ? found_inf : &unused);
}

gsc_status gsc_check_grads(DLTensor *const *grads, size_t n, bool *found_inf)
{
    bool unused;
    GSC_FPENV_SCOPE;
    return scan(grads, n, (list_request){.api = "gsc_check_grads"}, 1.0, found_inf ? found_inf : &unused);
}

gsc_status gsc_grad_norm(DLTensor *const *grads, size_t n, double norm_type, double *norm)
{
    GSC_FPENV_SCOPE;
    return take_norm(grads, n, gsc__fpenv_pin(norm_type), norm);
}

gsc_status gsc_clip_grad_norm(DLTensor *const *grads, size_t n, double max_norm, double norm_type, double *total_norm)
{
    GSC_FPENV_SCOPE;
    return clip_norm(grads, n, gsc__fpenv_pin(max_norm), gsc__fpenv_pin(norm_type), total_norm);
}

gsc_status gsc_clip_grad_value(DLTensor *const *grads, size_t n, double clip_value)
{
    GSC_FPENV_SCOPE;
    return clip_values(grads, n, gsc__fpenv_pin(clip_value));
}
