/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h: one array of the buffer protocol (NumPy, array.array, memoryview, ctypes, …) as a DLTensor. */
#ifndef EXT_BUFFER_H
#define EXT_BUFFER_H

#include "python.h"

#include <stdint.h>

#include "gradscaler/dtype.h"

/* The layout of Py_buffer, which is in the limited API since 3.11 only. It has not changed since 3.0. */
typedef struct buffer_view {
    void *data;
    PyObject *owner;
    Py_ssize_t bytes, item_size;
    int read_only, ndim;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets; /* strides in bytes */
    void *internal;
} buffer_view;

/* Looks up the protocol's functions. Call it once, first. 0, or -1 with ImportError. */
int buffer_init(void);

/* Borrows the object's memory; 0, or -1 with what the object raised (TypeError: it does not have the protocol). */
int buffer_get(PyObject *object, buffer_view *out);
void buffer_release(buffer_view *view);

typedef enum buffer_fault {
    BUFFER_FINE,
    BUFFER_NO_NUMBERS,   /* a format such as a struct's */
    BUFFER_WIDE_COMPLEX, /* with more bits than a DLDataType holds */
    BUFFER_FOREIGN,      /* the other byte order */
    BUFFER_ODD_STRIDES,  /* no multiples of the element size */
} buffer_fault;

/* Describes the buffer as a tensor, which points to the buffer's shape. Every dtype that DLPack has is fine. strides:
 * room for view->ndim numbers; the tensor points to them unless its elements are compact. */
buffer_fault buffer_describe(const buffer_view *view, int64_t *strides, DLTensor *out);

#endif
