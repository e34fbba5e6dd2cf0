/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors_format.c: the table of the format's dtypes. */
#include "train/io/safetensors_format.h"

#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little-endian, and so must be the machine"
#endif

enum { BOOLEAN = 6 }; /* DLPack's kDLBool, which older headers lack */

#define UNSUPPORTED(name)                                                                                              \
    {                                                                                                                  \
        name, { 0, 0, 0 }                                                                                              \
    }

/* In the Python package's order, so that files come out equal. The table is the format's own, not dtype_kind.h's: it
 * has the integers and complex64, which no kernel computes with, and needs static initialisers. */
static const gsc__safetensors_dtype dtypes[] = {
    {"BOOL", {BOOLEAN, 8, 1}},    UNSUPPORTED("F4"),          UNSUPPORTED("F6_E2M3"),    UNSUPPORTED("F6_E3M2"),
    {"U8", {kDLUInt, 8, 1}},      {"I8", {kDLInt, 8, 1}},     UNSUPPORTED("F8_E5M2"),    UNSUPPORTED("F8_E4M3"),
    UNSUPPORTED("F8_E8M0"),       {"I16", {kDLInt, 16, 1}},   {"U16", {kDLUInt, 16, 1}}, {"F16", {kDLFloat, 16, 1}},
    {"BF16", {kDLBfloat, 16, 1}}, {"I32", {kDLInt, 32, 1}},   {"U32", {kDLUInt, 32, 1}}, {"F32", {kDLFloat, 32, 1}},
    {"C64", {kDLComplex, 64, 1}}, {"F64", {kDLFloat, 64, 1}}, {"I64", {kDLInt, 64, 1}},  {"U64", {kDLUInt, 64, 1}},
};

enum { DTYPES = sizeof dtypes / sizeof dtypes[0] };

const gsc__safetensors_dtype *gsc__safetensors_dtype_named(const char *name)
{
    for (size_t i = 0; i < DTYPES; i++)
        if (strcmp(name, dtypes[i].name) == 0)
            return &dtypes[i];
    return NULL;
}

const gsc__safetensors_dtype *gsc__safetensors_dtype_of(DLDataType dtype)
{
    for (size_t i = 0; i < DTYPES; i++) {
        const DLDataType known = dtypes[i].dtype;
        if (known.bits > 0 && dtype.code == known.code && dtype.bits == known.bits && dtype.lanes == known.lanes)
            return &dtypes[i];
    }
    return NULL;
}

bool gsc__safetensors_bytes(const gsc__safetensors_dtype *dtype, int32_t ndim, const int64_t *shape, int64_t *bytes)
{
    int64_t product = (int64_t)gsc__safetensors_size(dtype);
    for (int32_t d = 0; d < ndim; d++)
        if (__builtin_mul_overflow(product, shape[d], &product))
            return false;
    *bytes = product;
    return true;
}
