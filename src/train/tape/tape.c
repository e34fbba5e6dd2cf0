/* SPDX-License-Identifier: Apache-2.0 */
/* tape.c: what a tape owns, inputs and parameters on it, and the backward pass. */
#include "train/tape/tape.h"

#include <stdlib.h>
#include <string.h>

#include "base/dtype_text.h"
#include "base/fpenv.h"
#include "base/try.h"
#include "train/tape/chain.h"
#include "train/tensor/convert.h"

gsc_status gsc_tape_create(gsc_tape **out)
{
    if (!out)
        return gsc_fail(GSC_ERR_VALUE, "gsc_tape_create: out is NULL");
    gsc_tape *tape = calloc(1, sizeof *tape);
    if (!tape)
        return gsc_fail(GSC_ERR_MEMORY, "gsc_tape_create: no memory for a tape");
    gsc_status status = gsc__dnnl_init(&tape->dnnl);
    if (status != GSC_OK) {
        free(tape);
        return status;
    }
    gsc__chain_begin();
    *out = tape;
    return GSC_OK;
}

void gsc_tape_free(gsc_tape *tape)
{
    if (!tape)
        return;
    gsc__arena_free(&tape->arena);
    gsc__dnnl_free(&tape->dnnl);
    free(tape);
}

void gsc_tape_clear(gsc_tape *tape)
{
    if (!tape)
        return;
    gsc__arena_clear(&tape->arena);
    tape->last = NULL;
    tape->casts = NULL;
    tape->ran_backward = false;
    gsc__chain_begin();
}

gsc_tensor *gsc__tape_tensor(gsc_tape *tape, gsc__kind kind, int32_t ndim, const int64_t *shape, size_t count)
{
    gsc_tensor *tensor = gsc__arena_alloc(&tape->arena, sizeof *tensor);
    void *elements = tensor ? gsc__arena_alloc(&tape->arena, count * gsc__kind_size(kind)) : NULL;
    if (!elements)
        return NULL;
    gsc__tensor_init(tensor, kind, ndim, shape, count);
    tensor->data.data = elements;
    tensor->tape = tape;
    return tensor;
}

void *gsc__tape_scratch(gsc_tape *tape, size_t count, gsc__kind kind)
{
    return gsc__arena_alloc(&tape->arena, count * gsc__kind_size(kind));
}

static gsc_status check_input(const gsc_tape *tape, const DLTensor *values, gsc__kind *kind, size_t *count)
{
    if (!tape || !values)
        return gsc_fail(GSC_ERR_VALUE, "gsc_tape_input: %s is NULL", tape ? "values" : "tape");
    *kind = gsc__kind_of(values->dtype);
    if (*kind == GSC_NO_KIND)
        return gsc__refuse_dtype("gsc_tape_input", "dtype", values->dtype, GSC_FLOAT_NAMES ", int64");
    if (!gsc__is_on_cpu(values))
        return gsc_fail(GSC_ERR_DEVICE, "gsc_tape_input: values is on %s, only the CPU is served",
                        gsc__describe_device(values->device).text);
    GSC_TRY(gsc__shape_count("gsc_tape_input", *kind, values->ndim, values->shape, count));
    if (*count > 0 && !values->data)
        return gsc_fail(GSC_ERR_VALUE, "gsc_tape_input: values->data is NULL with %zu elements", *count);
    return GSC_OK;
}

/* Element by element, the last dimension fastest. */
static void copy_strided(const DLTensor *values, size_t size, size_t count, char *to)
{
    const char *base = (const char *)values->data + values->byte_offset;
    int64_t index[GSC_TENSOR_MAX_DIMS] = {0};
    int64_t offset = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(to + i * size, base + offset * (int64_t)size, size);
        for (int32_t d = values->ndim - 1; d >= 0; d--) {
            offset += values->strides[d];
            if (++index[d] < values->shape[d])
                break;
            offset -= values->strides[d] * values->shape[d];
            index[d] = 0;
        }
    }
}

