/* SPDX-License-Identifier: Apache-2.0 */
/* view.h: checking a caller's DLTensor. Loops trust what has passed. */
#ifndef GSC_GRADIENTS_VIEW_H
#define GSC_GRADIENTS_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype_kind.h"
#include "gradscaler/dtype.h"
#include "gradscaler/status.h"

/* The tensor that a message speaks of: `api: what`, `api: what 3` or `api: what 3 ("name")`. */
typedef struct gsc__message_subject {
    const char *api;  /* the public function */
    const char *what; /* the parameter, or what a list holds */
    bool listed;      /* index counts */
    size_t index;
    const char *name; /* may be NULL */
} gsc__message_subject;

/* Writes the subject in words into text, cut to size; returns text. */
const char *gsc__message_subject_text(const gsc__message_subject *subject, char *text, size_t size);

/* `gradient 3` or `gradient 3 ("name")`, with at most 120 bytes of the name: a message has room for two. */
typedef struct gsc__gradient_text {
    char text[160];
} gsc__gradient_text;
gsc__gradient_text gsc__describe_gradient(size_t index, const char *name /* may be NULL */);

/* The devices whose tensors pass besides the CPU's. Their elements are not touched here. */
typedef struct gsc__served {
    DLDevice device; /* the first of them, whose compact tensors are checked fast */
    gsc_status (*check)(DLDevice device, const char *api); /* of others: GSC_ERR_DEVICE, with a message that begins with
                                                              `api` */
} gsc__served;

typedef struct gsc__view_rules {
    bool writes; /* elements will be written: refuse strides that reach one twice */
    bool allow_fp16;
    const gsc__served *served; /* NULL: the CPU alone */
} gsc__view_rules;

/* A checked tensor. */
typedef struct gsc__view {
    const DLTensor *tensor;
    char *start;  /* lowest address of an element; NULL without elements */
    size_t count; /* elements */
    gsc__kind kind;
    uint32_t dense : 1;   /* in some order the elements are `count` neighbours from start on */
    uint32_t index : 31;  /* the gradient's; only in a list */
    size_t first_element; /* elements of the views before this one in its list */
    size_t first_block;   /* and blocks; only where a norm is wanted */
} gsc__view;

/* Checks everything that a loop relies on: dtype, device, shape, extent, data, alignment, and with rules->writes that
 * no element is reached twice. tensor must not be NULL. After an error *out is unspecified. */
gsc_status gsc__view_check(const DLTensor *tensor, const gsc__view_rules *rules, const gsc__message_subject *subject,
                           gsc__view *out);

#endif
