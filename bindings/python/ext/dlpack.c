/* SPDX-License-Identifier: Apache-2.0 */
/* dlpack.c: capsules of PyTorch and of __dlpack__. */
#include "dlpack.h"

/* DLManagedTensorVersioned of DLPack 1, for builds with older headers. */
typedef struct managed_tensor {
    uint32_t major, minor;
    void *manager;
    void (*deleter)(struct managed_tensor *);
    uint64_t flags;
    DLTensor tensor;
} managed_tensor;

enum { MAJOR = 1, FLAG_READ_ONLY = 1, FLAG_COPIED = 2 };

/* Looked up once torch has been imported, NULL before; kept until the process ends. */
static PyObject *torch_tensor, *torch_parameter, *torch_to_dlpack;

/* module.first.second…, a new reference; NULL without an exception. */
static PyObject *get_path(PyObject *module, const char *const *path)
{
    Py_INCREF(module);
    for (; *path && module; path++) {
        PyObject *next = PyObject_GetAttrString(module, *path);
        Py_DECREF(module);
        module = next;
    }
    if (!module)
        PyErr_Clear();
    return module;
}

static bool find_torch(void)
{
    PyObject *torch = PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
    if (!torch)
        return false;
    PyObject *tensor = get_path(torch, (const char *const[]){"Tensor", NULL});
    PyObject *parameter = get_path(torch, (const char *const[]){"nn", "Parameter", NULL});
    PyObject *to_dlpack = get_path(torch, (const char *const[]){"utils", "dlpack", "to_dlpack", NULL});
    bool complete = tensor && parameter && to_dlpack && PyType_Check(tensor) && PyType_Check(parameter);
    if (complete && !torch_tensor) {
        torch_parameter = parameter;
        torch_to_dlpack = to_dlpack;
        torch_tensor = tensor;
        return true;
    }
    Py_XDECREF(tensor);
    Py_XDECREF(parameter);
    Py_XDECREF(to_dlpack);
    return torch_tensor != NULL;
}

bool dlpack_is_torch(PyObject *object)
{
    PyObject *type = (PyObject *)Py_TYPE(object);
    return (torch_tensor || find_torch()) && (type == torch_tensor || type == torch_parameter);
}

PyObject *dlpack_from_torch(PyObject *tensor) { return PyObject_CallFunctionObjArgs(torch_to_dlpack, tensor, NULL); }

/* Calls method(max_version=(1, 1), copy=False). Producers of unversioned capsules do not know these arguments. */
static PyObject *call_versioned(PyObject *method)
{
    PyObject *none = PyTuple_New(0), *arguments = Py_BuildValue("{s(ii)sO}", "max_version", MAJOR, 1, "copy", Py_False);
    PyObject *capsule = none && arguments ? PyObject_Call(method, none, arguments) : NULL;
    Py_XDECREF(none);
    Py_XDECREF(arguments);
    return capsule;
}

/* Whether a TypeError means that the method does not know the arguments: it has no traceback, as the method did not
 * run; or the method passed them on to another one that does not know them. A TypeError for another reason has a
 * traceback and other words. */
static bool is_about_arguments(PyObject *error)
{
    PyObject *traceback = PyException_GetTraceback(error);
    Py_XDECREF(traceback);
    if (!traceback)
        return true;
    PyObject *text = PyObject_Str(error), *words = PyUnicode_FromString("keyword argument");
    bool found = text && words && PyUnicode_Contains(text, words) > 0;
    Py_XDECREF(text);
    Py_XDECREF(words);
    PyErr_Clear();
    return found;
}

/* Clears the exception that is set and returns it, with its traceback. */
static PyObject *take_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

static void raise_again(PyObject *error)
{
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_DECREF(error);
}

/* The capsule, or NULL with an exception. That of the second call has that of the first as its context. */
static PyObject *call_method(PyObject *method)
{
    PyObject *capsule = call_versioned(method);
    if (capsule || !PyErr_ExceptionMatches(PyExc_TypeError))
        return capsule;
    PyObject *first = take_exception();
    if (!is_about_arguments(first)) {
        raise_again(first);
        return NULL;
    }
    capsule = PyObject_CallFunctionObjArgs(method, NULL);
    if (capsule) {
        Py_DECREF(first);
        return capsule;
    }
    PyObject *second = take_exception();
    PyException_SetContext(second, first); /* takes it over */
    raise_again(second);
    return NULL;
}

PyObject *dlpack_from_object(PyObject *object)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
    if (!method) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_Clear();
        return NULL;
    }
    PyObject *capsule = call_method(method);
    Py_DECREF(method);
    return capsule;
}

dlpack_fault dlpack_open(PyObject *capsule, DLTensor *out, bool *read_only)
{
    *read_only = false;
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        *out = ((DLManagedTensor *)PyCapsule_GetPointer(capsule, "dltensor"))->dl_tensor;
        return DLPACK_FINE;
    }
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned"))
        return DLPACK_NO_CAPSULE;
    const managed_tensor *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->major > MAJOR)
        return DLPACK_TOO_NEW;
    *out = managed->tensor;
    *read_only = managed->flags & FLAG_READ_ONLY;
    return managed->flags & FLAG_COPIED ? DLPACK_COPY : DLPACK_FINE;
}
