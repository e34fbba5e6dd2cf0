/* SPDX-License-Identifier: Apache-2.0 */
/* shape_text.h: shapes of tensors in words, for messages. */
#ifndef GSC_BASE_SHAPE_TEXT_H
#define GSC_BASE_SHAPE_TEXT_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>

enum { GSC_SHAPE_TEXT_DIMS = 8 };

typedef struct gsc__shape_text {
    char text[GSC_SHAPE_TEXT_DIMS * 22 + 8]; /* the longest numbers */
} gsc__shape_text;

/* "[2, 3]", "[]"; of more than GSC_SHAPE_TEXT_DIMS dimensions the first, and "...". */
static inline gsc__shape_text gsc__shape_print(int32_t ndim, const int64_t *shape)
{
    gsc__shape_text out;
    size_t used = (size_t)snprintf(out.text, sizeof out.text, "[");
    for (int32_t d = 0; d < ndim && d < GSC_SHAPE_TEXT_DIMS; d++)
        used += (size_t)snprintf(out.text + used, sizeof out.text - used, d == 0 ? "%" PRId64 : ", %" PRId64, shape[d]);
    snprintf(out.text + used, sizeof out.text - used, ndim > GSC_SHAPE_TEXT_DIMS ? ", ...]" : "]");
    return out;
}

#endif