static gsc_tensor *put_input(gsc_tape *tape, const DLTensor *values)
{
    gsc__kind kind = GSC_NO_KIND;
    size_t count = 0;
    if (check_input(tape, values, &kind, &count) != GSC_OK)
        return NULL;
    gsc_tensor *tensor = gsc__tape_tensor(tape, kind, values->ndim, values->shape, count);
    if (!tensor || count == 0)
        return tensor;
    if (gsc__is_compact(values))
        memcpy(tensor->data.data, (const char *)values->data + values->byte_offset, gsc__tensor_bytes(tensor));
    else
        copy_strided(values, gsc__kind_size(kind), count, tensor->data.data);
    return tensor;
}

gsc_tensor *gsc_tape_input(gsc_tape *tape, const DLTensor *values) { return gsc__chain_note(put_input(tape, values)); }

static gsc_tensor *put_param(gsc_tape *tape, gsc_tensor *param)
{
    if (!param)
        return NULL;
    if (!tape) {
        gsc_fail(GSC_ERR_VALUE, "gsc_tape_param: tape is NULL");
        return NULL;
    }
    if (param->tape == tape)
        return param;
    if (param->tape) {
        gsc_fail(GSC_ERR_VALUE, "gsc_tape_param: param belongs to another tape");
        return NULL;
    }
    gsc_tensor *handle = gsc__arena_alloc(&tape->arena, sizeof *handle);
    if (!handle)
        return NULL;
    gsc__tensor_init(handle, param->kind, param->data.ndim, param->shape, param->count);
    handle->data.data = param->data.data;
    handle->tape = tape;
    handle->param = param;
    return handle;
}

gsc_tensor *gsc_tape_param(gsc_tape *tape, gsc_tensor *param) { return gsc__chain_note(put_param(tape, param)); }

/* Memory for a gradient: a parameter's is kept over zero_grad. */
static gsc_status provide_grad(gsc_tape *tape, gsc_tensor *tensor)
{
    if (tensor->grad.data)
        return GSC_OK;
    size_t bytes = gsc__tensor_bytes(tensor);
    if (tensor->tape) {
        tensor->grad.data = gsc__arena_alloc(&tape->arena, bytes);
        return tensor->grad.data ? GSC_OK : GSC_ERR_MEMORY;
    }
    tensor->grad.data = gsc__tensor_alloc(bytes);
    if (!tensor->grad.data)
        return gsc_fail(GSC_ERR_MEMORY, "gsc_tape_backward: no memory for the gradient of parameter \"%s\" (%zu bytes)",
                        tensor->name ? tensor->name : "", bytes);
    return GSC_OK;
}

static bool wants_grad(const gsc_tensor *in) { return in && in->requires_grad; }

/* Inputs without a gradient so far: backward writes it in place. */
static gsc_status provide_first(gsc_tape *tape, const gsc__node *node, void *grads[GSC_OP_INPUTS])
{
    for (int i = 0; i < node->op->inputs; i++) {
        gsc_tensor *in = node->in[i];
        if (!wants_grad(in) || in->has_grad)
            continue;
        GSC_TRY(provide_grad(tape, in));
        grads[i] = in->grad.data;
        in->has_grad = true; /* so that the same tensor as a later input adds */
    }
    return GSC_OK;
}

/* The others: backward writes to scratch, which is then added. */
static gsc_status provide_scratch(gsc_tape *tape, const gsc__node *node, void *grads[GSC_OP_INPUTS])
{
    for (int i = 0; i < node->op->inputs; i++) {
        const gsc_tensor *in = node->in[i];
        if (!wants_grad(in) || grads[i])
            continue;
        grads[i] = gsc__tape_scratch(tape, in->count, in->kind);
        if (!grads[i])
            return GSC_ERR_MEMORY;
    }
    return GSC_OK;
}

