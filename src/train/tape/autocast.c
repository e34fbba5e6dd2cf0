/* SPDX-License-Identifier: Apache-2.0 */
#include "train/tape/autocast.h"

#include <stdatomic.h>

enum { MAX_DEPTH = 64 };

static _Thread_local struct {
    gsc_tensor_kind kinds[MAX_DEPTH]; /* GSC_KIND_NONE: off */
    int depth;
    uint64_t region;
} stack;

static atomic_uint_fast64_t regions;

gsc_status gsc_autocast_begin(DLDataType dtype, bool enabled)
{
    gsc_tensor_kind kind = enabled ? gsc_tensor_kind_of(dtype) : GSC_KIND_NONE;
    if (enabled && kind != GSC_KIND_F16 && kind != GSC_KIND_BF16)
        return gsc_fail(GSC_ERR_VALUE,
                        "gsc_autocast_begin: dtype (code %d, bits %d, lanes %d) is neither GSC_FLOAT16 nor "
                        "GSC_BFLOAT16",
                        dtype.code, dtype.bits, dtype.lanes);
    if (stack.depth == MAX_DEPTH)
        return gsc_fail(GSC_ERR_STATE,
                        "gsc_autocast_begin: %d regions are open on this thread, the most that can be; "
                        "is a gsc_autocast_end missing?",
                        MAX_DEPTH);
    if (stack.depth == 0)
        stack.region = atomic_fetch_add(&regions, 1) + 1;
    stack.kinds[stack.depth++] = kind;
    return GSC_OK;
}

gsc_status gsc_autocast_end(void)
{
    if (stack.depth == 0)
        return gsc_fail(GSC_ERR_STATE, "gsc_autocast_end: no region is open on this thread");
    stack.depth--;
    return GSC_OK;
}

static gsc_tensor_kind current(void) { return stack.depth > 0 ? stack.kinds[stack.depth - 1] : GSC_KIND_NONE; }

bool gsc_autocast_enabled(DLDataType *dtype)
{
    gsc_tensor_kind kind = current();
    if (kind != GSC_KIND_NONE && dtype)
        *dtype = gsc_tensor_kind_dtype(kind);
    return kind != GSC_KIND_NONE;
}

uint64_t gsc_autocast_region(void) { return stack.depth > 0 ? stack.region : 0; }

/* float16 and bfloat16 have no common superset but float32. */
static gsc_tensor_kind wider(gsc_tensor_kind a, gsc_tensor_kind b)
{
    if (!gsc_tensor_kind_is_float(a) || a == b)
        return gsc_tensor_kind_is_float(b) ? b : a;
    if (!gsc_tensor_kind_is_float(b))
        return a;
    return a == GSC_KIND_F64 || b == GSC_KIND_F64 ? GSC_KIND_F64 : GSC_KIND_F32;
}

static gsc_tensor_kind widest(const gsc_tensor_kind *kinds, int n)
{
    gsc_tensor_kind kind = GSC_KIND_NONE;
    for (int i = 0; i < n; i++)
        kind = wider(kind, kinds[i]);
    return kind;
}

void gsc_autocast_kinds(gsc_policy policy, gsc_tensor_kind *kinds, int n)
{
    gsc_tensor_kind region = current();
    gsc_tensor_kind target = GSC_KIND_NONE;
    if (policy == GSC_POLICY_WIDEST)
        target = widest(kinds, n);
    else if (policy == GSC_POLICY_LOWER)
        target = region;
    else if (policy == GSC_POLICY_FLOAT32 && region != GSC_KIND_NONE)
        target = GSC_KIND_F32;
    for (int i = 0; i < n && target != GSC_KIND_NONE; i++)
        if (gsc_tensor_kind_is_float(kinds[i]) && kinds[i] != GSC_KIND_F64)
            kinds[i] = target;
}
