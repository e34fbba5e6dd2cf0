/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.c: buffers, their formats and their strides. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "buffer.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

/* The tensor points to the buffer's shape. */
_Static_assert(sizeof(Py_ssize_t) == sizeof(int64_t), "a shape of Py_ssize_t has to be one of int64_t");

enum { BOOLEAN = 6 };                                 /* DLPack's kDLBool, which older headers lack */
enum { PYBUF_RECORDS_RO = 0x0004 | 0x0008 | 0x0010 }; /* with a format, shape and strides; may be read-only */

static int (*get_buffer)(PyObject *, buffer_view *, int);
static void (*release_buffer)(buffer_view *);

/* By name: Python exports these functions since 3.0, but declares them in the limited API since 3.11 only. */
int buffer_init(void)
{
    void *get = dlsym(RTLD_DEFAULT, "PyObject_GetBuffer"), *release = dlsym(RTLD_DEFAULT, "PyBuffer_Release");
    if (!get || !release) {
        PyErr_SetString(PyExc_ImportError, "this Python does not export PyObject_GetBuffer and PyBuffer_Release");
        return -1;
    }
    memcpy(&get_buffer, &get, sizeof get); /* ISO C has no cast from an object to a function pointer */
    memcpy(&release_buffer, &release, sizeof release);
    return 0;
}

int buffer_get(PyObject *object, buffer_view *out) { return get_buffer(object, out, PYBUF_RECORDS_RO); }

void buffer_release(buffer_view *view) { release_buffer(view); }

/* The letters of the module struct, and Z before a float for complex. */
static buffer_fault parse_format(const char *format, Py_ssize_t item_size, DLDataType *out)
{
    const bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    bool foreign = false;
    if (*format && strchr("@=<>!", *format)) {
        char order = *format++;
        foreign = order == '<' ? !little : (order == '>' || order == '!') && little;
    }
    bool complex = *format == 'Z';
    format += complex;
    bool real = *format && strchr("efdg", *format), is_signed = *format && strchr("bhilqn", *format);
    bool is_unsigned = *format && strchr("?BHILQN", *format);
    if (!(real || (!complex && (is_signed || is_unsigned))) || format[1] != '\0')
        return BUFFER_NO_NUMBERS;
    if (item_size > UINT8_MAX / 8)
        return complex ? BUFFER_WIDE_COMPLEX : BUFFER_NO_NUMBERS;
    *out = (DLDataType){
        .code = complex          ? kDLComplex
                : real           ? kDLFloat
                : is_signed      ? kDLInt
                : *format == '?' ? BOOLEAN
                                 : kDLUInt,
        .bits = (uint8_t)(item_size * 8),
        .lanes = 1,
    };
    return foreign && item_size > 1 ? BUFFER_FOREIGN : BUFFER_FINE;
}

/* Whether the elements are neighbours in row-major order; true without elements. */
static bool is_compact(const buffer_view *view)
{
    Py_ssize_t expected = view->item_size;
    bool compact = true;
    for (int d = view->ndim - 1; d >= 0; d--) {
        if (view->shape[d] == 0)
            return true;
        compact &= view->shape[d] == 1 || view->strides[d] == expected;
        expected *= view->shape[d];
    }
    return compact;
}

/* From bytes to elements. Strides of dimensions of size 1 are not used, and may be any number. */
static bool convert_strides(const buffer_view *view, int64_t *strides)
{
    for (int d = 0; d < view->ndim; d++) {
        if (view->shape[d] != 1 && view->strides[d] % view->item_size != 0)
            return false;
        strides[d] = view->strides[d] / view->item_size;
    }
    return true;
}

buffer_fault buffer_describe(const buffer_view *view, int64_t *strides, DLTensor *out)
{
    *out = (DLTensor){.data = view->data, .device = {kDLCPU, 0}, .ndim = view->ndim, .shape = (int64_t *)view->shape};
    buffer_fault fault = parse_format(view->format ? view->format : "B", view->item_size, &out->dtype);
    if (fault != BUFFER_FINE || !view->strides || is_compact(view))
        return fault;
    if (!convert_strides(view, strides))
        return BUFFER_ODD_STRIDES;
    out->strides = strides;
    return BUFFER_FINE;
}
