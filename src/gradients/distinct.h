/* SPDX-License-Identifier: Apache-2.0 */
/* distinct.h: which views of a list are listed twice, and which share elements without being the same. */
#ifndef GSC_GRADIENTS_DISTINCT_H
#define GSC_GRADIENTS_DISTINCT_H

#include <stddef.h>
#include <stdint.h>

#include "gradients/overlap.h"
#include "gradients/view.h"

/* A view and an address of it: its start or its end. */
typedef struct gsc__address {
    uintptr_t address;
    size_t view;
} gsc__address;

/* The address behind the last element of a view that is not dense. */
uintptr_t gsc__strided_end(const gsc__view *view);

/* The address behind a view's last element. */
static inline uintptr_t gsc__view_end(const gsc__view *view)
{
    return view->dense ? (uintptr_t)view->start + view->count * gsc__kind_size(view->kind) : gsc__strided_end(view);
}

/* Whether two views reach the same elements of one kind, in whatever order. */
bool gsc__view_same_elements(const gsc__view *a, const gsc__view *b);
/* Whether two views share an element. */
gsc__overlap gsc__view_overlap(const gsc__view *a, const gsc__view *b);

/* Sets the count of each view to 0 that has the same elements as an earlier one. With `writes`, returns GSC_DISJOINT
 * only if no two of the others share an element, else the pair that does (or cannot be decided). work has room for 2n.
 */
gsc__overlap gsc__views_distinct(gsc__view *views, size_t n, bool writes, gsc__address *work, size_t pair[2]);

#endif
