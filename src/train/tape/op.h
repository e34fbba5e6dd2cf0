/* SPDX-License-Identifier: Apache-2.0 */
/* op.h: what an op is, a call of one, and its record on the tape.
 *
 * gsc__op_<name>_check     refuses wrong dtypes and shapes, and gives the result's dtype and shape
 * gsc__op_<name>_forward   computes the result
 * gsc__op_<name>_backward  computes the inputs' gradients from the result's */
#ifndef GSC_TRAIN_TAPE_OP_H
#define GSC_TRAIN_TAPE_OP_H

#include "gradscaler/tape.h"
#include "train/tape/autocast.h"
#include "train/tensor/tensor.h"

enum { GSC_OP_INPUTS = 3 };

typedef struct gsc__op gsc__op;

/* A call that is about to be made. */
typedef struct gsc__call {
    const gsc__op *op;
    gsc_tensor *in[GSC_OP_INPUTS];     /* NULL: an optional one that is absent */
    gsc__kind in_kinds[GSC_OP_INPUTS]; /* the dtypes to which the inputs are cast before the op runs */
    gsc__kind out_kind;                /* the result's dtype and shape: the caller of cast gives the dtype, that of */
    int32_t ndim;                      /* reshape the shape; else check sets them */
    int64_t shape[GSC_TENSOR_MAX_DIMS];
    double factor;      /* of scale_loss */
    size_t saved_bytes; /* set by check: memory that forward fills for backward, besides inputs and result */
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
    int required, inputs; /* the first `required` of `inputs` operands must be there */
    const char *operands[GSC_OP_INPUTS];
    gsc_status (*check)(gsc__call *call);
    gsc_status (*forward)(const gsc__node *node, gsc_tape *tape);
    /* Writes the gradient of in[i] to grads[i] (in[i]'s shape and dtype) where that is not NULL. The result's gradient
     * is in node->out->grad. */
    gsc_status (*backward)(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS]);
};

/* The three functions of an op, and its struct, from its line in a list of ops (ops/op_list.h). */
#define GSC_OP_DECLARE(op, ...)                                                                                        \
    gsc_status gsc__op_##op##_check(gsc__call *call);                                                                  \
    gsc_status gsc__op_##op##_forward(const gsc__node *node, gsc_tape *tape);                                          \
    gsc_status gsc__op_##op##_backward(const gsc__node *node, gsc_tape *tape, void *const grads[GSC_OP_INPUTS]);
#define GSC_OP_STRUCT(op, autocast, required_inputs, all_inputs, tolerance, ...)                                       \
    {                                                                                                                  \
        .name = "gsc_" #op, .policy = GSC_POLICY_##autocast, .required = required_inputs, .inputs = all_inputs,        \
        .operands = {__VA_ARGS__}, .check = gsc__op_##op##_check, .forward = gsc__op_##op##_forward,                   \
        .backward = gsc__op_##op##_backward                                                                            \
    }

#endif
