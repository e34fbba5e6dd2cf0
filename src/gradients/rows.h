/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h: walking and copying a layout that is not one run. */
#ifndef GSC_GRADIENTS_ROWS_H
#define GSC_GRADIENTS_ROWS_H

#include <stddef.h>

#include "gradients/layout.h"

/* Elements [first, first + count) of a layout, row by row. */
typedef struct gsc__rows {
    const gsc__layout *layout;
    int64_t index[GSC_MAX_NDIM];
    size_t left;
} gsc__rows;

typedef struct gsc__row {
    char *data;
    size_t count;
} gsc__row; /* its stride is layout->stride[0] */

void gsc__rows_begin(gsc__rows *rows, const gsc__layout *layout, size_t first, size_t count);
bool gsc__rows_next(gsc__rows *rows, gsc__row *row);

/* Copies elements [first, first + count) to or from neighbours in memory. */
void gsc__rows_pack(const gsc__layout *layout, size_t first, size_t count, void *packed);
void gsc__rows_unpack(const gsc__layout *layout, size_t first, size_t count, const void *packed);

/* Elements [first, first + count) as neighbours in memory: where they lie, or else a copy in `packed`. */
static inline void *gsc__rows_neighbours(const gsc__layout *layout, size_t first, size_t count, void *packed)
{
    if (gsc__layout_is_run(layout))
        return layout->data + first * gsc__kind_size(layout->kind);
    gsc__rows_pack(layout, first, count, packed);
    return packed;
}

#endif
