/* SPDX-License-Identifier: Apache-2.0 */
/* dtype_text.h: dtypes and devices in words, for messages. Codes and types are indices here, since older versions of
 * dlpack.h name only some of them. */
#ifndef GSC_BASE_DTYPE_TEXT_H
#define GSC_BASE_DTYPE_TEXT_H

#include <stdio.h>

#include "gradscaler/dtype.h"

typedef struct gsc__dtype_text {
    char text[64];
} gsc__dtype_text;

/* In the words of frameworks: "int64", "bool", "float8_e4m3", "float32, 4 lanes", "with code 99 and 8 bits". */
static inline gsc__dtype_text gsc__describe_dtype(DLDataType dtype)
{
    static const char *const sized[] = {"int", "uint", "float", "opaque", "bfloat", "complex"};
    static const char *const whole[] = {"bool",           "float8_e3m4",     "float8_e4m3",   "float8_e4m3b11fnuz",
                                        "float8_e4m3fn",  "float8_e4m3fnuz", "float8_e5m2",   "float8_e5m2fnuz",
                                        "float8_e8m0fnu", "float6_e2m3fn",   "float6_e3m2fn", "float4_e2m1fn"};
    const size_t n_sized = sizeof sized / sizeof *sized, n_whole = sizeof whole / sizeof *whole;
    gsc__dtype_text out;
    int used;
    if (dtype.code < n_sized)
        used = snprintf(out.text, sizeof out.text, "%s%d", sized[dtype.code], dtype.bits);
    else if (dtype.code - n_sized < n_whole)
        used = snprintf(out.text, sizeof out.text, "%s", whole[dtype.code - n_sized]);
    else
        used = snprintf(out.text, sizeof out.text, "with code %d and %d bits", dtype.code, dtype.bits);
    if (dtype.lanes != 1)
        snprintf(out.text + used, sizeof out.text - (size_t)used, ", %d lanes", dtype.lanes);
    return out;
}

typedef struct gsc__device_text {
    char text[64];
} gsc__device_text;

/* "the CPU", "CUDA device 0", "device 1 of the unknown type 99". */
static inline gsc__device_text gsc__describe_device(DLDevice device)
{
    static const char *const names[] = {
        [1] = "CPU",        [2] = "CUDA",       [3] = "CUDA host",     [4] = "OpenCL",
        [7] = "Vulkan",     [8] = "Metal",      [9] = "VPI",           [10] = "ROCm",
        [11] = "ROCm host", [12] = "extension", [13] = "CUDA managed", [14] = "oneAPI",
        [15] = "WebGPU",    [16] = "Hexagon",   [17] = "MAIA",         [18] = "Trainium"};
    const size_t type = (size_t)device.device_type;
    const char *name = type < sizeof names / sizeof *names ? names[type] : NULL;
    gsc__device_text out;
    if (!name)
        snprintf(out.text, sizeof out.text, "device %d of the unknown type %d", (int)device.device_id,
                 (int)device.device_type);
    else if (device.device_type == kDLCPU)
        snprintf(out.text, sizeof out.text, "the CPU");
    else
        snprintf(out.text, sizeof out.text, "%s device %d", name, (int)device.device_id);
    return out;
}

#endif
