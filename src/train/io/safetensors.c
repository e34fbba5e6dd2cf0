/* SPDX-License-Identifier: Apache-2.0 */
#include "train/io/safetensors.h"

#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors files are little-endian, and so must be the machine"
#endif

enum { BOOLEAN = 6 }; /* DLPack's kDLBool, which older headers lack */

#define UNSUPPORTED(name)                                                                                              \
    {                                                                                                                  \
        name, {0, 0, 0}, 0, 0                                                                                          \
    }

/* Ranks are the Python package's, so that files come out equal. */
static const gsc__safetensors_dtype dtypes[] = {
    {"BOOL", {BOOLEAN, 8, 1}, 1, 1},
    UNSUPPORTED("F4"),
    UNSUPPORTED("F6_E2M3"),
    UNSUPPORTED("F6_E3M2"),
    {"U8", {kDLUInt, 8, 1}, 1, 1},
    {"I8", {kDLInt, 8, 1}, 1, 1},
    UNSUPPORTED("F8_E5M2"),
    UNSUPPORTED("F8_E4M3"),
    UNSUPPORTED("F8_E8M0"),
    {"I16", {kDLInt, 16, 1}, 2, 2},
    {"U16", {kDLUInt, 16, 1}, 2, 2},
    {"F16", {kDLFloat, 16, 1}, 2, 2},
    {"BF16", {kDLBfloat, 16, 1}, 2, 2},
    {"I32", {kDLInt, 32, 1}, 4, 4},
    {"U32", {kDLUInt, 32, 1}, 4, 4},
    {"F32", {kDLFloat, 32, 1}, 4, 4},
    {"C64", {kDLComplex, 64, 1}, 8, 4},
    {"F64", {kDLFloat, 64, 1}, 8, 8},
    {"I64", {kDLInt, 64, 1}, 8, 8},
    {"U64", {kDLUInt, 64, 1}, 8, 8},
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
    for (size_t i = 0; i < DTYPES; i++)
        if (dtypes[i].size > 0 && dtype.code == dtypes[i].dtype.code && dtype.bits == dtypes[i].dtype.bits &&
            dtype.lanes == dtypes[i].dtype.lanes)
            return &dtypes[i];
    return NULL;
}

bool gsc__safetensors_bytes(const gsc__safetensors_dtype *dtype, int32_t ndim, const int64_t *shape, int64_t *bytes)
{
    int64_t product = (int64_t)dtype->size;
    for (int32_t d = 0; d < ndim; d++)
        if (__builtin_mul_overflow(product, shape[d], &product))
            return false;
    *bytes = product;
    return true;
}
