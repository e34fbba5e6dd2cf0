/* SPDX-License-Identifier: Apache-2.0 */
#include "limits.h"

#include <stdatomic.h>
#include <string.h>

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
    bits16 all16 = 0;
    bits32 all32 = 0;
    bits64 all64 = 0;
#pragma GCC unroll 4
    for (size_t i = 0; i < n; i++) {
        if (kind == GSC_F32)
            all32 |= ((const bits32 *)data)[i];
        else if (kind == GSC_F64)
            all64 |= ((const bits64 *)data)[i];
        else
            all16 |= ((const bits16 *)data)[i];
    }
    return all16 | all32 | all64;
}

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

/* The instruction sets of src/kernels/isa_*.c. */
#if defined(__x86_64__)
#define ISAS(ISA)                                                                                                      \
    ISA(avx512, __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))))                                         \
    ISA(avx2, __attribute__((target("avx2"))))                                                                         \
    ISA(baseline, )
#elif defined(__aarch64__)
#define ISAS(ISA) ISA(neon, )
#else
#define ISAS(ISA) ISA(baseline, )
#endif

/* A constant kind is decided by the compiler, outside of the loops. */
#define DEFINE_LIMITS(name, target)                                                                                    \
    target static void multiply_##name(gsc__kind kind, void *data, size_t n, double factor)                            \
    {                                                                                                                  \
        if (kind == GSC_F32)                                                                                           \
            multiply_body(GSC_F32, data, n, factor);                                                                   \
        else if (kind == GSC_F64)                                                                                      \
            multiply_body(GSC_F64, data, n, factor);                                                                   \
        else                                                                                                           \
            multiply_body(GSC_F16, data, n, factor);                                                                   \
    }                                                                                                                  \
    target static uint64_t read_##name(gsc__kind kind, const void *data, size_t n)                                     \
    {                                                                                                                  \
        return kind == GSC_F32   ? read_body(GSC_F32, data, n)                                                         \
               : kind == GSC_F64 ? read_body(GSC_F64, data, n)                                                         \
                                 : read_body(GSC_F16, data, n);                                                        \
    }                                                                                                                  \
    target static void adam_##name(float *p, const float *g, float *m, float *v, size_t n, float r)                    \
    {                                                                                                                  \
        adam_body(p, g, m, v, n, r);                                                                                   \
    }
ISAS(DEFINE_LIMITS)

static const limit_table tables[] = {
#define TABLE(name, target) {#name, multiply_##name, read_##name, adam_##name},
    ISAS(TABLE)};

static const limit_table *limits(void)
{
    static const limit_table *in_use;
    for (size_t i = 0; !in_use && i < sizeof tables / sizeof *tables; i++)
        if (strcmp(tables[i].isa, gsc_isa()) == 0)
            in_use = &tables[i];
    if (!in_use)
        bench_die("bench/limits.c has no loops for instruction set \"%s\": add it to ISAS", gsc_isa());
    return in_use;
}

/* Parts that are worth a thread; whole cache lines, but for the last. */
enum { PART_LEAST = 32768, PARTS_MOST = 64, LINE = 64 };

static size_t part_size(size_t count)
{
    size_t size = count / PARTS_MOST / LINE * LINE;
    return size < PART_LEAST ? PART_LEAST : size;
}

static size_t part_count(size_t count) { return (count + part_size(count) - 1) / part_size(count); }

/* The elements of a part; *first: where it begins. */
static size_t part_of(size_t count, size_t index, size_t *first)
{
    *first = index * part_size(count);
    return count - *first < part_size(count) ? count - *first : part_size(count);
}

static void multiply_part(void *ctx, size_t index)
{
    const limit_elements *elements = ctx;
    size_t first, n = part_of(elements->count, index, &first);
    limits()->multiply(elements->kind, (char *)elements->data + first * gsc__kind_size(elements->kind), n, one);
}

static void read_part(void *ctx, size_t index)
{
    const limit_elements *elements = ctx;
    size_t first, n = part_of(elements->count, index, &first);
    uint64_t all = limits()->read(elements->kind, (char *)elements->data + first * gsc__kind_size(elements->kind), n);
    atomic_store_explicit(&sink, all, memory_order_relaxed);
}

static void read_gradients_part(void *ctx, size_t index)
{
    const limit_arrays *arrays = ctx;
    size_t first, n = part_of(arrays->count, index, &first);
    atomic_store_explicit(&sink, limits()->read(GSC_F32, arrays->g + first, n), memory_order_relaxed);
}

static void adam_part(void *ctx, size_t index)
{
    const limit_arrays *arrays = ctx;
    size_t first, n = part_of(arrays->count, index, &first);
    limits()->adam(arrays->p + first, arrays->g + first, arrays->m + first, arrays->v + first, n, (float)zero);
}

/* One part needs no loop. */
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
