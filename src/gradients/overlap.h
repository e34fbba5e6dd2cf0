/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.h: whether strides reach one address twice: exact, also for interleaved strides. */
#ifndef GSC_GRADIENTS_OVERLAP_H
#define GSC_GRADIENTS_OVERLAP_H

#include "gradients/layout.h"

typedef enum gsc__overlap {
    GSC_DISJOINT,
    GSC_OVERLAPPING,
    GSC_UNDECIDED /* so irregular that the search was given up */
} gsc__overlap;

/* Whether two elements of one tensor share memory. Of a collapsed layout. */
gsc__overlap gsc__self_overlap(const gsc__layout *collapsed);
/* Whether an element of a shares memory with one of b. Of collapsed layouts. */
gsc__overlap gsc__pair_overlap(const gsc__layout *a, const gsc__layout *b);

#endif
