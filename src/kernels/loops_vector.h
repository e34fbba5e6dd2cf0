/* SPDX-License-Identifier: Apache-2.0 */
/* loops_vector.h: vectors as wide as the instruction set's, their maxima, and prefetching. loops.h says what the
 * includer defines. */
#ifndef GSC_KERNELS_LOOPS_VECTOR_H
#define GSC_KERNELS_LOOPS_VECTOR_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/kernels.h"
#include "kernels/loops_bits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* A vector of any elements. Casts between these types keep the bits. */
typedef int32_t vector __attribute__((vector_size(GSC_VECTOR)));
typedef int16_t vector_i16 __attribute__((vector_size(GSC_VECTOR)));
typedef int64_t vector_i64 __attribute__((vector_size(GSC_VECTOR)));
typedef uint32_t vector_u32 __attribute__((vector_size(GSC_VECTOR)));
typedef float vector_f32 __attribute__((vector_size(GSC_VECTOR)));
typedef double vector_f64 __attribute__((vector_size(GSC_VECTOR)));

enum {
    LINE = 64,             /* bytes of a cache line */
    LONG_RUN = 1 << 21,    /* bytes: shorter runs may be in a cache, where prefetching costs more than it gains */
    PREFETCH_AHEAD = 8192, /* bytes from the element at work */
    PREFETCH_RUNS = 8,   /* prefetch this many runs ahead; hardware prefetchers cannot follow a list of small tensors */
    PREFETCH_BYTES = 256 /* at the beginning of such a run */
};

/* Takes an address because a pointer must not point beyond its array. */
INLINE void prefetch(uintptr_t address, size_t bytes)
{
    for (size_t byte = 0; byte < bytes; byte += LINE)
        __builtin_prefetch((const void *)(address + byte));
}

/* Of a long run: brings the line that lies PREFETCH_AHEAD into the second-level cache. Called right before the work on
 * each line, it is faster than bursts of pages, and than prefetches into the first level where elements are stored. */
INLINE void prefetch_ahead(const void *x) { __builtin_prefetch((const void *)((uintptr_t)x + PREFETCH_AHEAD), 0, 2); }

INLINE void prefetch_run(const gsc__run *run, size_t element_size)
{
    size_t bytes = run->count * element_size;
    prefetch((uintptr_t)run->data, bytes < PREFETCH_BYTES ? bytes : PREFETCH_BYTES);
}

INLINE vector_i16 larger_i16(vector_i16 a, vector_i16 b)
{
#ifdef GSC_MAX_I16
    return (vector_i16)GSC_MAX_I16(a, b);
#else
    vector_i16 greater = a > b;
    return (a & greater) | (b & ~greater);
#endif
}

INLINE vector larger_i32(vector a, vector b)
{
#ifdef GSC_MAX_I32
    return (vector)GSC_MAX_I32(a, b);
#else
    vector greater = a > b;
    return (a & greater) | (b & ~greater);
#endif
}

INLINE vector_i64 larger_i64(vector_i64 a, vector_i64 b)
{
#if defined(GSC_MAX_I64)
    return (vector_i64)GSC_MAX_I64(a, b);
#elif defined(GSC_NO_COMPARE_I64)
    vector_i64 difference = a - b;
    vector_i64 negative = difference >> 63; /* cppcheck-suppress shiftTooManyBitsSigned; gcc and clang copy the sign */
    return b + (difference & ~negative);
#else
    vector_i64 greater = a > b;
    return (a & greater) | (b & ~greater);
#endif
}

/* a + bit 16 of b. */
INLINE vector_u32 add_bit16(vector_u32 a, vector_u32 b)
{
#ifdef GSC_ADD_BIT16
    return (vector_u32)GSC_ADD_BIT16(a, b);
#else
    return a + ((b >> 16) & 1u);
#endif
}

/* The larger of each two lanes. Lanes are signed integers of `lane` bytes, none of them negative: SSE2 and AVX2 compare
 * signed ones only. */
INLINE vector larger(size_t lane, vector a, vector b)
{
    switch (lane) {
    case sizeof(int16_t): return (vector)larger_i16((vector_i16)a, (vector_i16)b);
    case sizeof(int32_t): return larger_i32(a, b);
    default: return (vector)larger_i64((vector_i64)a, (vector_i64)b);
    }
}

/* Each width has a maximum of its own type: widened, 16-bit lanes would take as long as 4 KiB of elements. */
INLINE int64_t largest_lane(size_t lane, vector lanes)
{
    const vector_i16 lanes_i16 = (vector_i16)lanes;
    const vector_i64 lanes_i64 = (vector_i64)lanes;
    int16_t max_i16 = 0;
    int32_t max_i32 = 0;
    int64_t max_i64 = 0;
    for (size_t i = 0; i < GSC_VECTOR / lane; i++) {
        if (lane == sizeof max_i16)
            max_i16 = lanes_i16[i] > max_i16 ? lanes_i16[i] : max_i16;
        else if (lane == sizeof max_i32)
            max_i32 = lanes[i] > max_i32 ? lanes[i] : max_i32;
        else
            max_i64 = lanes_i64[i] > max_i64 ? lanes_i64[i] : max_i64;
    }
    return lane == sizeof max_i16 ? max_i16 : lane == sizeof max_i32 ? max_i32 : max_i64;
}

#endif
