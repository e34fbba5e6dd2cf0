/* SPDX-License-Identifier: Apache-2.0 */
/* ops_convert.h: elements from one floating-point dtype to another, each rounded once to nearest even. */
#ifndef GSC_TRAIN_TENSOR_CONVERT_H
#define GSC_TRAIN_TENSOR_CONVERT_H

#include "train/tensor/tensor.h"

/* How many elements ops work on at a time: their float64 copies fit in the first-level cache. */
enum { GSC_STRIP = 1024 };

/* On the calling thread; src and dst are disjoint. */
void gsc__convert(gsc__kind from, const void *src, gsc__kind to, void *dst, size_t n);
/* On all threads. */
void gsc__convert_all(gsc__kind from, const void *src, gsc__kind to, void *dst, size_t n);
/* Elements first … first + n - 1 as float64, n <= GSC_STRIP: src itself where it is float64, else copied to strip. */
const double *gsc__load_f64(gsc__kind kind, const void *src, size_t first, size_t n, double strip[GSC_STRIP]);
/* dst[i] += src[i], computed in float32 for the half dtypes. On all threads. */
void gsc__accumulate(gsc__kind kind, void *dst, const void *src, size_t n);

static inline const void *gsc__at(gsc__kind kind, const void *elements, size_t index)
{
    return (const char *)elements + index * gsc__kind_size(kind);
}

static inline void *gsc__at_mutable(gsc__kind kind, void *elements, size_t index)
{
    return (char *)elements + index * gsc__kind_size(kind);
}

/* A loop over n elements in blocks; blocks are the same for every thread count. */
enum { GSC_BLOCK = 16 * GSC_STRIP };
static inline size_t gsc__blocks(size_t n) { return n / GSC_BLOCK + (n % GSC_BLOCK != 0); }
static inline size_t gsc__block_length(size_t n, size_t block)
{
    size_t left = n - block * GSC_BLOCK;
    return left < GSC_BLOCK ? left : GSC_BLOCK;
}

#endif
