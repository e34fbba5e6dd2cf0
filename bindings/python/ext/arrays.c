/* SPDX-License-Identifier: Apache-2.0 */
/* arrays.c: borrowing arrays, one producer after the other. */
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
    PyObject *capsule; /* keeps the memory, or NULL: */
    bool has_buffer;   /* the buffer does */
    buffer_view buffer;
    int64_t *strides; /* memory for the tensor's strides, kept from call to call */
    int stride_capacity;
};

/* The object to borrow, and its name in messages. */
typedef struct array_request {
    PyObject *object;
    bool writes;
    const char *what; /* NULL: "gradient", with index and name */
    bool is_output;   /* "out", with index */
    size_t index;
    PyObject *name;
} array_request;

static int no_memory(void)
{
    PyErr_NoMemory();
    return -1;
}

static PyObject *describe(const array_request *request)
{
    if (request->is_output)
        return PyUnicode_FromFormat("out[%zd]", (Py_ssize_t)request->index);
    return request->what ? PyUnicode_FromString(request->what) : describe_gradient(request->index, request->name);
}

/* Raises `gradient 3 ("weight") …`, from the exception that is set, if any. */
static int refuse(const array_request *request, PyObject *exception, const char *why)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *subject = describe(request);
    PyObject *class_name = PyObject_GetAttrString((PyObject *)Py_TYPE(request->object), "__name__");
    PyObject *message = subject && class_name ? PyUnicode_FromFormat("%U (a %S) %s", subject, class_name, why) : NULL;
    Py_XDECREF(subject);
    Py_XDECREF(class_name);
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

/* Whether the exception that is set is the array's refusal, not the interpreter's trouble (MemoryError, SystemExit). */
static bool is_refusal(void)
{
    return PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError);
}

static int refuse_read_only(const array_request *request)
{
    return refuse(request, PyExc_ValueError, "is read-only, and it would be written; pass a writable array");
}

/* The array has raised an exception instead of lending its memory: refuses it for a reason that its attributes tell. */
static int explain_refusal(const array_request *request)
{
    char why[256];
    if (!is_refusal())
        return -1;
    gsc_status status = reason_find(request->object, why, sizeof why);
    if (status != GSC_OK)
        return refuse(request, exception_for_status(status), why);
    return refuse(request, PyExc_TypeError, "does not let its memory be borrowed by DLPack");
}

