/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h: from a DLTensor of a caller to something that loops can trust: a checked view, and its elements as rows. */
#ifndef GSC_KERNELS_LAYOUT_H
#define GSC_KERNELS_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gradscaler/dtype.h"
#include "gradscaler/status.h"
#include "kernels/kind.h"

enum { GSC_MAX_NDIM = 64 };

/* Which tensor of which call, for messages: `caller: what`, `caller: what 3 ("name")`. */
typedef struct gsc_place {
    const char *caller;
    const char *what;
    bool listed; /* index counts */
    size_t index;
    const char *name; /* may be NULL */
} gsc_place;

typedef struct gsc_view_rules {
    bool writes; /* elements will be written: refuse strides that reach one twice */
    bool allow_fp16;
} gsc_view_rules;

/* A checked tensor. */
typedef struct gsc_view {
    const DLTensor *tensor;
    char *start;  /* lowest address of an element; NULL without elements */
    size_t count; /* elements */
    gsc_kind kind;
    bool dense;           /* in some order the elements are `count` neighbours from start on */
    size_t first_element; /* elements and blocks of the views before this one in its list */
    size_t first_block;
} gsc_view;

/* false: none of the four. */
bool gsc_kind_of(DLDataType dtype, gsc_kind *kind);

/* Checks everything that a loop relies on: dtype, device, shape, extent, data, alignment, and with rules->writes that
 * no element is reached twice. tensor must not be NULL. After an error *out is unspecified. */
gsc_status gsc_view_check(const DLTensor *tensor, const gsc_view_rules *rules, const gsc_place *place, gsc_view *out);

/* The place in words, into text; returns text. */
const char *gsc_place_text(const gsc_place *place, char *text, size_t size);

/* A checked tensor's elements: innermost dimension first, at least one dimension, strides in elements. */
typedef struct gsc_layout {
    char *data; /* the element with all indices zero */
    gsc_kind kind;
    int ndim;
    int64_t shape[GSC_MAX_NDIM], stride[GSC_MAX_NDIM];
} gsc_layout;

/* Keeps the row-major order of the elements; dimensions that are one in memory are merged. */
void gsc_layout_logical(const DLTensor *tensor, gsc_kind kind, gsc_layout *out);
/* Any order: strides positive and ascending (zero strides last), everything merged that can be. Elementwise loops see a
 * transposed dense tensor as one run. */
void gsc_layout_collapse(const DLTensor *tensor, gsc_kind kind, gsc_layout *out);

/* Elements [first, first + count) of a layout, row by row. */
typedef struct gsc_rows {
    const gsc_layout *layout;
    int64_t index[GSC_MAX_NDIM];
    size_t left;
} gsc_rows;

typedef struct gsc_row {
    char *data;
    size_t count;
} gsc_row; /* their stride is layout->stride[0] */

void gsc_rows_begin(gsc_rows *rows, const gsc_layout *layout, size_t first, size_t count);
bool gsc_rows_next(gsc_rows *rows, gsc_row *row);

/* Copies elements [first, first + count) to or from neighbours in memory. */
void gsc_layout_pack(const gsc_layout *layout, size_t first, size_t count, void *packed);
void gsc_layout_unpack(const gsc_layout *layout, size_t first, size_t count, const void *packed);

#endif
