/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h: the limits of the machine: loops that do the least work that every implementation must do on elements in
 * memory, in plain C for the instruction set that the library uses. They share no code with its kernels and leave the
 * elements as they are. */
#ifndef GSC_BENCH_LIMITS_H
#define GSC_BENCH_LIMITS_H

#include "base/dtype_kind.h"
#include "measure.h"

/* Contiguous elements; on several threads in equal parts, through gsc_parallel_run. */
typedef struct limit_elements {
    gsc__kind kind;
    void *data;
    size_t count;
} limit_elements;

/* Multiplies in place by one (float16 and bfloat16 as 16-bit integers: computing with them is no part of the limit). */
bench_work limit_multiply(limit_elements *elements);
/* Takes the bitwise or of all elements. */
bench_work limit_read(limit_elements *elements);
/* Reads all elements, then multiplies: the least where a result over all elements decides what is written. */
bench_work limit_read_multiply(limit_elements *elements);

/* The memory traffic of clipping and Adam: reads g; then reads p, g, m, v and writes p, m, v. */
typedef struct limit_arrays {
    float *p, *g, *m, *v;
    size_t count;
} limit_arrays;
bench_work limit_adam(limit_arrays *arrays);

#endif
