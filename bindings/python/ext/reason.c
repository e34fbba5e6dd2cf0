/* SPDX-License-Identifier: Apache-2.0 */
/* reason.c: an array's device, layout and dtype, compared with those that are served. */
#include "reason.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef char word[96];

/* str(object.attribute), or "" if there is none. */
static void read_attribute(PyObject *object, const char *attribute, word out)
{
    PyObject *value = PyObject_GetAttrString(object, attribute), *text = value ? PyObject_Str(value) : NULL;
    PyObject *bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
    snprintf(out, sizeof(word), "%s", bytes ? PyBytes_AsString(bytes) : "");
    Py_XDECREF(value);
    Py_XDECREF(text);
    Py_XDECREF(bytes);
    PyErr_Clear();
}

/* object.device.type, which only PyTorch's tensors have; else "". */
static void read_device(PyObject *array, word out)
{
    PyObject *device = PyObject_GetAttrString(array, "device");
    PyErr_Clear();
    out[0] = '\0';
    if (device)
        read_attribute(device, "type", out);
    Py_XDECREF(device);
}

static bool is_served(const char *dtype)
{
    static const char *const served[] = {"float32", "float64", "bfloat16", "float16"};
    static const char torch[] = "torch.";
    if (strncmp(dtype, torch, strlen(torch)) == 0)
        dtype += strlen(torch);
    for (size_t i = 0; i < sizeof served / sizeof *served; i++)
        if (strcmp(dtype, served[i]) == 0)
            return true;
    return false;
}

static gsc_status find(PyObject *array, char *why, size_t size)
{
    word device, nested, layout, dtype;
    read_device(array, device);
    read_attribute(array, "is_nested", nested);
    read_attribute(array, "layout", layout);
    read_attribute(array, "dtype", dtype);
    if (*device && strcmp(device, "cpu") != 0) {
        snprintf(why, size, "is on device %s; served is the CPU", device);
        return GSC_ERR_DEVICE;
    }
    if (strcmp(nested, "True") == 0)
        snprintf(why, size, "is nested; allowed are dense and sparse COO tensors; pass its parts (unbind())");
    else if (*layout && strcmp(layout, "torch.strided") != 0)
        snprintf(why, size, "has layout %s; allowed are torch.strided and torch.sparse_coo; make it dense (to_dense())",
                 layout);
    else if (*dtype && !is_served(dtype))
        snprintf(why, size, "has dtype %s; allowed are float32, float64, bfloat16 and float16; convert it", dtype);
    else
        return GSC_OK;
    return GSC_ERR_VALUE;
}

gsc_status reason_find(PyObject *array, char *why, size_t size)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    gsc_status status = find(array, why, size);
    PyErr_Restore(type, value, traceback);
    return status;
}
