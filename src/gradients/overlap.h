/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.h: whether strides reach one address twice, in one tensor or in two. */
#ifndef GSC_GRADIENTS_OVERLAP_H
#define GSC_GRADIENTS_OVERLAP_H

#include "gradients/layout.h"

typedef enum gsc__overlap {
    GSC_DISJOINT,
    GSC_OVERLAPPING,
    GSC_UNDECIDED /* too irregular */
} gsc__overlap;

/* Whether two elements of one tensor share memory. Of a collapsed layout. */
gsc__overlap gsc__self_overlap(const gsc__layout *collapsed);

/* Whether an element of a shares memory with one of b. Of collapsed layouts; strides of 0 are fine. Undecided only
 * where both have several large dimensions and steps without a common divisor. */
gsc__overlap gsc__pair_overlap(const gsc__layout *a, const gsc__layout *b);

#endif
