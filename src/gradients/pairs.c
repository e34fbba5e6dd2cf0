/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c: the checks of a pair alone, and of pairs against each other. */
#include "gradients/pairs.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/dtype_text.h"
#include "base/try.h"
#include "gradients/distinct.h"
#include "gradients/fast_view.h"

/* A pair in words. Made only for a message, since scaling a loss costs less than printing. */
typedef struct pair_text {
    char text[64];
} pair_text;

static pair_text describe_pair(const gsc__message_subject *pair)
{
    pair_text out;
    if (pair->listed)
        snprintf(out.text, sizeof out.text, "%s: pair %zu", pair->api, pair->index);
    else
        snprintf(out.text, sizeof out.text, "%s", pair->api);
    return out;
}

static gsc_status check_shapes(const DLTensor *in, const DLTensor *out, const gsc__message_subject *pair)
{
    if (in->ndim != out->ndim)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s has ndim %d, out has %d; allowed is the same shape",
                        describe_pair(pair).text, pair->what, (int)in->ndim, (int)out->ndim);
    int d = gsc__different_dimension(in, out);
    if (d == in->ndim)
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: %s has shape[%d] = %lld, out has %lld; allowed is the same shape",
                    describe_pair(pair).text, pair->what, d, (long long)in->shape[d], (long long)out->shape[d]);
}

static bool is_wider(gsc__kind out, gsc__kind in)
{
    return (out == GSC_F32 || out == GSC_F64) && gsc__kind_size(out) > gsc__kind_size(in);
}

static gsc_status check_kinds(gsc__kind in, gsc__kind out, const gsc__message_subject *pair)
{
    if (in == out || is_wider(out, in))
        return GSC_OK;
    return gsc_fail(GSC_ERR_VALUE, "%s: %s is %s, out is %s; allowed for out are the dtype of %s and wider floats",
                    describe_pair(pair).text, pair->what, gsc__kind_name(in), gsc__kind_name(out), pair->what);
}

static int64_t stride_of(const DLTensor *tensor, int d, int64_t compact)
{
    return tensor->strides ? tensor->strides[d] : compact;
}

/* Whether each element of a is the same element of b. Of views of one shape. */
static bool same_view(const gsc__view *a, const gsc__view *b)
{
    if (a->start != b->start || a->kind != b->kind)
        return false;
    int64_t compact = 1;
    for (int d = a->tensor->ndim - 1; d >= 0; d--) {
        int64_t size = a->tensor->shape[d];
        if (size != 1 && stride_of(a->tensor, d, compact) != stride_of(b->tensor, d, compact))
            return false;
        compact *= size;
    }
    return true;
}

static gsc_status check_overlap(const gsc__view *in, const gsc__view *out, const gsc__message_subject *pair)
{
    if (same_view(in, out) || gsc__view_overlap(in, out) == GSC_DISJOINT)
        return GSC_OK;
    return gsc_fail(
        GSC_ERR_VALUE,
        "%s: %s and out overlap in memory, or are interleaved too irregularly to tell; allowed are the same "
        "view and disjoint ones",
        describe_pair(pair).text, pair->what);
}

static gsc_status check_devices(const DLTensor *in, const DLTensor *out, const gsc__message_subject *pair)
{
    if (gsc__is_on(in, out->device))
        return GSC_OK;
    return gsc_fail(GSC_ERR_DEVICE, "%s: %s is on %s, out on %s; allowed is one device for both",
                    describe_pair(pair).text, pair->what, gsc__describe_device(in->device).text,
                    gsc__describe_device(out->device).text);
}

