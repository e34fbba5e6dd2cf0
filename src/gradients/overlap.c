/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.c: simple tests that decide every layout made by slicing, transposing, reversing or taking diagonals. */
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

/* Bytes from the first element to the end of the last, over the dimensions whose stride is no multiple of period. */
static int64_t span(const gsc__layout *layout, int64_t period)
{
    int64_t size = (int64_t)gsc__kind_size(layout->kind), end = size;
    for (int d = 0; d < layout->ndim; d++)
        if (layout->stride[d] * size % period != 0)
            end += (layout->shape[d] - 1) * layout->stride[d] * size;
    return end;
}

/* Whether a and b keep to different bytes of each period, counted from a's start. */
static bool interleaved(const gsc__layout *a, const gsc__layout *b, int64_t period)
{
    int64_t distance = (int64_t)((uintptr_t)b->data - (uintptr_t)a->data) % period;
    int64_t b_start = distance < 0 ? distance + period : distance;
    return span(a, period) <= b_start && b_start + span(b, period) <= period;
}

static bool interleaved_by_a_stride_of(const gsc__layout *a, const gsc__layout *b)
{
    for (int d = 0; d < a->ndim; d++) {
        int64_t period = a->stride[d] * (int64_t)gsc__kind_size(a->kind);
        if (period > 0 && interleaved(a, b, period))
            return true;
    }
    return false;
}

bool gsc__are_disjoint(const gsc__layout *a, const gsc__layout *b)
{
    const int64_t all_memory = INT64_MAX;
    uintptr_t a_start = (uintptr_t)a->data, b_start = (uintptr_t)b->data;
    if (a_start + (uintptr_t)span(a, all_memory) <= b_start || b_start + (uintptr_t)span(b, all_memory) <= a_start)
        return true;
    return interleaved_by_a_stride_of(a, b) || interleaved_by_a_stride_of(b, a);
}
