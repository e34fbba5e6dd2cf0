/* SPDX-License-Identifier: Apache-2.0 */
/* sum.c: averages of the ranks' values, added in the order of the ranks. */
#include "base/fpenv.h"
#include "base/half_rows.h"
#include "mpi/internal.h"

enum { BLOCK = 1024 }; /* elements whose sums stay in the nearest cache */

static void widen(gsc__kind kind, const void *values, size_t first, size_t count, float *out)
{
    if (kind == GSC_BF16) {
        const uint16_t *x = (const uint16_t *)values + first;
        for (size_t i = 0; i < count; i++)
            out[i] = gsc__bf16_to_f32(x[i]);
    } else {
        gsc__widen_f16(false, (const uint16_t *)values + first, out, count);
    }
}

static void narrow(gsc__kind kind, const float *sums, void *values, size_t first, size_t count)
{
    if (kind == GSC_BF16) {
        uint16_t *y = (uint16_t *)values + first;
        for (size_t i = 0; i < count; i++)
            y[i] = gsc__f32_to_bf16(sums[i]);
    } else {
        gsc__narrow_f16(false, sums, (uint16_t *)values + first, count);
    }
}

/* The values of a rank. */
static const void *of_rank(const void *own, const void *others, size_t bytes, int of, int rank)
{
    if (of == rank)
        return own;
    return (const char *)others + (size_t)(of < rank ? of : of - 1) * bytes;
}

static void average_half(gsc__kind kind, void *own, const void *others, size_t count, int rank, int ranks)
{
    float sums[BLOCK], terms[BLOCK];
    const float divisor = (float)ranks;
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t n = count - first < BLOCK ? count - first : BLOCK;
        widen(kind, of_rank(own, others, count * sizeof(uint16_t), 0, rank), first, n, sums);
        for (int r = 1; r < ranks; r++) {
            widen(kind, of_rank(own, others, count * sizeof(uint16_t), r, rank), first, n, terms);
            for (size_t i = 0; i < n; i++)
                sums[i] += terms[i];
        }
        for (size_t i = 0; i < n; i++)
            sums[i] /= divisor;
        narrow(kind, sums, own, first, n);
    }
}

#define AVERAGE(name, type)                                                                                            \
    static void name(void *own, const void *others, size_t count, int rank, int ranks)                                 \
    {                                                                                                                  \
        type sums[BLOCK];                                                                                              \
        const type divisor = (type)ranks;                                                                              \
        for (size_t first = 0; first < count; first += BLOCK) {                                                        \
            const size_t n = count - first < BLOCK ? count - first : BLOCK;                                            \
            const type *a = (const type *)of_rank(own, others, count * sizeof(type), 0, rank) + first;                 \
            const type *b = (const type *)of_rank(own, others, count * sizeof(type), 1, rank) + first;                 \
            for (size_t i = 0; i < n; i++)                                                                             \
                sums[i] = a[i] + b[i];                                                                                 \
            for (int r = 2; r < ranks; r++) {                                                                          \
                const type *c = (const type *)of_rank(own, others, count * sizeof(type), r, rank) + first;             \
                for (size_t i = 0; i < n; i++)                                                                         \
                    sums[i] += c[i];                                                                                   \
            }                                                                                                          \
            type *out = (type *)own + first;                                                                           \
            for (size_t i = 0; i < n; i++)                                                                             \
                out[i] = sums[i] / divisor;                                                                            \
        }                                                                                                              \
    }
AVERAGE(average_f32, float)
AVERAGE(average_f64, double)
#undef AVERAGE

void gsc__mpi_average(gsc__kind kind, void *own, const void *others, size_t count, int rank, int ranks)
{
    GSC_FPENV_SCOPE;
    switch (kind) {
    case GSC_F32: average_f32(own, others, count, rank, ranks); break;
    case GSC_F64: average_f64(own, others, count, rank, ranks); break;
    default: average_half(kind, own, others, count, rank, ranks); break;
    }
}
