/* SPDX-License-Identifier: Apache-2.0 */
/* view.c: each rule that a tensor can break, and its message. */
#include "gradients/view.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/dtype_text.h"
#include "base/message.h"
#include "base/try.h"
#include "gradients/layout.h"
#include "gradients/overlap.h"

/* No tensor spans more bytes, and sums of a few spans do not overflow. */
#define MAX_SPAN (INT64_MAX / 8)

enum { SUBJECT_SIZE = 256 };

gsc__gradient_text gsc__describe_gradient(size_t index, const char *name)
{
    gsc__gradient_text out;
    if (name)
        snprintf(out.text, sizeof out.text, "gradient %zu (\"%.120s\")", index, name);
    else
        snprintf(out.text, sizeof out.text, "gradient %zu", index);
    return out;
}

const char *gsc__message_subject_text(const gsc__message_subject *subject, char *text, size_t size)
{
    int used = snprintf(text, size, "%s: %s", subject->api, subject->what);
    if (subject->listed && used >= 0 && (size_t)used < size) {
        char *rest = text + used;
        size_t left = size - (size_t)used;
        if (subject->name)
            snprintf(rest, left, " %zu (\"%s\")", subject->index, subject->name);
        else
            snprintf(rest, left, " %zu", subject->index);
    }
    return text;
}

