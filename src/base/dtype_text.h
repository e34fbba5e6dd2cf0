/* SPDX-License-Identifier: Apache-2.0 */
/* dtype_text.h: a dtype in words, for messages. */
#ifndef GSC_BASE_DTYPE_TEXT_H
#define GSC_BASE_DTYPE_TEXT_H

#include <stdio.h>

#include "gradscaler/dtype.h"

typedef struct gsc__dtype_text {
    char text[64];
} gsc__dtype_text;

/* In the words of frameworks: "int32, 1 lane", "float8_e4m3, 1 lane", "float32, 4 lanes", "with code 99 and 8 bits, 1
 * lane". Codes are indices here, since older versions of dlpack.h name only the first six. */
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
    snprintf(out.text + used, sizeof out.text - (size_t)used, ", %d lane%s", dtype.lanes, dtype.lanes == 1 ? "" : "s");
    return out;
}

#endif
