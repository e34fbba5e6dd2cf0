/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.h: whether strides reach one address twice. */
#ifndef GSC_GRADIENTS_OVERLAP_H
#define GSC_GRADIENTS_OVERLAP_H

#include "gradients/layout.h"

typedef enum gsc__overlap {
    GSC_DISJOINT,
    GSC_OVERLAPPING,
    GSC_UNDECIDED /* three or more dimensions, neither nested nor two of them overlapping */
} gsc__overlap;

/* Whether two elements of one tensor share memory. Of a collapsed layout. */
gsc__overlap gsc__self_overlap(const gsc__layout *collapsed);

/* Returns true if no element of a shares memory with one of b, false if some do or if it is undecided. Of collapsed
 * layouts. Decided are layouts that lie one behind the other in memory, and layouts interleaved in one period: columns
 * of one matrix, real and imaginary parts. */
bool gsc__are_disjoint(const gsc__layout *a, const gsc__layout *b);

#endif
