/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: what an op is: one line of ops_list.h and three functions.
 *
 * gsc__op_<name>_check     refuses wrong dtypes and shapes, and says what the result is
 * gsc__op_<name>_forward   computes the result
 * gsc__op_<name>_backward  computes the inputs' gradients from the result's */
#ifndef GSC_TRAIN_TAPE_OP_H
#define GSC_TRAIN_TAPE_OP_H

#include "gradscaler/tape.h"
#include "train/tape/autocast.h"
#include "train/tape/op_list.h"
#include "train/tensor/tensor.h"

enum { GSC_OP_INPUTS = 3 };

typedef struct gsc__op gsc__op;

/* A call that is about to be made. */
typedef struct gsc__call {
    const gsc__op *op;
    gsc_tensor *in[GSC_OP_INPUTS];  /* NULL: an optional one that is absent */
    gsc__kind kinds[GSC_OP_INPUTS]; /* the dtypes that they will have, once cast */
    gsc__kind kind;                 /* the result's, with ndim and shape; given to cast and reshape, */
    int32_t ndim;                   /* else filled in by check */
    int64_t shape[GSC_TENSOR_MAX_DIMS];
    double factor;      /* of scale_loss */
    size_t saved_bytes; /* wanted by check: what forward leaves for backward besides inputs and result */
} gsc__call;

/* A call that was made. */
typedef struct gsc__node {
    struct gsc__node *previous;
    const gsc__op *op;
    gsc_tensor *in[GSC_OP_INPUTS];
    gsc_tensor *out;
    double factor;
    void *saved;
} gsc__node;

struct gsc__op {
    const char *name; /* "gsc_add" */
    gsc__policy policy;
    int required, inputs; /* of `inputs` operands the first `required` must be there */
    const char *operands[GSC_OP_INPUTS];
    gsc_status (*check)(gsc__call *call);
    gsc_status (*forward)(const gsc__node *node, gsc_tape *tape);
    /* Writes the gradient of in[i] to grads[i] (in[i]'s shape and dtype) wherever that is not NULL. The result's is in
     * node->out->grad. */
    gsc_status (*backward)(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS]);
};

#define GSC_OP_DECLARE(name, ...)                                                                                      \
    gsc_status gsc__op_##name##_check(gsc__call *call);                                                                \
    gsc_status gsc__op_##name##_forward(const gsc__node *node, gsc_tape *tape);                                        \
    gsc_status gsc__op_##name##_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS]);
GSC_OPS(GSC_OP_DECLARE)
#undef GSC_OP_DECLARE

#define GSC_OP_ID(name, ...) GSC_OP_##name,
enum { GSC_OPS(GSC_OP_ID) GSC_OP_COUNT };
#undef GSC_OP_ID

extern const gsc__op gsc__op_table[GSC_OP_COUNT];

/* Makes a call: NULL operands, the tape, autocast, check, forward, record. */
gsc_tensor *gsc__op_apply(gsc__call *call);

/* For check functions. All inputs must be of one floating-point dtype, which becomes the result's. */
gsc_status gsc__check_one_float(gsc__call *call);

#endif
