/* SPDX-License-Identifier: Apache-2.0 */
#include "arrays.h"

#include <stdlib.h>
#include <string.h>

#include "buffer.h"
#include "dlpack.h"
#include "errors.h"
#include "numpy.h"
#include "reason.h"

struct array {
    DLTensor tensor;
    PyObject *capsule; /* what keeps the memory: this, */
    bool has_buffer;   /* or this */
    buffer_view buffer;
    int64_t *strides; /* our own, kept from call to call */
    int stride_capacity;
};

/* What is being borrowed, and its place in messages. */
typedef struct request {
    PyObject *object;
    bool writes;
    const char *what; /* NULL: gradient `index`, which `name` names */
    size_t index;
    PyObject *name;
} request;

static int no_memory(void)
{
    PyErr_NoMemory();
    return -1;
}

/* Raises `gradient 3 ("weight") …`, from the exception that is set, if any. */
static int refuse(const request *of, PyObject *exception, const char *why)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *place = of->what ? PyUnicode_FromString(of->what) : describe_gradient(of->index, of->name);
    PyObject *kind = PyObject_GetAttrString((PyObject *)Py_TYPE(of->object), "__name__");
    PyObject *message = place && kind ? PyUnicode_FromFormat("%U (a %S) %s", place, kind, why) : NULL;
    Py_XDECREF(place);
    Py_XDECREF(kind);
    if (!message) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        return -1;
    }
    if (type) {
        PyErr_Restore(type, value, traceback);
        raise_from(exception, message);
    } else {
        PyErr_SetObject(exception, message);
    }
    Py_DECREF(message);
    return -1;
}

/* Is the exception that is set an answer of the array's, not the interpreter's trouble? */
static bool is_refusal(void)
{
    return PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError);
}

static int refuse_read_only(const request *of)
{
    return refuse(of, PyExc_ValueError, "is read-only, and it would be written; hand over a writable array");
}

/* It has raised instead of lending its memory. */
static int refuse_unlent(const request *of)
{
    char why[256];
    if (!is_refusal())
        return -1;
    gsc_status reason = reason_of(of->object, why, sizeof why);
    if (reason != GSC_OK)
        return refuse(of, exception_of(reason), why);
    return refuse(of, PyExc_TypeError, "does not let its memory be borrowed by DLPack");
}

/* Takes over a capsule; NULL: an exception is set. */
static int adopt_capsule(array *entry, PyObject *capsule, const request *of)
{
    if (!capsule)
        return refuse_unlent(of);
    entry->capsule = capsule;
    bool read_only;
    switch (dlpack_open(capsule, &entry->tensor, &read_only)) {
    case DLPACK_FINE: return read_only && of->writes ? refuse_read_only(of) : 0;
    case DLPACK_NO_CAPSULE: return refuse(of, PyExc_TypeError, "has a __dlpack__ that returned no new capsule");
    case DLPACK_TOO_NEW: return refuse(of, PyExc_TypeError, "handed out a capsule newer than DLPack 1");
    case DLPACK_COPY: break;
    }
    return refuse(of, PyExc_TypeError, "handed out a copy of its memory");
}

static int grow_strides(array *entry, int ndim)
{
    if (ndim <= entry->stride_capacity)
        return 0;
    int64_t *grown = realloc(entry->strides, (size_t)ndim * sizeof *grown);
    if (!grown)
        return no_memory();
    entry->strides = grown;
    entry->stride_capacity = ndim;
    return 0;
}

/* Describes the buffer that the entry has got. */
static int adopt_buffer(array *entry, const request *of)
{
    entry->has_buffer = true;
    if (numpy_is_masked(of->object))
        return refuse(of, PyExc_TypeError,
                      "is masked, and a mask is not looked at; hand over all elements (its .data)");
    if (grow_strides(entry, entry->buffer.ndim) < 0)
        return -1;
    switch (buffer_describe(&entry->buffer, entry->strides, &entry->tensor)) {
    case BUFFER_FINE: return entry->buffer.read_only && of->writes ? refuse_read_only(of) : 0;
    case BUFFER_WIDE_COMPLEX:
        return refuse(of, PyExc_NotImplementedError,
                      "is complex; supported are float32, float64, bfloat16 and float16; hand over a real view of it");
    case BUFFER_NO_NUMBERS: return refuse(of, PyExc_ValueError, "has elements that are no numbers");
    case BUFFER_FOREIGN:
        return refuse(of, PyExc_ValueError,
                      "has the other byte order; keep it in this machine's (NumPy: dtype.newbyteorder('='))");
    case BUFFER_ODD_STRIDES: break;
    }
    return refuse(of, PyExc_ValueError,
                  "has strides that are no multiples of its element size; make a compact copy of it");
}

