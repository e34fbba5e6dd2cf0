/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h: the dimensions of a checked tensor, merged and in the order that a loop wants. */
#ifndef GSC_GRADIENTS_LAYOUT_H
#define GSC_GRADIENTS_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/dtype_kind.h"
#include "gradscaler/dtype.h"

enum { GSC_MAX_NDIM = 64 };

/* Innermost dimension first, at least one dimension, strides in elements. */
typedef struct gsc__layout {
    char *data; /* the element whose indices are all zero */
    gsc__kind kind;
    int ndim;
    int64_t shape[GSC_MAX_NDIM], stride[GSC_MAX_NDIM];
} gsc__layout;

/* Keeps the row-major order of the elements; neighbouring dimensions that one stride can walk become one. */
void gsc__layout_logical(const DLTensor *tensor, gsc__kind kind, gsc__layout *out);
/* The elements in any order: strides positive and ascending (zero strides last), dimensions merged wherever possible.
 * A transposed dense tensor becomes one run. */
void gsc__layout_collapse(const DLTensor *tensor, gsc__kind kind, gsc__layout *out);

/* Bytes from the first element to the end of the last, over the innermost `dimensions` dimensions of a collapsed
 * layout. */
int64_t gsc__layout_span(const gsc__layout *collapsed, int dimensions);
/* Whether the elements lie one after the other, in the order of the layout. */
static inline bool gsc__layout_is_run(const gsc__layout *layout) { return layout->ndim == 1 && layout->stride[0] == 1; }

#endif
