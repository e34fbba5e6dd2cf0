/* SPDX-License-Identifier: Apache-2.0 */
/* extents.c: copies where gradients lie, since their tensors may be gone after the call. */
#include "core/extents.h"

#include <stdlib.h>
#include <string.h>

#include "base/try.h"
#include "gradients/distinct.h"
#include "gradients/layout.h"

/* noinline: dense views would pay for the large stack frame. */
__attribute__((noinline)) static bool layout_is(const int64_t *copy, const gsc__view *view)
{
    gsc__layout layout;
    gsc__layout_collapse(view->tensor, view->kind, &layout);
    size_t n = (size_t)layout.ndim;
    return copy[0] == layout.ndim && memcmp(copy + 1, layout.shape, n * sizeof *copy) == 0 &&
           memcmp(copy + 1 + n, layout.stride, n * sizeof *copy) == 0;
}

bool gsc__extent_is(const gsc__extents *extents, size_t position, const gsc__view *view)
{
    const gsc__extent *extent = &extents->list[position];
    if (extent->start != (uintptr_t)view->start || extent->kind != view->kind || view->dense != (extent->layout == 0))
        return false;
    return view->dense ? extent->end == gsc__view_end(view) : layout_is(extents->layouts + extent->layout - 1, view);
}

/* One pass without branches: nearly all lists are dense and unchanged. */
static bool dense_match(const gsc__extents *extents, const gsc__list *list)
{
    uint64_t different = 0;
    for (size_t i = 0; i < list->count; i++) {
        const gsc__extent *extent = &extents->list[i];
        const gsc__view *view = &list->views[i];
        uintptr_t end = (uintptr_t)view->start + view->count * gsc__kind_size(view->kind);
        different |= (extent->start ^ (uintptr_t)view->start) | (extent->end ^ end) | (extent->index ^ view->index) |
                     ((uint64_t)extent->kind ^ (uint64_t)view->kind) | extent->layout | (uint64_t)!view->dense;
    }
    return different == 0;
}

bool gsc__extents_match(const gsc__extents *extents, const gsc__list *list)
{
    if (extents->count != list->count)
        return false;
    if (extents->layouts_used == 0)
        return dense_match(extents, list);
    for (size_t i = 0; i < list->count; i++) {
        if (extents->list[i].index != list->views[i].index || !gsc__extent_is(extents, i, &list->views[i]))
            return false;
    }
    return true;
}

static gsc_status reserve(gsc__extents *extents, size_t n)
{
    if (n <= extents->capacity)
        return GSC_OK;
    gsc__extent *list = n <= SIZE_MAX / sizeof *list ? malloc(n * sizeof *list) : NULL;
    if (!list)
        return gsc_fail(GSC_ERR_MEMORY, "no memory to note where %zu gradients are", n);
    free(extents->list);
    extents->list = list;
    extents->capacity = n;
    return GSC_OK;
}

static gsc_status reserve_layout(gsc__extents *extents, size_t more)
{
    if (extents->layouts_used + more <= extents->layouts_capacity)
        return GSC_OK;
    size_t capacity = 2 * (extents->layouts_used + more);
    int64_t *layouts = capacity < UINT32_MAX ? realloc(extents->layouts, capacity * sizeof *layouts) : NULL;
    if (!layouts)
        return gsc_fail(GSC_ERR_MEMORY, "no memory to note the strides of %zu gradients", extents->count);
    extents->layouts = layouts;
    extents->layouts_capacity = capacity;
    return GSC_OK;
}

__attribute__((noinline)) static gsc_status take_layout(gsc__extents *extents, const gsc__view *view,
                                                        gsc__extent *extent)
{
    gsc__layout layout;
    gsc__layout_collapse(view->tensor, view->kind, &layout);
    size_t n = (size_t)layout.ndim;
    GSC_TRY(reserve_layout(extents, 1 + 2 * n));
    int64_t *copy = extents->layouts + extents->layouts_used;
    extent->layout = (uint32_t)extents->layouts_used + 1;
    extents->layouts_used += 1 + 2 * n;
    copy[0] = layout.ndim;
    memcpy(copy + 1, layout.shape, n * sizeof *copy);
    memcpy(copy + 1 + n, layout.stride, n * sizeof *copy);
    return GSC_OK;
}

gsc_status gsc__extents_take(gsc__extents *extents, const gsc__list *list)
{
    extents->valid = false;
    GSC_TRY(reserve(extents, list->count));
    extents->count = list->count;
    extents->layouts_used = 0;
    for (size_t i = 0; i < list->count; i++) {
        const gsc__view *view = &list->views[i];
        extents->list[i] = (gsc__extent){
            .start = (uintptr_t)view->start, .end = gsc__view_end(view), .index = view->index, .kind = view->kind};
        if (view->dense)
            continue;
        gsc_status status = take_layout(extents, view, &extents->list[i]);
        if (status != GSC_OK) {
            extents->count = 0;
            return status;
        }
    }
    return GSC_OK;
}

static void layout_of(const gsc__extents *extents, const gsc__extent *extent, gsc__layout *out)
{
    const size_t size = gsc__kind_size(extent->kind);
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): the kinds of views have a size */
    const int64_t dense[] = {1, (int64_t)((extent->end - extent->start) / size), 1};
    const int64_t *copy = extent->layout ? extents->layouts + extent->layout - 1 : dense;
    out->data = (char *)extent->start;
    out->kind = extent->kind;
    out->ndim = (int)copy[0];
    memcpy(out->shape, copy + 1, (size_t)out->ndim * sizeof *copy);
    memcpy(out->stride, copy + 1 + out->ndim, (size_t)out->ndim * sizeof *copy);
}

bool gsc__extents_share(const gsc__extents *a, size_t a_position, const gsc__extents *b, size_t b_position)
{
    const gsc__extent *one = &a->list[a_position], *other = &b->list[b_position];
    if (one->end <= other->start || other->end <= one->start)
        return false;
    if (one->layout == 0 && other->layout == 0)
        return true;
    gsc__layout one_layout, other_layout;
    layout_of(a, one, &one_layout);
    layout_of(b, other, &other_layout);
    return gsc__pair_overlap(&one_layout, &other_layout) != GSC_DISJOINT;
}

void gsc__extents_free(gsc__extents *extents)
{
    free(extents->list);
    free(extents->layouts);
    *extents = (gsc__extents){0};
}