/* NumPy has no format for bfloat16, but one for its bits. */
static int borrow_numpy_bfloat16(array *entry, const request *of)
{
    PyObject *bits = PyObject_CallMethod(of->object, "view", "s", "uint16");
    int status = bits ? buffer_get(bits, &entry->buffer) : -1;
    Py_XDECREF(bits);
    if (status < 0)
        return -1;
    status = adopt_buffer(entry, of);
    entry->tensor.dtype = (DLDataType){.code = kDLBfloat, .bits = 16, .lanes = 1};
    return status;
}

static int borrow(array *entry, const request *of)
{
    entry->capsule = NULL;
    entry->has_buffer = false;
    if (dlpack_is_torch(of->object))
        return adopt_capsule(entry, dlpack_of_torch(of->object), of);
    if (buffer_get(of->object, &entry->buffer) == 0)
        return adopt_buffer(entry, of);
    if (!is_refusal())
        return -1;
    PyErr_Clear();
    int is_bfloat16 = numpy_is_bfloat16(of->object);
    if (is_bfloat16 != 0)
        return is_bfloat16 < 0 ? -1 : borrow_numpy_bfloat16(entry, of);
    PyObject *capsule = dlpack_of(of->object);
    if (!capsule && !PyErr_Occurred())
        return refuse(of, PyExc_TypeError, "is no array: it has neither the buffer protocol nor __dlpack__");
    return adopt_capsule(entry, capsule, of);
}

static void give_back(array *entry)
{
    if (entry->has_buffer)
        buffer_release(&entry->buffer);
    Py_CLEAR(entry->capsule);
    entry->has_buffer = false;
}

static uint64_t count_elements(const DLTensor *tensor)
{
    uint64_t count = 1;
    if (!tensor->shape || tensor->ndim > 64) /* nor is that read here */
        return 0;
    for (int d = 0; d < tensor->ndim; d++)
        if (__builtin_mul_overflow(count, (uint64_t)tensor->shape[d], &count))
            return UINT64_MAX / 2; /* the core will refuse it */
    return count;
}

/* Makes room for a list; all is empty, so nothing has to stay where it is. */
static int reserve(arrays *all, size_t count)
{
    if (count <= all->capacity)
        return 0;
    array *entries = count <= SIZE_MAX / sizeof *entries ? realloc(all->entries, count * sizeof *entries) : NULL;
    if (!entries)
        return no_memory();
    memset(entries + all->capacity, 0, (count - all->capacity) * sizeof *entries);
    all->entries = entries;
    DLTensor **tensors = realloc(all->tensors, count * sizeof *tensors);
    if (!tensors)
        return no_memory();
    all->tensors = tensors;
    all->capacity = count;
    return 0;
}

/* Takes the next item; what it has borrowed when it fails is given back with the rest. */
static int take_next(arrays *all, const request *of)
{
    array *entry = &all->entries[all->count];
    all->tensors[all->count] = of->object == Py_None ? NULL : &entry->tensor;
    all->count++;
    if (of->object == Py_None)
        return 0;
    Py_INCREF(of->object); /* a list may lose it while its __dlpack__ runs */
    int status = borrow(entry, of);
    Py_DECREF(of->object);
    if (status < 0)
        return -1;
    if (__builtin_add_overflow(all->elements, count_elements(&entry->tensor), &all->elements))
        all->elements = UINT64_MAX;
    return 0;
}

int arrays_take(arrays *all, PyObject *list, bool writes, PyObject *name)
{
    if (!PyList_Check(list)) {
        PyErr_Format(PyExc_TypeError, "gradients come as a list of arrays and None, not as %S", Py_TYPE(list));
        return -1;
    }
    Py_ssize_t count = PyList_Size(list);
    if (reserve(all, (size_t)count) < 0)
        return -1;
    int status = 0;
    for (Py_ssize_t i = 0; i < count && status == 0; i++) {
        PyObject *object = PyList_GetItem(list, i); /* IndexError: it has become shorter */
        const request of = {.object = object, .writes = writes, .index = (size_t)i, .name = name};
        status = object ? take_next(all, &of) : -1;
    }
    if (status < 0)
        arrays_release(all);
    return status;
}

int arrays_take_one(arrays *all, PyObject *object, bool writes, const char *what)
{
    const request of = {.object = object, .writes = writes, .what = what};
    if (object == Py_None)
        return refuse(&of, PyExc_TypeError, "is no array");
    int status = reserve(all, 1) < 0 ? -1 : take_next(all, &of);
    if (status < 0)
        arrays_release(all);
    return status;
}

void arrays_release(arrays *all)
{
    if (all->count == 0)
        return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (size_t i = 0; i < all->count; i++)
        if (all->tensors[i])
            give_back(&all->entries[i]);
    all->count = 0;
    all->elements = 0;
    PyErr_Restore(type, value, traceback);
}

void arrays_free(arrays *all)
{
    arrays_release(all);
    for (size_t i = 0; i < all->capacity; i++)
        free(all->entries[i].strides);
    free(all->entries);
    free(all->tensors);
    *all = (arrays){0};
}