gsc_status gsc__pair_check(const DLTensor *in, const DLTensor *out, const gsc__served *served,
                           const gsc__message_subject *in_subject, gsc__pair *pair)
{
    gsc__message_subject out_subject = *in_subject;
    out_subject.what = "out";
    char where[64];
    if (!in || !out)
        return gsc_fail(GSC_ERR_VALUE, "%s is NULL",
                        gsc__message_subject_text(in ? &out_subject : in_subject, where, sizeof where));
    const gsc__view_rules reads = {.allow_fp16 = true, .served = served},
                          writes = {.writes = true, .allow_fp16 = true, .served = served};
    GSC_TRY(gsc__view_make(in, &reads, in_subject, &pair->in));
    GSC_TRY(gsc__view_make(out, &writes, &out_subject, &pair->out));
    if (served)
        GSC_TRY(check_devices(in, out, in_subject));
    GSC_TRY(check_shapes(in, out, in_subject));
    GSC_TRY(check_kinds(pair->in.kind, pair->out.kind, in_subject));
    return pair->in.count > 0 ? check_overlap(&pair->in, &pair->out, in_subject) : GSC_OK;
}

/* The memory between a view's first and last element. */
typedef struct span {
    uintptr_t start, end;
    size_t pair;
    bool is_out;
} span;

static span span_of(const gsc__pair *pairs, size_t index, bool is_out)
{
    const gsc__view *view = is_out ? &pairs[index].out : &pairs[index].in;
    return (span){(uintptr_t)view->start, gsc__view_end(view), index, is_out};
}

static int compare_starts(const void *a, const void *b)
{
    uintptr_t one = ((const span *)a)->start, other = ((const span *)b)->start;
    return (one > other) - (one < other);
}

static bool same_elements(const gsc__view *a, const gsc__view *b)
{
    return a->tensor->ndim == b->tensor->ndim && gsc__different_dimension(a->tensor, b->tensor) == a->tensor->ndim &&
           same_view(a, b);
}

static const char *name_of(const span *s, const char *in_name) { return s->is_out ? "out" : in_name; }

/* Two spans that overlap, of different pairs. Empties the later one of equal pairs. */
static gsc_status check_spans(gsc__pair *pairs, const span *a, const span *b, const gsc__message_subject *subject)
{
    gsc__pair *one = &pairs[a->pair], *other = &pairs[b->pair];
    if (!(a->is_out || b->is_out) || one->in.count == 0 || other->in.count == 0 ||
        gsc__view_overlap(a->is_out ? &one->out : &one->in, b->is_out ? &other->out : &other->in) == GSC_DISJOINT)
        return GSC_OK;
    if (same_elements(&one->in, &other->in) && same_elements(&one->out, &other->out)) {
        pairs[a->pair > b->pair ? a->pair : b->pair].in.count = 0;
        return GSC_OK;
    }
    const bool in_order = a->pair < b->pair;
    const span *first = in_order ? a : b, *second = in_order ? b : a;
    return gsc_fail(GSC_ERR_VALUE,
                    "%s: %s %zu and %s %zu overlap in memory, or are interleaved too irregularly to tell; allowed are "
                    "outs that share nothing with any other tensor, and pairs listed twice",
                    subject->api, name_of(first, subject->what), first->pair, name_of(second, subject->what),
                    second->pair);
}

gsc_status gsc__pairs_check(gsc__pair *pairs, size_t n, const gsc__message_subject *subject)
{
    if (n < 2)
        return GSC_OK;
    span few[8], *spans = few; /* so few pairs need no allocation */
    if (n > sizeof few / sizeof *few / 2)
        spans = n <= SIZE_MAX / (2 * sizeof *spans) ? malloc(2 * n * sizeof *spans) : NULL;
    if (!spans)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory for a list of %zu pairs", subject->api, n);
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (pairs[i].in.count > 0) {
            spans[count++] = span_of(pairs, i, false);
            spans[count++] = span_of(pairs, i, true);
        }
    qsort(spans, count, sizeof *spans, compare_starts);
    gsc_status status = GSC_OK;
    for (size_t i = 0; i < count && status == GSC_OK; i++)
        for (size_t j = i + 1; j < count && spans[j].start < spans[i].end && status == GSC_OK; j++)
            if (spans[i].pair != spans[j].pair)
                status = check_spans(pairs, &spans[i], &spans[j], subject);
    if (spans != few)
        free(spans);
    return status;
}
