/* SPDX-License-Identifier: Apache-2.0 */
/* convert.h: elements from one floating-point dtype to another, each rounded once to nearest even. */
#ifndef GSC_TRAIN_TENSOR_CONVERT_H
#define GSC_TRAIN_TENSOR_CONVERT_H

#include "base/blocks.h"
#include "base/dtype_kind.h"

/* A strip: the elements that are converted at a time. Their float64 copies fit in the first-level cache. */
enum { GSC_STRIP = 1024 };
/* Elements of one task. Tasks are the same for every thread count. */
enum { GSC_TASK_ELEMENTS = 16 * GSC_STRIP };

/* Both kinds are floating-point, in all functions of this file. On the calling thread; src and dst are disjoint. */
void gsc__convert(gsc__kind from, const void *src, gsc__kind to, void *dst, size_t n);
/* The same, on all threads. */
void gsc__convert_parallel(gsc__kind from, const void *src, gsc__kind to, void *dst, size_t n);
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

/* Length of the strip that starts at `first`. */
static inline size_t gsc__strip_length(size_t first, size_t end)
{
    return end - first < GSC_STRIP ? end - first : GSC_STRIP;
}

#endif
