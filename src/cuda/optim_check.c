/* SPDX-License-Identifier: Apache-2.0 */
/* optim_check.c: what an optimizer may be created from, and step with. */
#include <stdlib.h>
#include <string.h>

#include "base/dtype_text.h"
#include "base/reserved.h"
#include "base/shape_text.h"
#include "base/try.h"
#include "cuda/optim.h"

gsc__cuda_name_text gsc__cuda_optim_name(const char *name)
{
    gsc__cuda_name_text out = {""};
    if (name)
        snprintf(out.text, sizeof out.text, " (\"%s\")", name);
    return out;
}

uint64_t gsc__cuda_optim_elements(const DLTensor *tensor)
{
    uint64_t elements = 1;
    for (int32_t d = 0; d < tensor->ndim; d++)
        elements *= (uint64_t)tensor->shape[d];
    return elements;
}

static uintptr_t address_of(const DLTensor *tensor) { return (uintptr_t)tensor->data + tensor->byte_offset; }

/* Row-major without gaps. Strides of dimensions of size 1 are arbitrary. Of a tensor with a shape that was checked. */
static bool is_compact(const DLTensor *tensor)
{
    uint64_t expected = 1;
    for (int32_t d = tensor->ndim - 1; tensor->strides && d >= 0; d--) {
        if (tensor->shape[d] != 1 && tensor->strides[d] != (int64_t)expected)
            return gsc__cuda_optim_elements(tensor) == 0;
        expected *= (uint64_t)tensor->shape[d];
    }
    return true;
}

/* What is wrong with where the elements are, of a tensor with a shape that was checked: NULL or the words for it. */
static const char *placement_fault(const DLTensor *tensor, gsc__kind kind)
{
    if (!is_compact(tensor))
        return "is not compact (row-major without gaps)";
    if (gsc__cuda_optim_elements(tensor) > 0 && !tensor->data)
        return "has no data";
    if ((address_of(tensor) & (gsc__kind_size(kind) - 1)) != 0) /* a power of two */
        return "is not aligned to its elements";
    return NULL;
}

/* Where a parameter is listed, for messages. */
typedef struct listing {
    size_t group, index;
    const char *name;
    const DLTensor *tensor;
} listing;

typedef struct listing_text {
    char text[192];
} listing_text;

static listing_text describe(const listing *at)
{
    listing_text out;
    snprintf(out.text, sizeof out.text, "groups[%zu].params[%zu]%s", at->group, at->index,
             gsc__cuda_optim_name(at->name).text);
    return out;
}

static gsc_status check_shape(const char *function, const listing *at)
{
    const DLTensor *tensor = at->tensor;
    if (tensor->ndim < 0 || (tensor->ndim > 0 && !tensor->shape))
        return gsc_fail(GSC_ERR_VALUE, "%s: %s has ndim %d%s", function, describe(at).text, (int)tensor->ndim,
                        tensor->ndim < 0 ? ", allowed are 0 and more" : " and no shape");
    const size_t size = tensor->dtype.bits / 8;
    uint64_t most = INT64_MAX / size;
    for (int32_t d = 0; d < tensor->ndim; d++) {
        const int64_t extent = tensor->shape[d];
        if (extent < 0 || (extent > 0 && (uint64_t)extent > most))
            return gsc_fail(GSC_ERR_VALUE,
                            "%s: %s has shape %s, allowed are sizes of 0 and more and less than 2^63 bytes", function,
                            describe(at).text, gsc__shape_print(tensor->ndim, tensor->shape).text);
        most /= extent > 0 ? (uint64_t)extent : 1;
    }
    return GSC_OK;
}

static gsc_status check_param(const char *function, const listing *at)
{
    const DLTensor *tensor = at->tensor;
    if (!tensor)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL", function, describe(at).text);
    const gsc__kind kind = gsc__kind_of(tensor->dtype);
    if (kind != GSC_F32 && kind != GSC_F64)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is %s; parameters must be float32 or float64%s", function,
                        describe(at).text, gsc__describe_dtype(tensor->dtype).text,
                        gsc__kind_is_float(kind) ? ": keep float32 master parameters; their gradients may be in half "
                                                   "precision"
                                                 : "");
    GSC_TRY(check_shape(function, at));
    if (tensor->device.device_type != kDLCUDA)
        return gsc_fail(GSC_ERR_DEVICE,
                        "%s: %s is on %s; parameters must be on a CUDA device, {kDLCUDA, index} (gsc_optim_create_sgd "
                        "and the like are for the CPU)",
                        function, describe(at).text, gsc__describe_device(tensor->device).text);
    const char *fault = placement_fault(tensor, kind);
    return fault ? gsc_fail(GSC_ERR_VALUE, "%s: %s %s", function, describe(at).text, fault) : GSC_OK;
}

static gsc_status check_group(gsc__optim_kind kind, const char *function, size_t index,
                              const gsc_cuda_param_group *group)
{
    const gsc__optim_settings settings = GSC_OPTIM_SETTINGS_OF(group);
    GSC_TRY(gsc__optim_check_settings(kind, function, index, &settings));
    char name[32];
    snprintf(name, sizeof name, "groups[%zu]", index);
    GSC_TRY(GSC_CHECK_RESERVED(group, function, name));
    if (group->count > 0 && (!group->params || !group->grads))
        return gsc_fail(GSC_ERR_VALUE, "%s: groups[%zu].%s is NULL with count %zu", function, index,
                        group->params ? "grads" : "params", group->count);
    return GSC_OK;
}

