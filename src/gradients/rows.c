/* SPDX-License-Identifier: Apache-2.0 */
/* rows.c: walking a layout that is not one run. */
#include "gradients/rows.h"

#include <string.h>

void gsc__rows_begin(gsc__rows *rows, const gsc__layout *layout, size_t first, size_t count)
{
    *rows = (gsc__rows){.layout = layout, .left = count};
    for (int d = 0; d < layout->ndim; d++) {
        rows->index[d] = (int64_t)(first % (size_t)layout->shape[d]);
        first /= (size_t)layout->shape[d];
    }
}

bool gsc__rows_next(gsc__rows *rows, gsc__row *row)
{
    if (rows->left == 0)
        return false;
    const gsc__layout *layout = rows->layout;
    int64_t offset = 0;
    for (int d = 0; d < layout->ndim; d++)
        offset += rows->index[d] * layout->stride[d];
    size_t in_row = (size_t)(layout->shape[0] - rows->index[0]);
    row->data = layout->data + offset * (int64_t)gsc__kind_size(layout->kind);
    row->count = in_row < rows->left ? in_row : rows->left;
    rows->left -= row->count;
    rows->index[0] = 0; /* the next row, if there is one, is a whole or a first part */
    for (int d = 1; d < layout->ndim && ++rows->index[d] == layout->shape[d]; d++)
        rows->index[d] = 0;
    return true;
}

/* Elements are moved as bits, whatever their type. */
typedef uint16_t __attribute__((may_alias)) bits16;
typedef uint32_t __attribute__((may_alias)) bits32;
typedef uint64_t __attribute__((may_alias)) bits64;

/* Strides in elements. Unrolled: a loop of one element slows down by 40 % or more where it begins at an unlucky
 * address. */
static void copy_strided(void *to, int64_t to_stride, const void *from, int64_t from_stride, size_t count,
                         gsc__kind kind)
{
    size_t size = gsc__kind_size(kind);
    int64_t n = (int64_t)count;
    if (to_stride == 1 && from_stride == 1) {
        memcpy(to, from, count * size);
    } else if (size == sizeof(bits16)) {
#pragma GCC unroll 4
        for (int64_t i = 0; i < n; i++)
            ((bits16 *)to)[i * to_stride] = ((const bits16 *)from)[i * from_stride];
    } else if (size == sizeof(bits32)) {
#pragma GCC unroll 4
        for (int64_t i = 0; i < n; i++)
            ((bits32 *)to)[i * to_stride] = ((const bits32 *)from)[i * from_stride];
    } else {
#pragma GCC unroll 4
        for (int64_t i = 0; i < n; i++)
            ((bits64 *)to)[i * to_stride] = ((const bits64 *)from)[i * from_stride];
    }
}

void gsc__rows_pack(const gsc__layout *layout, size_t first, size_t count, void *packed)
{
    gsc__rows rows;
    gsc__row row;
    char *to = packed;
    for (gsc__rows_begin(&rows, layout, first, count); gsc__rows_next(&rows, &row);) {
        copy_strided(to, 1, row.data, layout->stride[0], row.count, layout->kind);
        to += row.count * gsc__kind_size(layout->kind);
    }
}

void gsc__rows_unpack(const gsc__layout *layout, size_t first, size_t count, const void *packed)
{
    gsc__rows rows;
    gsc__row row;
    const char *from = packed;
    for (gsc__rows_begin(&rows, layout, first, count); gsc__rows_next(&rows, &row);) {
        copy_strided(row.data, layout->stride[0], from, 1, row.count, layout->kind);
        from += row.count * gsc__kind_size(layout->kind);
    }
}
