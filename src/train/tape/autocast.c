/* SPDX-License-Identifier: Apache-2.0 */
/* autocast.c: the regions of each thread, and the dtypes that they give the inputs of ops. */
#include "train/tape/autocast.h"

#include <stdatomic.h>

enum { MAX_DEPTH = 64 };

static _Thread_local struct {
    gsc__kind kinds[MAX_DEPTH]; /* GSC_NO_KIND: off */
    int depth;
    uint64_t region;
} stack;

static atomic_uint_fast64_t regions;

gsc_status gsc_autocast_begin(DLDataType dtype, bool enabled)
{
    gsc__kind kind = enabled ? gsc__kind_of(dtype) : GSC_NO_KIND;
    if (enabled && kind != GSC_F16 && kind != GSC_BF16)
        return gsc__refuse_dtype("gsc_autocast_begin", "dtype", dtype, "GSC_FLOAT16, GSC_BFLOAT16");
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

static gsc__kind current(void) { return stack.depth > 0 ? stack.kinds[stack.depth - 1] : GSC_NO_KIND; }

bool gsc_autocast_enabled(DLDataType *dtype)
{
    gsc__kind kind = current();
    if (kind != GSC_NO_KIND && dtype)
        *dtype = gsc__kind_dtype(kind);
    return kind != GSC_NO_KIND;
}

uint64_t gsc__autocast_region(void) { return stack.depth > 0 ? stack.region : 0; }

/* float16 and bfloat16 have no common superset but float32. */
static gsc__kind wider(gsc__kind a, gsc__kind b)
{
    if (!gsc__kind_is_float(a) || a == b)
        return gsc__kind_is_float(b) ? b : a;
    if (!gsc__kind_is_float(b))
        return a;
    return a == GSC_F64 || b == GSC_F64 ? GSC_F64 : GSC_F32;
}

static gsc__kind widest(const gsc__kind *kinds, int n)
{
    gsc__kind kind = GSC_NO_KIND;
    for (int i = 0; i < n; i++)
        kind = wider(kind, kinds[i]);
    return kind;
}

void gsc__autocast_kinds(gsc__policy policy, gsc__kind *kinds, int n)
{
    gsc__kind region = current();
    gsc__kind target = GSC_NO_KIND;
    if (policy == GSC_POLICY_WIDEST)
        target = widest(kinds, n);
    else if (policy == GSC_POLICY_LOWER)
        target = region;
    else if (policy == GSC_POLICY_FLOAT32 && region != GSC_NO_KIND)
        target = GSC_F32;
    for (int i = 0; i < n && target != GSC_NO_KIND; i++)
        if (gsc__kind_is_float(kinds[i]) && kinds[i] != GSC_F64)
            kinds[i] = target;
}