static gsc_status compute_grads(gsc_tape *tape, const gsc__node *node, void *grads[GSC_OP_INPUTS])
{
    GSC_TRY(provide_scratch(tape, node, grads));
    _Static_assert(GSC_OP_INPUTS == 3, "grads");
    if (!grads[0] && !grads[1] && !grads[2]) /* the leaves were frozen after the forward pass */
        return GSC_OK;
    GSC_TRY(node->op->backward(node, tape, grads));
    for (int i = 0; i < node->op->inputs; i++)
        if (grads[i] && grads[i] != node->in[i]->grad.data)
            gsc__accumulate(node->in[i]->kind, node->in[i]->grad.data, grads[i], node->in[i]->count);
    return GSC_OK;
}

static gsc_status node_backward(gsc_tape *tape, const gsc__node *node)
{
    void *grads[GSC_OP_INPUTS] = {NULL};
    GSC_TRY(provide_first(tape, node, grads));
    gsc__arena_mark mark = gsc__arena_get_mark(&tape->arena);
    gsc_status status = compute_grads(tape, node, grads);
    gsc__arena_rewind(&tape->arena, mark);
    return status;
}

static gsc_status check_root(const gsc_tape *tape, const gsc_tensor *root)
{
    if (!tape)
        return gsc_fail(GSC_ERR_VALUE, "gsc_tape_backward: tape is NULL");
    if (!root) {
        if (gsc_last_error()[0] == '\0') /* a failed op returned the NULL: keep its message */
            gsc_fail(GSC_ERR_VALUE, "gsc_tape_backward: root is NULL");
        return GSC_ERR_VALUE;
    }
    if (root->tape != tape)
        return gsc_fail(GSC_ERR_VALUE, "gsc_tape_backward: root is not on this tape");
    if (root->count != 1)
        return gsc_fail(GSC_ERR_VALUE,
                        "gsc_tape_backward: root has shape %s, one element is needed: gsc_sum or "
                        "gsc_mean make one",
                        gsc__tensor_shape_text(root).text);
    if (!gsc_tensor_get_requires_grad(root))
        return gsc_fail(GSC_ERR_VALUE, "gsc_tape_backward: root depends on no tensor that requires a gradient; see "
                                       "gsc_tensor_set_requires_grad");
    if (tape->ran_backward)
        return gsc_fail(GSC_ERR_STATE, "gsc_tape_backward: this tape has run backward; gsc_tape_clear it, record "
                                       "again, and then run backward");
    return GSC_OK;
}

/* The root's gradient with respect to itself is 1. */
static gsc_status set_root_grad(gsc_tape *tape, gsc_tensor *root)
{
    GSC_TRY(provide_grad(tape, root));
    const float one = 1.0f;
    uint64_t element; /* holds one element of any dtype */
    gsc__convert(GSC_F32, &one, root->kind, &element, 1);
    if (root->has_grad)
        gsc__accumulate(root->kind, root->grad.data, &element, 1);
    else
        memcpy(root->grad.data, &element, gsc__tensor_bytes(root));
    root->has_grad = true;
    return GSC_OK;
}

static gsc_status run_backward(gsc_tape *tape, gsc_tensor *root)
{
    GSC_TRY(set_root_grad(tape, root));
    for (const gsc__node *node = tape->last; node; node = node->previous)
        if (node->out->has_grad)
            GSC_TRY(node_backward(tape, node));
    return GSC_OK;
}

gsc_status gsc_tape_backward(gsc_tape *tape, gsc_tensor *root)
{
    gsc__chain_begin(); /* the chain ends here, however it ends */
    GSC_TRY(check_root(tape, root));
    tape->ran_backward = true;
    gsc__fpenv caller = gsc__fpenv_enter();
    gsc_status status = run_backward(tape, root->param ? root->param : root);
    gsc__fpenv_leave(caller);
    return status;
}
