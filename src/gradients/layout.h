/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h: from a DLTensor of a caller to something that loops can trust: a checked view, and its elements as rows. */
#ifndef GSC_GRADIENTS_LAYOUT_H
#define GSC_GRADIENTS_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype_kind.h"
#include "gradscaler/dtype.h"
#include "gradscaler/status.h"

enum {
    GSC_MAX_NDIM = 64,
    GSC_GRADIENT_BLOCK = 4096 /* elements; a packed block fits the first cache and a small stack */
};

static inline size_t gsc__gradient_blocks(size_t elements)
{
    return elements / GSC_GRADIENT_BLOCK + (elements % GSC_GRADIENT_BLOCK != 0);
}

/* Which tensor of which call, for messages: `api: what`, `api: what 3 ("name")`. */
typedef struct gsc__message_subject {
    const char *api;
    const char *what;
    bool listed; /* index counts */
    size_t index;
    const char *name; /* may be NULL */
} gsc__message_subject;

typedef struct gsc__view_rules {
    bool writes; /* elements will be written: refuse strides that reach one twice */
    bool allow_fp16;
} gsc__view_rules;

/* A checked tensor. */
typedef struct gsc__view {
    const DLTensor *tensor;
    char *start;  /* lowest address of an element; NULL without elements */
    size_t count; /* elements */
    gsc__kind kind;
    bool dense;           /* in some order the elements are `count` neighbours from start on */
    size_t first_element; /* elements of the views before this one in its list */
    size_t first_block;   /* and blocks; only where a norm is wanted */
} gsc__view;

/* Checks everything that a loop relies on: dtype, device, shape, extent, data, alignment, and with rules->writes that
 * no element is reached twice. tensor must not be NULL. After an error *out is unspecified. */
gsc_status gsc__view_check(const DLTensor *tensor, const gsc__view_rules *rules, const gsc__message_subject *subject,
                           gsc__view *out);

/* Short cuts for the tensor that nearly all are: valid, compact, on the CPU, of ordinary extent. */
enum { GSC_FAST_BITS = 40 }; /* of the number of elements, and of byte_offset: far from where addresses wrap around */

/* false: not one of float32, float64, bfloat16 on the CPU. */
static inline bool gsc__fast_kind(const DLTensor *tensor, gsc__kind *kind)
{
    if (tensor->device.device_type != kDLCPU || tensor->dtype.lanes != 1)
        return false;
    if (tensor->dtype.code == kDLFloat && tensor->dtype.bits == 32)
        *kind = GSC_F32;
    else if (tensor->dtype.code == kDLFloat && tensor->dtype.bits == 64)
        *kind = GSC_F64;
    else if (tensor->dtype.code == kDLBfloat && tensor->dtype.bits == 16)
        *kind = GSC_BF16;
    else
        return false;
    return true;
}

/* Elements; 0: none, not compact, or unusual. */
static inline size_t gsc__fast_count(const DLTensor *tensor)
{
    if ((uint32_t)tensor->ndim > GSC_MAX_NDIM || (tensor->ndim > 0 && !tensor->shape))
        return 0;
    uint64_t count = 1;
    for (int d = tensor->ndim - 1; d >= 0; d--) {
        uint64_t size = (uint64_t)tensor->shape[d]; /* a negative one is huge */
        if (tensor->strides && (uint64_t)tensor->strides[d] != count && size != 1)
            return 0;
        if (size == 0 || __builtin_mul_overflow(count, size, &count) || count >> GSC_FAST_BITS != 0)
            return 0;
    }
    return count;
}

/* NULL: none, or unusual. */
static inline char *gsc__fast_start(const DLTensor *tensor)
{
    const int top = 8 * sizeof tensor->data - 2; /* data at the end of memory could wrap around to its beginning */
    if (!tensor->data || (uintptr_t)tensor->data >> top != 0 || tensor->byte_offset >> GSC_FAST_BITS != 0)
        return NULL;
    return (char *)tensor->data + tensor->byte_offset;
}

/* false says nothing; gsc__view_check does. */
static inline bool gsc__view_fast(const DLTensor *tensor, gsc__view *out)
{
    if (!gsc__fast_kind(tensor, &out->kind))
        return false;
    char *start = gsc__fast_start(tensor);
    size_t count = gsc__fast_count(tensor), misaligned = (uintptr_t)start & (gsc__kind_size(out->kind) - 1);
    if (!start || count == 0 || misaligned != 0)
        return false;
    out->tensor = tensor;
    out->start = start;
    out->count = count;
    out->dense = true;
    return true;
}

/* Was this view taken of this tensor, and would it be the same today? false says nothing. */
static inline bool gsc__view_unchanged(const gsc__view *view, const DLTensor *tensor)
{
    gsc__kind kind;
    return view->tensor == tensor && gsc__fast_kind(tensor, &kind) && view->kind == kind &&
           view->start == gsc__fast_start(tensor) && view->count == gsc__fast_count(tensor) && view->dense;
}

/* The subject in words, into text; returns text. */
const char *gsc__message_subject_text(const gsc__message_subject *subject, char *text, size_t size);

/* A checked tensor's elements: innermost dimension first, at least one dimension, strides in elements. */
typedef struct gsc__layout {
    char *data; /* the element with all indices zero */
    gsc__kind kind;
    int ndim;
    int64_t shape[GSC_MAX_NDIM], stride[GSC_MAX_NDIM];
} gsc__layout;

/* Keeps the row-major order of the elements; dimensions that are one in memory are merged. */
void gsc__layout_logical(const DLTensor *tensor, gsc__kind kind, gsc__layout *out);
/* Any order: strides positive and ascending (zero strides last), everything merged that can be. Elementwise loops see a
 * transposed dense tensor as one run. */
void gsc__layout_collapse(const DLTensor *tensor, gsc__kind kind, gsc__layout *out);

/* Elements [first, first + count) of a layout, row by row. */
typedef struct gsc__rows {
    const gsc__layout *layout;
    int64_t index[GSC_MAX_NDIM];
    size_t left;
} gsc__rows;

typedef struct gsc__row {
    char *data;
    size_t count;
} gsc__row; /* their stride is layout->stride[0] */

void gsc__rows_begin(gsc__rows *rows, const gsc__layout *layout, size_t first, size_t count);
bool gsc__rows_next(gsc__rows *rows, gsc__row *row);

/* Copies elements [first, first + count) to or from neighbours in memory. */
void gsc__layout_pack(const gsc__layout *layout, size_t first, size_t count, void *packed);
void gsc__layout_unpack(const gsc__layout *layout, size_t first, size_t count, const void *packed);

#endif
