/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c: loops that do the least work that every implementation must do, for each instruction set and cut into parts
 * for the threads. */
#include "limits.h"

#include <stdatomic.h>
#include <string.h>

#include "base/blocks.h"
#include "base/isa.h"
#include "gradscaler/gradscaler.h"
#include "must.h"

#define INLINE static inline __attribute__((always_inline))

/* The bits of elements that are floats elsewhere. */
typedef uint16_t __attribute__((may_alias)) bits16;
typedef uint32_t __attribute__((may_alias)) bits32;
typedef uint64_t __attribute__((may_alias)) bits64;

/* Numbers that the compiler does not know. */
static volatile double one = 1, zero = 0;
/* Where results go, so that they are computed. */
static _Atomic uint64_t sink;

/* The 16-bit kinds are multiplied as integers: a stand-in with the same memory traffic and no conversion. */
INLINE void multiply_body(gsc__kind kind, void *data, size_t n, double factor)
{
    if (kind == GSC_F32) {
        float *x = data, r = (float)factor;
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++)
            x[i] *= r;
    } else if (kind == GSC_F64) {
        double *x = data;
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++)
            x[i] *= factor;
    } else {
        bits16 *x = data, r = (bits16)factor;
#pragma GCC unroll 4
        for (size_t i = 0; i < n; i++)
            x[i] = (bits16)(x[i] * (unsigned)r);
    }
}

INLINE uint64_t read_body(gsc__kind kind, const void *data, size_t n)
{
    bits16 or16 = 0;
    bits32 or32 = 0;
    bits64 or64 = 0;
#pragma GCC unroll 4
    for (size_t i = 0; i < n; i++) {
        if (kind == GSC_F32)
            or32 |= ((const bits32 *)data)[i];
        else if (kind == GSC_F64)
            or64 |= ((const bits64 *)data)[i];
        else
            or16 |= ((const bits16 *)data)[i];
    }
    return or16 | or32 | or64;
}

/* Not Adam's arithmetic, only its memory traffic: reads p, g, m, v and writes p, m, v. */
INLINE void adam_body(float *restrict p, const float *restrict g, float *restrict m, float *restrict v, size_t n,
                      float r)
{
    for (size_t i = 0; i < n; i++) {
        m[i] += g[i] * r;
        v[i] += g[i] * r;
        p[i] += g[i] * r;
    }
}

typedef struct limit_table {
    const char *isa;
    void (*multiply)(gsc__kind kind, void *data, size_t n, double factor);
    uint64_t (*read)(gsc__kind kind, const void *data, size_t n);
    void (*adam)(float *p, const float *g, float *m, float *v, size_t n, float r);
} limit_table;

/* With a constant kind, so that the choice is made outside of the loops. */
INLINE void multiply_kind(gsc__kind kind, void *data, size_t n, double factor)
{
    switch (kind) {
    case GSC_F32: multiply_body(GSC_F32, data, n, factor); break;
    case GSC_F64: multiply_body(GSC_F64, data, n, factor); break;
    default: multiply_body(GSC_F16, data, n, factor); break;
    }
}

INLINE uint64_t read_kind(gsc__kind kind, const void *data, size_t n)
{
    switch (kind) {
    case GSC_F32: return read_body(GSC_F32, data, n);
    case GSC_F64: return read_body(GSC_F64, data, n);
    default: return read_body(GSC_F16, data, n);
    }
}

#define DEFINE_LIMITS(isa)                                                                                             \
    GSC_TARGET_##isa static void multiply_##isa(gsc__kind kind, void *data, size_t n, double factor)                   \
    {                                                                                                                  \
        multiply_kind(kind, data, n, factor);                                                                          \
    }                                                                                                                  \
    GSC_TARGET_##isa static uint64_t read_##isa(gsc__kind kind, const void *data, size_t n)                            \
    {                                                                                                                  \
        return read_kind(kind, data, n);                                                                               \
    }                                                                                                                  \
    GSC_TARGET_##isa static void adam_##isa(float *p, const float *g, float *m, float *v, size_t n, float r)           \
    {                                                                                                                  \
        adam_body(p, g, m, v, n, r);                                                                                   \
    }