/* Takes over a capsule, new from the object; NULL: an exception is set. */
static int adopt_capsule(array *entry, PyObject *capsule, const array_request *request)
{
    if (!capsule)
        return explain_refusal(request);
    entry->capsule = capsule;
    bool read_only;
    switch (dlpack_open(capsule, &entry->tensor, &read_only)) {
    case DLPACK_FINE: return read_only && request->writes ? refuse_read_only(request) : 0;
    case DLPACK_NO_CAPSULE: return refuse(request, PyExc_TypeError, "has a __dlpack__ that returned no new capsule");
    case DLPACK_TOO_NEW: return refuse(request, PyExc_TypeError, "handed out a capsule newer than DLPack 1");
    case DLPACK_COPY: break;
    }
    return refuse(request, PyExc_TypeError, "handed out a copy of its memory");
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

/* Describes the buffer that was just filled in. */
static int adopt_buffer(array *entry, const array_request *request)
{
    entry->has_buffer = true;
    if (numpy_is_masked(request->object))
        return refuse(request, PyExc_TypeError,
                      "is masked, and a mask is not looked at; pass all elements (its .data)");
    if (grow_strides(entry, entry->buffer.ndim) < 0)
        return -1;
    switch (buffer_describe(&entry->buffer, entry->strides, &entry->tensor)) {
    case BUFFER_FINE: return entry->buffer.read_only && request->writes ? refuse_read_only(request) : 0;
    case BUFFER_WIDE_COMPLEX:
        return refuse(request, PyExc_NotImplementedError,
                      "is complex; supported are float32, float64, bfloat16 and float16; pass a real view of it");
    case BUFFER_NO_NUMBERS: return refuse(request, PyExc_ValueError, "has elements that are no numbers");
    case BUFFER_FOREIGN:
        return refuse(request, PyExc_ValueError,
                      "has the other byte order; keep it in this machine's (NumPy: dtype.newbyteorder('='))");
    case BUFFER_ODD_STRIDES: break;
    }
    return refuse(request, PyExc_ValueError,
                  "has strides that are no multiples of its element size; make a compact copy of it");
}

/* NumPy has no buffer format for bfloat16: borrows a view of its bits. */
static int borrow_numpy_bfloat16(array *entry, const array_request *request)
{
    PyObject *bits = PyObject_CallMethod(request->object, "view", "s", "uint16");
    int status = bits ? buffer_get(bits, &entry->buffer) : -1;
    Py_XDECREF(bits);
    if (status < 0)
        return -1;
    status = adopt_buffer(entry, request);
    entry->tensor.dtype = (DLDataType){.code = kDLBfloat, .bits = 16, .lanes = 1};
    return status;
}

static int borrow(array *entry, const array_request *request)
{
    entry->capsule = NULL;
    entry->has_buffer = false;
    if (dlpack_is_torch(request->object))
        return adopt_capsule(entry, dlpack_from_torch(request->object), request);
    if (buffer_get(request->object, &entry->buffer) == 0)
        return adopt_buffer(entry, request);
    if (!is_refusal())
        return -1;
    PyErr_Clear();
    int is_bfloat16 = numpy_is_bfloat16(request->object);
    if (is_bfloat16 != 0)
        return is_bfloat16 < 0 ? -1 : borrow_numpy_bfloat16(entry, request);
    PyObject *capsule = dlpack_from_object(request->object);
    if (!capsule && !PyErr_Occurred())
        return refuse(request, PyExc_TypeError, "is no array: it has neither the buffer protocol nor __dlpack__");
    return adopt_capsule(entry, capsule, request);
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
    if (!tensor->shape || tensor->ndim > 64) /* the core refuses more dimensions */
        return 0;
    for (int d = 0; d < tensor->ndim; d++)
        if (__builtin_mul_overflow(count, (uint64_t)tensor->shape[d], &count))
            return UINT64_MAX / 2; /* the core refuses it */
    return count;
}

/* Makes room for a list. Nothing is borrowed now, so entries may move. */
static int reserve(arrays *borrowed, size_t count)
{
    if (count <= borrowed->capacity)
        return 0;
    array *entries = count <= SIZE_MAX / sizeof *entries ? realloc(borrowed->entries, count * sizeof *entries) : NULL;
    if (!entries)
        return no_memory();
    memset(entries + borrowed->capacity, 0, (count - borrowed->capacity) * sizeof *entries);
    borrowed->entries = entries;
    DLTensor **tensors = realloc(borrowed->tensors, count * sizeof *tensors);
    if (!tensors)
        return no_memory();
    borrowed->tensors = tensors;
    borrowed->capacity = count;
    return 0;
}

/* Takes the next item. It counts even if it fails, so that arrays_release gives back what it has borrowed. */
static int take_next(arrays *borrowed, const array_request *request)
{
    array *entry = &borrowed->entries[borrowed->count];
    borrowed->tensors[borrowed->count] = request->object == Py_None ? NULL : &entry->tensor;
    borrowed->count++;
    if (request->object == Py_None)
        return 0;
    Py_INCREF(request->object); /* a list may lose it while its __dlpack__ runs */
    int status = borrow(entry, request);
    Py_DECREF(request->object);
    if (status < 0)
        return -1;
    if (__builtin_add_overflow(borrowed->elements, count_elements(&entry->tensor), &borrowed->elements))
        borrowed->elements = UINT64_MAX;
    return 0;
}

/* request: that of each item, but for the object and the index. */
static int take_list(arrays *borrowed, PyObject *list, array_request request)
{
    if (!PyList_Check(list)) {
        PyErr_Format(PyExc_TypeError, "%s come as a list of arrays and None, not as %S",
                     request.is_output ? "outputs" : "gradients", Py_TYPE(list));
        return -1;
    }
    Py_ssize_t count = PyList_Size(list);
    if (reserve(borrowed, (size_t)count) < 0)
        return -1;
    int status = 0;
    for (Py_ssize_t i = 0; i < count && status == 0; i++) {
        request.object = PyList_GetItem(list, i); /* IndexError: it has become shorter */
        request.index = (size_t)i;
        status = request.object ? take_next(borrowed, &request) : -1;
    }
    if (status < 0)
        arrays_release(borrowed);
    return status;
}

int arrays_take(arrays *borrowed, PyObject *list, bool writes, PyObject *name)
{
    return take_list(borrowed, list, (array_request){.writes = writes, .name = name});
}

int arrays_take_outputs(arrays *borrowed, PyObject *list)
{
    return take_list(borrowed, list, (array_request){.writes = true, .is_output = true});
}

int arrays_take_one(arrays *borrowed, PyObject *object, bool writes, const char *what)
{
    const array_request request = {.object = object, .writes = writes, .what = what};
    if (object == Py_None)
        return refuse(&request, PyExc_TypeError, "is no array");
    int status = reserve(borrowed, 1) < 0 ? -1 : take_next(borrowed, &request);
    if (status < 0)
        arrays_release(borrowed);
    return status;
}

void arrays_release(arrays *borrowed)
{
    if (borrowed->count == 0)
        return;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (size_t i = 0; i < borrowed->count; i++)
        if (borrowed->tensors[i])
            give_back(&borrowed->entries[i]);
    borrowed->count = 0;
    borrowed->elements = 0;
    PyErr_Restore(type, value, traceback);
}

void arrays_free(arrays *borrowed)
{
    arrays_release(borrowed);
    for (size_t i = 0; i < borrowed->capacity; i++)
        free(borrowed->entries[i].strides);
    free(borrowed->entries);
    free(borrowed->tensors);
    *borrowed = (arrays){0};
}
