/* SPDX-License-Identifier: Apache-2.0 */
/* fast_view.h: gsc__view_check in a few inlined comparisons, for compact tensors on one device that is served: the CPU,
 * or the first of gsc__served.
 *
 * Whatever gsc__view_fast accepts, gsc__view_check accepts with the same result. */
#ifndef GSC_GRADIENTS_FAST_VIEW_H
#define GSC_GRADIENTS_FAST_VIEW_H

#include <stdint.h>

#include "gradients/layout.h"
#include "gradients/view.h"

enum {
    GSC_FAST_BITS = 40
}; /* of the number of elements and of byte_offset: far too few for addresses to wrap around */

#define GSC_ON_CPU ((DLDevice){kDLCPU, 0})

/* Returns false if the tensor is not on the device or not of float32, float64 or bfloat16: the kinds that need no rule.
 */
static inline bool gsc__fast_kind(const DLTensor *tensor, DLDevice device, gsc__kind *kind)
{
    if (!gsc__is_on(tensor, device) || tensor->dtype.lanes != 1)
        return false;
    if (tensor->dtype.code == kDLFloat && tensor->dtype.bits == 32)
        *kind = GSC_F32;
    else if (tensor->dtype.code == kDLFloat && tensor->dtype.bits == 64)
        *kind = GSC_F64;
    else if (tensor->dtype.code == kDLBfloat && tensor->dtype.bits == 16)
        *kind = GSC_BF16;
    else
        return false;
    return true;
}

/* Returns the number of elements; 0 if there are none, too many, or not compact. */
static inline size_t gsc__fast_count(const DLTensor *tensor)
{
    if ((uint32_t)tensor->ndim > GSC_MAX_NDIM || (tensor->ndim > 0 && !tensor->shape))
        return 0;
    uint64_t count = 1;
    for (int d = tensor->ndim - 1; d >= 0; d--) {
        uint64_t size = (uint64_t)tensor->shape[d]; /* a negative size becomes too many */
        if (tensor->strides && (uint64_t)tensor->strides[d] != count && size != 1)
            return 0;
        if (size == 0 || __builtin_mul_overflow(count, size, &count) || count >> GSC_FAST_BITS != 0)
            return 0;
    }
    return count;
}

/* Returns the address of the first element; NULL if data is NULL or so high that the elements could wrap around. */
static inline char *gsc__fast_start(const DLTensor *tensor)
{
    const int top = 8 * sizeof tensor->data - 2;
    if (!tensor->data || (uintptr_t)tensor->data >> top != 0 || tensor->byte_offset >> GSC_FAST_BITS != 0)
        return NULL;
    return (char *)tensor->data + tensor->byte_offset;
}

/* Returns false if undecided; then call gsc__view_check. */
static inline bool gsc__view_fast(const DLTensor *tensor, DLDevice device, gsc__view *out)
{
    if (!gsc__fast_kind(tensor, device, &out->kind))
        return false;
    char *start = gsc__fast_start(tensor);
    size_t count = gsc__fast_count(tensor), misaligned = (uintptr_t)start & (gsc__kind_size(out->kind) - 1);
    if (!start || count == 0 || misaligned != 0)
        return false;
    out->tensor = tensor;
    out->start = start;
    out->count = count;
    out->dense = true;
    return true;
}

/* gsc__view_check, the fast way first. */
static inline gsc_status gsc__view_make(const DLTensor *tensor, const gsc__view_rules *rules,
                                        const gsc__message_subject *subject, gsc__view *out)
{
    const DLDevice device = rules->served ? rules->served->device : GSC_ON_CPU;
    return gsc__view_fast(tensor, device, out) ? GSC_OK : gsc__view_check(tensor, rules, subject, out);
}

/* Whether gsc__view_fast would make this view of this tensor again. */
static inline bool gsc__view_unchanged(const gsc__view *view, const DLTensor *tensor, DLDevice device)
{
    gsc__kind kind;
    return view->tensor == tensor && gsc__fast_kind(tensor, device, &kind) && view->kind == kind &&
           view->start == gsc__fast_start(tensor) && view->count == gsc__fast_count(tensor) && view->dense;
}

#endif