GSC_ISAS(DEFINE_LIMITS)

#define TABLE(isa) {GSC_NAME_##isa, multiply_##isa, read_##isa, adam_##isa},
static const limit_table tables[] = {GSC_ISAS(TABLE)};

static const limit_table *limits(void)
{
    static const limit_table *table; /* of the instruction set that the library uses; looked up once */
    for (size_t i = 0; !table && i < sizeof tables / sizeof *tables; i++)
        if (strcmp(tables[i].isa, gsc_isa()) == 0)
            table = &tables[i];
    if (!table)
        bench_die("bench/limits.c has no loops for instruction set \"%s\"", gsc_isa());
    return table;
}

/* Counted in elements: a part of PART_MIN is worth waking a thread for. There are about PARTS_MAX. Every part but the
 * last is a multiple of PART_MULTIPLE, which is whole cache lines of 64 bytes for every dtype. */
enum { PART_MIN = 32768, PARTS_MAX = 64, PART_MULTIPLE = 64 };

static size_t part_size(size_t count)
{
    size_t size = count / PARTS_MAX / PART_MULTIPLE * PART_MULTIPLE;
    return size < PART_MIN ? PART_MIN : size;
}

static size_t part_count(size_t count) { return gsc__parts(count, part_size(count)); }

static gsc__range part_at(size_t count, size_t index) { return gsc__part(count, part_size(count), index); }

/* A part of contiguous elements. */
static limit_elements elements_at(const limit_elements *all, size_t index)
{
    const gsc__range part = part_at(all->count, index);
    return (limit_elements){.kind = all->kind,
                            .data = (char *)all->data + part.first * gsc__kind_size(all->kind),
                            .count = part.end - part.first};
}

static void multiply_part(void *ctx, size_t index)
{
    const limit_elements part = elements_at(ctx, index);
    limits()->multiply(part.kind, part.data, part.count, one);
}

static void read_part(void *ctx, size_t index)
{
    const limit_elements part = elements_at(ctx, index);
    atomic_store_explicit(&sink, limits()->read(part.kind, part.data, part.count), memory_order_relaxed);
}

static void read_gradients_part(void *ctx, size_t index)
{
    const limit_arrays *arrays = ctx;
    const gsc__range part = part_at(arrays->count, index);
    uint64_t bits = limits()->read(GSC_F32, arrays->g + part.first, part.end - part.first);
    atomic_store_explicit(&sink, bits, memory_order_relaxed);
}

static void adam_part(void *ctx, size_t index)
{
    const limit_arrays *arrays = ctx;
    const gsc__range part = part_at(arrays->count, index);
    const size_t first = part.first;
    limits()->adam(arrays->p + first, arrays->g + first, arrays->m + first, arrays->v + first, part.end - first,
                   (float)zero);
}

/* A single part runs in this thread, without a call of gsc_parallel_run. */
static void run_parts(size_t count, gsc_task *task, void *ctx)
{
    if (part_count(count) == 1)
        task(ctx, 0);
    else
        gsc_parallel_run(part_count(count), task, ctx);
}

static void run_multiply(void *ctx) { run_parts(((limit_elements *)ctx)->count, multiply_part, ctx); }

static void run_read(void *ctx) { run_parts(((limit_elements *)ctx)->count, read_part, ctx); }

static void run_read_multiply(void *ctx)
{
    run_read(ctx);
    run_multiply(ctx);
}

/* Reads the gradients first: clipping needs the norm of all of them before the first parameter is written. */
static void run_adam(void *ctx)
{
    const limit_arrays *arrays = ctx;
    run_parts(arrays->count, read_gradients_part, ctx);
    run_parts(arrays->count, adam_part, ctx);
}

bench_work limit_multiply(limit_elements *elements) { return (bench_work){.run = run_multiply, .ctx = elements}; }

bench_work limit_read(limit_elements *elements) { return (bench_work){.run = run_read, .ctx = elements}; }

bench_work limit_read_multiply(limit_elements *elements)
{
    return (bench_work){.run = run_read_multiply, .ctx = elements};
}

bench_work limit_adam(limit_arrays *arrays) { return (bench_work){.run = run_adam, .ctx = arrays}; }