/* By address, then in the order of the list. */
static int compare(const void *a, const void *b)
{
    const listing *x = a, *y = b;
    if (address_of(x->tensor) != address_of(y->tensor))
        return address_of(x->tensor) < address_of(y->tensor) ? -1 : 1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static gsc_status check_distinct(const char *function, listing *listings, size_t count)
{
    qsort(listings, count, sizeof *listings, compare);
    const listing *before = NULL; /* the last that has elements */
    for (size_t i = 0; i < count; i++) {
        const listing *at = &listings[i];
        const uint64_t bytes = gsc__cuda_optim_elements(at->tensor) * (at->tensor->dtype.bits / 8);
        if (bytes == 0)
            continue;
        if (before && address_of(at->tensor) - address_of(before->tensor) <
                          gsc__cuda_optim_elements(before->tensor) * (before->tensor->dtype.bits / 8))
            return gsc_fail(GSC_ERR_VALUE,
                            "%s: %s shares memory with groups[%zu].params[%zu]; list each parameter once", function,
                            describe(at).text, before->group, before->index);
        before = at;
    }
    return GSC_OK;
}

static gsc_status check_params(const char *function, const listing *listings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        GSC_TRY(check_param(function, &listings[i]));
        const DLDevice device = listings[i].tensor->device, first = listings[0].tensor->device;
        if (device.device_id != first.device_id)
            return gsc_fail(GSC_ERR_DEVICE,
                            "%s: %s is on %s, groups[%zu].params[%zu] on %s; make an optimizer for each "
                            "device",
                            function, describe(&listings[i]).text, gsc__describe_device(device).text, listings[0].group,
                            listings[0].index, gsc__describe_device(first).text);
    }
    return GSC_OK;
}

static gsc_status check_listings(const char *function, const gsc_cuda_param_group *groups, size_t n, listing *listings,
                                 DLDevice *device)
{
    size_t count = 0;
    for (size_t g = 0; g < n; g++)
        for (size_t i = 0; i < groups[g].count; i++)
            listings[count++] = (listing){g, i, groups[g].names ? groups[g].names[i] : NULL, groups[g].params[i]};
    GSC_TRY(check_params(function, listings, count));
    *device = listings[0].tensor->device;
    return check_distinct(function, listings, count);
}

gsc_status gsc__cuda_optim_check_groups(gsc__optim_kind kind, const char *function, const gsc_cuda_param_group *groups,
                                        size_t n, size_t *param_count, DLDevice *device)
{
    if (!groups || n == 0)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s; give at least one group", function,
                        groups ? "n is 0" : "groups is NULL");
    *param_count = 0;
    for (size_t g = 0; g < n; g++) {
        GSC_TRY(check_group(kind, function, g, &groups[g]));
        *param_count += groups[g].count;
    }
    if (*param_count == 0)
        return gsc_fail(GSC_ERR_VALUE, "%s: no group has a parameter; give at least one, which says the device",
                        function);
    listing *listings = calloc(*param_count, sizeof *listings);
    if (!listings)
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for %zu parameters", function, *param_count);
    gsc_status status = check_listings(function, groups, n, listings, device);
    free(listings);
    return status;
}

/* ---- At a step ---- */

static const char subject[] = "optimizer step"; /* messages begin with it */

static bool same_shape(const gsc__cuda_parameter *param, const DLTensor *tensor)
{
    return tensor->ndim == param->ndim &&
           (param->ndim == 0 ||
            (tensor->shape && memcmp(tensor->shape, param->shape, (size_t)param->ndim * sizeof *param->shape) == 0));
}

static gsc_status check_unchanged(const gsc_cuda_optim *optim, size_t index, const char *what, const DLTensor *tensor,
                                  bool may_be_half)
{
    const gsc__cuda_parameter *param = &optim->params[index];
    const gsc__kind kind = gsc__kind_of(tensor->dtype);
    const bool half = kind == GSC_BF16 || kind == GSC_F16, takes_half = may_be_half && param->kind == GSC_F32;
    const gsc__cuda_name_text name = gsc__cuda_optim_name(param->name);
    if (tensor->device.device_type != optim->device.device_type || tensor->device.device_id != optim->device.device_id)
        return gsc_fail(GSC_ERR_DEVICE, "%s: the %s of parameter %zu%s is on %s; the optimizer is on %s", subject, what,
                        index, name.text, gsc__describe_device(tensor->device).text,
                        gsc__describe_device(optim->device).text);
    if ((kind != param->kind && !(half && takes_half)) || !same_shape(param, tensor))
        return gsc_fail(GSC_ERR_VALUE,
                        "%s: the %s of parameter %zu%s is %s with ndim %d and shape %s; expected is a compact %s%s of "
                        "shape %s, as when the optimizer was created",
                        subject, what, index, name.text, gsc__describe_dtype(tensor->dtype).text, (int)tensor->ndim,
                        gsc__shape_print(tensor->shape ? tensor->ndim : 0, tensor->shape).text,
                        gsc__kind_name(param->kind), takes_half ? ", bfloat16 or float16" : "",
                        gsc__shape_print(param->ndim, param->shape).text);
    const char *fault = placement_fault(tensor, kind);
    return fault ? gsc_fail(GSC_ERR_VALUE, "%s: the %s of parameter %zu%s %s", subject, what, index, name.text, fault)
                 : GSC_OK;
}

gsc_status gsc__cuda_optim_check_step(const gsc_cuda_optim *optim, size_t index, const DLTensor *grad)
{
    GSC_TRY(check_unchanged(optim, index, "gradient", grad, true));
    return check_unchanged(optim, index, "data", optim->params[index].tensor, false);
}
