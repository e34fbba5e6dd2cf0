/* SPDX-License-Identifier: Apache-2.0 */
/* apply.c: carries out an op call, from its inputs to the result and the record on the tape. */
#include "train/tape/apply.h"

#include "base/fpenv.h"
#include "train/tape/cast.h"
#include "train/tape/tape.h"

/* Returns the tape of the inputs. An input on no tape, such as a parameter, does not count. Returns NULL with a
 * message if no input is on a tape, or if two are on different tapes. */
static gsc_tape *find_tape(const gsc__call *call)
{
    gsc_tape *found = NULL;
    int first = 0;
    for (int i = 0; i < call->op->inputs; i++) {
        gsc_tape *tape = call->in[i] ? call->in[i]->tape : NULL;
        if (tape && found && tape != found) {
            gsc_fail(GSC_ERR_VALUE, "%s: %s and %s belong to different tapes", call->op->name,
                     call->op->operands[first], call->op->operands[i]);
            return NULL;
        }
        if (tape && !found) {
            found = tape;
            first = i;
        }
    }
    if (!found)
        gsc_fail(GSC_ERR_VALUE, "%s: no operand is on a tape; put one there with gsc_tape_input or gsc_tape_param",
                 call->op->name);
    return found;
}

static bool any_input_requires_grad(const gsc__call *call)
{
    for (int i = 0; i < call->op->inputs; i++)
        if (call->in[i] && call->in[i]->requires_grad)
            return true;
    return false;
}

/* Computes the result, and records the call if a gradient is needed. The inputs have the dtypes in_kinds already. */
static gsc_tensor *run(gsc_tape *tape, const gsc__call *call)
{
    size_t count;
    if (gsc__shape_count(call->op->name, call->out_kind, call->ndim, call->shape, &count) != GSC_OK)
        return NULL;
    gsc_tensor *out = gsc__tape_tensor(tape, call->out_kind, call->ndim, call->shape, count);
    gsc__node *node = out ? gsc__arena_alloc(&tape->arena, sizeof *node) : NULL;
    void *saved = node ? gsc__arena_alloc(&tape->arena, call->saved_bytes) : NULL;
    if (!saved) /* not NULL for 0 bytes */
        return NULL;
    *node = (gsc__node){.op = call->op, .out = out, .factor = call->factor, .saved = saved};
    for (int i = 0; i < call->op->inputs; i++)
        node->in[i] = call->in[i];
    gsc__arena_mark mark = gsc__arena_get_mark(&tape->arena); /* to free what forward takes with gsc__tape_scratch */
    gsc_status status = call->op->forward(node, tape);
    gsc__arena_rewind(&tape->arena, mark);
    if (status != GSC_OK)
        return NULL;
    if (any_input_requires_grad(call)) {
        out->requires_grad = true;
        out->node = node;
        node->previous = tape->last;
        tape->last = node;
    }
    return out;
}

/* Returns an earlier cast of the parameter x, made in the same autocast region; else NULL. */
static gsc_tensor *find_cast(const gsc_tape *tape, const gsc_tensor *x, gsc__kind kind, uint64_t region)
{
    for (const gsc__cached_cast *entry = tape->casts; entry; entry = entry->previous)
        if (entry->serial == x->serial && entry->region == region && entry->cast->kind == kind &&
            entry->cast->requires_grad == x->requires_grad)
            return entry->cast;
    return NULL;
}

static gsc_tensor *cast(gsc_tape *tape, gsc_tensor *x, gsc__kind kind)
{
    uint64_t region = gsc__autocast_region();
    bool cacheable = !x->tape && region != 0; /* a parameter, inside an autocast region (region 0: outside) */
    gsc_tensor *out = cacheable ? find_cast(tape, x, kind, region) : NULL;
    if (out)
        return out;
    gsc__call call = {.op = &gsc__cast_op, .in = {x}, .in_kinds = {x->kind}, .out_kind = kind};
    out = call.op->check(&call) == GSC_OK ? run(tape, &call) : NULL;
    if (!out || !cacheable)
        return out;
    gsc__cached_cast *entry = gsc__arena_alloc(&tape->arena, sizeof *entry);
    if (!entry)
        return NULL;
    *entry = (gsc__cached_cast){.previous = tape->casts, .serial = x->serial, .cast = out, .region = region};
    tape->casts = entry;
    return out;
}

static gsc_tensor *cast_and_run(gsc_tape *tape, gsc__call *call)
{
    for (int i = 0; i < call->op->inputs; i++) {
        if (!call->in[i] || call->in[i]->kind == call->in_kinds[i])
            continue;
        call->in[i] = cast(tape, call->in[i], call->in_kinds[i]);
        if (!call->in[i])
            return NULL;
    }
    return run(tape, call);
}

gsc_tensor *gsc__op_apply(gsc__call *call)
{
    const gsc__op *op = call->op;
    for (int i = 0; i < op->required; i++)
        if (!call->in[i])
            return NULL; /* the op that should have made this input has left the message */
    gsc_tape *tape = find_tape(call);
    if (!tape)
        return NULL;
    for (int i = 0; i < op->inputs; i++) {
        if (call->in[i] && call->in[i]->param)
            call->in[i] = call->in[i]->param; /* ops see the parameter itself, not a tape's handle of it */
        call->in_kinds[i] = call->in[i] ? call->in[i]->kind : GSC_NO_KIND;
    }
    gsc__autocast_kinds(op->policy, call->in_kinds, op->inputs);
    gsc__fpenv caller = gsc__fpenv_enter();
    gsc_tensor *out = op->check(call) == GSC_OK ? cast_and_run(tape, call) : NULL;
    gsc__fpenv_leave(caller);
    return out;
}
