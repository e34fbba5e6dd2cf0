/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.h: whether strides reach one address twice: exact, also for interleaved strides. */
#ifndef GSC_KERNELS_OVERLAP_H
#define GSC_KERNELS_OVERLAP_H

#include "gradients/layout.h"

typedef enum gsc_overlap {
    GSC_DISJOINT,
    GSC_OVERLAPPING,
    GSC_UNDECIDED /* so irregular that the search was given up */
} gsc_overlap;

/* Whether two elements of one tensor share memory. Of a collapsed layout. */
gsc_overlap gsc_self_overlap(const gsc_layout *collapsed);
/* Whether an element of a shares memory with one of b. Of collapsed layouts. */
gsc_overlap gsc_pair_overlap(const gsc_layout *a, const gsc_layout *b);

#endif
