/* SPDX-License-Identifier: Apache-2.0 */
/* extents.h: which memory an optimizer's gradients took when they were last checked. */
#ifndef GSC_CORE_EXTENTS_H
#define GSC_CORE_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradients/list.h"

typedef struct gsc__extent {
    uintptr_t start, end; /* addresses of the first element and behind the last one */
    size_t index;         /* the gradient's */
    gsc__kind kind;
    uint32_t layout; /* 0: the elements are neighbours; else one more than where the layout begins in `layouts` */
} gsc__extent;

/* In the order of the gradients; those without elements are left out. Starts zeroed. */
typedef struct gsc__extents {
    gsc__extent *list;
    size_t count, capacity;
    int64_t *layouts; /* of strided gradients: the number of dimensions, their shapes, their strides in elements */
    size_t layouts_used, layouts_capacity;
    bool valid;    /* the gradients have passed every check */
    bool distinct; /* and none was listed twice */
} gsc__extents;

/* Whether a view is what the extent at `position` was made of. */
bool gsc__extent_is(const gsc__extents *extents, size_t position, const gsc__view *view);
/* Whether the extents, valid or not, are those of this list, to which all gradients have been added. */
bool gsc__extents_match(const gsc__extents *extents, const gsc__list *list);
/* Becomes those of this list, not yet valid. Allocates when the list grows (GSC_ERR_MEMORY). */
gsc_status gsc__extents_take(gsc__extents *extents, const gsc__list *list);
/* Whether an element of one extent shares memory with one of the other; true if undecided. */
bool gsc__extents_share(const gsc__extents *a, size_t a_position, const gsc__extents *b, size_t b_position);
void gsc__extents_free(gsc__extents *extents);

#endif