/* Fails with the subject in front of the message. cold: laid out apart from the code of valid tensors. */
__attribute__((cold, noinline)) GSC_PRINTF(3, 4) static gsc_status
    refuse(const gsc__message_subject *subject, gsc_status status, const char *format, ...)
{
    char where[SUBJECT_SIZE], text[GSC_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return gsc_fail(status, "%s %s", gsc__message_subject_text(subject, where, sizeof where), text);
}

static gsc_status check_dtype(DLDataType dtype, const gsc__view_rules *rules, const gsc__message_subject *subject,
                              gsc__kind *kind)
{
    if (dtype.code == kDLComplex)
        return refuse(subject, GSC_ERR_UNSUPPORTED,
                      "is %s; supported are float32, float64, bfloat16 and float16; pass a "
                      "real view of it",
                      gsc__describe_dtype(dtype).text);
    *kind = gsc__kind_of(dtype);
    if (!gsc__kind_is_float(*kind))
        return refuse(subject, GSC_ERR_VALUE,
                      "has dtype %s; allowed are float32, float64, bfloat16 and float16 with 1 lane",
                      gsc__describe_dtype(dtype).text);
    if (*kind == GSC_F16 && !rules->allow_fp16)
        return refuse(subject, GSC_ERR_VALUE,
                      "is float16; keep the parameters (and so their gradients) in float32 and run only the "
                      "forward pass in float16, or " GSC_WORDS("set allow_fp16_grads",
                                                               "create the scaler with allow_fp16_grads=True"));
    return GSC_OK;
}

static gsc_status check_device(const DLTensor *tensor, const gsc__served *served, const gsc__message_subject *subject)
{
    if (!served)
        return refuse(subject, GSC_ERR_DEVICE, "is on %s; served is the CPU",
                      gsc__describe_device(tensor->device).text);
    if (gsc__is_on(tensor, served->device))
        return GSC_OK;
    char where[SUBJECT_SIZE];
    return served->check(tensor->device, gsc__message_subject_text(subject, where, sizeof where));
}

/* *count becomes the number of elements: 0 if a size is 0, however large the others are. */
static gsc_status check_shape(const DLTensor *tensor, const gsc__message_subject *subject, size_t element_size,
                              size_t *count)
{
    if (tensor->ndim < 0 || tensor->ndim > GSC_MAX_NDIM)
        return refuse(subject, GSC_ERR_VALUE, "has ndim %d; allowed are 0 to %d", (int)tensor->ndim, GSC_MAX_NDIM);
    if (tensor->ndim > 0 && !tensor->shape)
        return refuse(subject, GSC_ERR_VALUE, "has ndim %d but shape is NULL", (int)tensor->ndim);
    bool empty = false, overflow = false;
    int64_t product = 1;
    for (int d = 0; d < tensor->ndim; d++) {
        if (tensor->shape[d] < 0)
            return refuse(subject, GSC_ERR_VALUE, "has shape[%d] = %" PRId64 "; sizes are 0 or more", d,
                          tensor->shape[d]);
        empty |= tensor->shape[d] == 0;
        overflow |= __builtin_mul_overflow(product, tensor->shape[d], &product);
    }
    int64_t bytes;
    overflow |= __builtin_mul_overflow(product, (int64_t)element_size, &bytes);
    if (!empty && (overflow || bytes > MAX_SPAN))
        return refuse(subject, GSC_ERR_VALUE, "has a shape with more elements than memory can hold");
    *count = empty ? 0 : (size_t)product;
    return GSC_OK;
}

static gsc_status check_data(const DLTensor *tensor, const gsc__message_subject *subject, size_t element_size,
                             size_t count, char **start)
{
    if (!tensor->data)
        return refuse(subject, GSC_ERR_VALUE, "has elements but data is NULL");
    uintptr_t address, end;
    if (__builtin_add_overflow((uintptr_t)tensor->data, tensor->byte_offset, &address) ||
        __builtin_add_overflow(address, count * element_size, &end))
        return refuse(subject, GSC_ERR_VALUE,
                      "has data %p, byte_offset %" PRIu64 " and %zu elements: they reach past the end of memory",
                      tensor->data, tensor->byte_offset, count);
    if ((address & (element_size - 1)) != 0)
        return refuse(subject, GSC_ERR_VALUE,
                      "begins at %p (data + byte_offset), which is not aligned for its elements of %zu bytes",
                      (void *)address, element_size);
    *start = (char *)address;
    return GSC_OK;
}

static bool is_compact(const DLTensor *tensor)
{
    if (!tensor->strides)
        return true;
    int64_t expected = 1;
    for (int d = tensor->ndim - 1; d >= 0; d--) {
        if (tensor->shape[d] != 1 && tensor->strides[d] != expected)
            return false;
        expected *= tensor->shape[d];
    }
    return true;
}

/* Whether all elements lie within MAX_SPAN bytes on either side of the first, and inside the address space. */
static bool span_fits(const DLTensor *tensor, const char *start, size_t element_size)
{
    int64_t below = 0, above = 0;
    for (int d = 0; d < tensor->ndim; d++) {
        int64_t reach, *side = tensor->strides[d] < 0 ? &below : &above;
        if (__builtin_mul_overflow(tensor->shape[d] - 1, tensor->strides[d], &reach) ||
            __builtin_add_overflow(*side, reach, side))
            return false;
    }
    int64_t limit = MAX_SPAN / (int64_t)element_size;
    return below >= -limit && above < limit && (uintptr_t)start >= (uintptr_t)(-below) * element_size &&
           (uintptr_t)above * element_size < UINTPTR_MAX - (uintptr_t)start - element_size;
}

/* noinline: compact tensors would pay for its large stack frame. */
__attribute__((noinline)) static gsc_status check_strides(const DLTensor *tensor, const gsc__view_rules *rules,
                                                          const gsc__message_subject *subject, gsc__view *view)
{
    if (!span_fits(tensor, view->start, gsc__kind_size(view->kind)))
        return refuse(subject, GSC_ERR_VALUE, "has strides that reach beyond memory");
    gsc__layout layout;
    gsc__layout_collapse(tensor, view->kind, &layout);
    view->start = layout.data;
    view->dense = gsc__layout_is_run(&layout);
    gsc__overlap overlap = rules->writes ? gsc__self_overlap(&layout) : GSC_DISJOINT;
    if (overlap == GSC_OVERLAPPING)
        return refuse(subject, GSC_ERR_VALUE,
                      "has strides that reach an element more than once, and it would be written; make a "
                      "compact copy of it");
    if (overlap == GSC_UNDECIDED)
        return refuse(subject, GSC_ERR_VALUE,
                      "has strides too irregular to tell whether they reach an element more than once, and it "
                      "would be written; make a compact copy of it");
    return GSC_OK;
}

gsc_status gsc__view_check(const DLTensor *tensor, const gsc__view_rules *rules, const gsc__message_subject *subject,
                           gsc__view *out)
{
    GSC_TRY(check_dtype(tensor->dtype, rules, subject, &out->kind));
    if (!gsc__is_on_cpu(tensor))
        GSC_TRY(check_device(tensor, rules->served, subject));
    size_t element_size = gsc__kind_size(out->kind);
    out->tensor = tensor;
    out->start = NULL;
    out->dense = true;
    GSC_TRY(check_shape(tensor, subject, element_size, &out->count));
    if (out->count == 0)
        return GSC_OK;
    GSC_TRY(check_data(tensor, subject, element_size, out->count, &out->start));
    return is_compact(tensor) ? GSC_OK : check_strides(tensor, rules, subject, out);
}
