/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c: a matrix product of any floating-point dtype: by oneDNN in slices, float64 by a loop of its own. */
#include "train/ops/gemm.h"

#include <inttypes.h>
#include <string.h>

#include "base/try.h"
#include "gradscaler/runtime.h"
#include "train/tensor/convert.h"

/* oneDNN 2 has no float64. A task computes ROWS rows of C, in strips of COLUMNS; each element adds its k products in
 * order. */
enum { ROWS = 8, COLUMNS = 512, TRANSPOSE = 32 };

typedef struct gemm_f64 {
    const gsc__gemm *gemm;
    const double *a, *b, *bias;
    double *c;
} gemm_f64;

static void add_products(const gemm_f64 *job, int64_t row, int64_t column, int64_t width)
{
    const gsc__gemm *g = job->gemm;
    const double *a = job->a + (g->transpose_a ? row : row * g->k);
    int64_t a_step = g->transpose_a ? g->m : 1;
    double *restrict c = job->c + row * g->n + column;
    for (int64_t p = 0; p < g->k; p++) {
        const double *restrict b = job->b + p * g->n + column;
        double factor = a[p * a_step];
        for (int64_t j = 0; j < width; j++)
            c[j] += factor * b[j];
    }
}

static void gemm_f64_task(void *ctx, size_t index)
{
    const gemm_f64 *job = ctx;
    const gsc__gemm *g = job->gemm;
    gsc__range rows = gsc__part((size_t)g->m, ROWS, index);
    for (int64_t column = 0; column < g->n; column += COLUMNS) {
        int64_t width = g->n - column < COLUMNS ? g->n - column : COLUMNS;
        for (int64_t row = (int64_t)rows.first; row < (int64_t)rows.end; row++) {
            double *c = job->c + row * g->n + column;
            if (job->bias)
                memcpy(c, job->bias + column, (size_t)width * sizeof *c);
            else
                memset(c, 0, (size_t)width * sizeof *c);
            add_products(job, row, column, width);
        }
    }
}

/* src [rows, columns] to dst [columns, rows], one square after the other, so that both stay in the cache. */
static void transpose_f64(const double *src, int64_t rows, int64_t columns, double *dst)
{
    for (int64_t r0 = 0; r0 < rows; r0 += TRANSPOSE)
        for (int64_t c0 = 0; c0 < columns; c0 += TRANSPOSE)
            for (int64_t r = r0; r < rows && r < r0 + TRANSPOSE; r++)
                for (int64_t c = c0; c < columns && c < c0 + TRANSPOSE; c++)
                    dst[c * rows + r] = src[r * columns + c];
}

static gsc_status run_f64(gsc_tape *tape, const gsc__gemm *g, const double *a, const double *b, const double *bias,
                          double *c)
{
    if (g->transpose_b) {
        double *transposed = gsc__tape_scratch(tape, (size_t)g->k * (size_t)g->n, GSC_F64);
        if (!transposed)
            return GSC_ERR_MEMORY;
        transpose_f64(b, g->n, g->k, transposed);
        b = transposed;
    }
    gemm_f64 job = {.gemm = g, .a = a, .b = b, .bias = bias, .c = c};
    gsc_parallel_run(gsc__parts((size_t)g->m, ROWS), gemm_f64_task, &job);
    return GSC_OK;
}

/* A float32 copy of half values. NULL with a message: no memory. */
static const float *widen(gsc_tape *tape, gsc__kind kind, const void *values, int64_t rows, int64_t columns)
{
    size_t count = (size_t)rows * (size_t)columns;
    float *wide = gsc__tape_scratch(tape, count, GSC_F32);
    if (wide)
        gsc__convert_parallel(kind, values, GSC_F32, wide, count);
    return wide;
}

/* The result is cut into slices along its longer side; one thread computes each. */
enum { SLICE = 128 };

typedef struct sliced {
    const gsc__dnnl *dnnl;
    const gsc__dnnl_matmul *whole_slice, *last_slice;
    const gsc__gemm *gemm;
    const void *a, *b, *bias;
    void *c;
    char *scratch;
    size_t scratch_bytes; /* of each slice */
    size_t slices;
    gsc_status *statuses;
} sliced;

static void slice_task(void *ctx, size_t index)
{
    const sliced *job = ctx;
    const gsc__gemm *g = job->gemm;
    gsc__kind kind = g->kind;
    bool by_rows = g->m > g->n;
    size_t first = index * SLICE;
    size_t a_offset = by_rows ? first * (size_t)(g->transpose_a ? 1 : g->lda) : 0;
    size_t b_offset = by_rows ? 0 : first * (size_t)(g->transpose_b ? g->ldb : 1);
    size_t c_offset = by_rows ? first * (size_t)g->ldc : first;
    const void *bias = job->bias && !by_rows ? gsc__at(kind, job->bias, first) : job->bias;
    job->statuses[index] =
        gsc__dnnl_run(job->dnnl, index + 1 == job->slices ? job->last_slice : job->whole_slice,
                      gsc__at(kind, job->a, a_offset), gsc__at(kind, job->b, b_offset), bias,
                      gsc__at_mutable(kind, job->c, c_offset), job->scratch + index * job->scratch_bytes);
}

/* The product of a slice with `size` rows or columns of the longer side. */
static const gsc__dnnl_matmul *find_slice(gsc_tape *tape, gsc__gemm gemm, int64_t size)
{
    *(gemm.m > gemm.n ? &gemm.m : &gemm.n) = size;
    return gsc__dnnl_find(&tape->dnnl, &gemm);
}

static gsc_status run_slices(gsc_tape *tape, sliced *job)
{
    const gsc__gemm *g = job->gemm;
    int64_t longer = g->m > g->n ? g->m : g->n;
    job->slices = gsc__parts((size_t)longer, SLICE);
    size_t whole = gsc__dnnl_scratch_bytes(job->whole_slice), last = gsc__dnnl_scratch_bytes(job->last_slice);
    job->scratch_bytes =
        ((whole > last ? whole : last) + GSC_ARENA_ALIGNMENT - 1) / GSC_ARENA_ALIGNMENT * GSC_ARENA_ALIGNMENT;
    job->scratch = gsc__arena_alloc(&tape->arena, job->slices * job->scratch_bytes);
    job->statuses = job->scratch ? gsc__arena_alloc(&tape->arena, job->slices * sizeof *job->statuses) : NULL;
    if (!job->statuses)
        return GSC_ERR_MEMORY;
    gsc_parallel_run(job->slices, slice_task, job);
    for (size_t i = 0; i < job->slices; i++)
        if (job->statuses[i] != GSC_OK)
            return gsc_fail(job->statuses[i],
                            "oneDNN failed to compute a matrix product of %s [%" PRId64 ", %" PRId64 "] and [%" PRId64
                            ", %" PRId64 "]",
                            gsc__kind_name(g->kind), g->m, g->k, g->k, g->n);
    return GSC_OK;
}

/* For products of half dtypes that oneDNN computes slowly or wrongly on this processor: through float32 copies. */
static gsc_status run_widened(gsc_tape *tape, gsc__gemm g, const void *a, const void *b, const void *bias, void *c);

static gsc_status run_dnnl(gsc_tape *tape, gsc__gemm g, const void *a, const void *b, const void *bias, void *c)
{
    int64_t longer = g.m > g.n ? g.m : g.n, remainder = longer % SLICE;
    sliced job = {.dnnl = &tape->dnnl, .gemm = &g, .a = a, .b = b, .bias = bias, .c = c};
    job.whole_slice = find_slice(tape, g, longer < SLICE ? longer : SLICE);
    job.last_slice = job.whole_slice && remainder > 0 ? find_slice(tape, g, remainder) : job.whole_slice;
    if (!job.last_slice)
        return GSC_ERR_MEMORY;
    if (g.kind == GSC_F32 || (gsc__dnnl_is_usable(job.whole_slice) && gsc__dnnl_is_usable(job.last_slice)))
        return run_slices(tape, &job);
    return run_widened(tape, g, a, b, bias, c);
}

static gsc_status run_widened(gsc_tape *tape, gsc__gemm g, const void *a, const void *b, const void *bias, void *c)
{
    gsc__kind kind = g.kind;
    size_t count = (size_t)g.m * (size_t)g.n;
    const float *wide_a = widen(tape, kind, a, g.m, g.k);
    const float *wide_b = widen(tape, kind, b, g.k, g.n);
    const float *wide_bias = bias ? widen(tape, kind, bias, 1, g.n) : NULL;
    float *wide_c = gsc__tape_scratch(tape, count, GSC_F32);
    if (!wide_a || !wide_b || (bias && !wide_bias) || !wide_c)
        return GSC_ERR_MEMORY;
    g.kind = GSC_F32;
    GSC_TRY(run_dnnl(tape, g, wide_a, wide_b, wide_bias, wide_c));
    gsc__convert_parallel(GSC_F32, wide_c, kind, c, count);
    return GSC_OK;
}

/* Without products to add, each row is the bias or 0. */
static void fill_rows(const gsc__gemm *g, const void *bias, void *c)
{
    size_t row_bytes = (size_t)g->n * gsc__kind_size(g->kind);
    for (int64_t row = 0; row < g->m; row++) {
        if (bias)
            memcpy((char *)c + (size_t)row * row_bytes, bias, row_bytes);
        else
            memset((char *)c + (size_t)row * row_bytes, 0, row_bytes);
    }
}

gsc_status gsc__gemm_run(gsc_tape *tape, gsc__gemm gemm, const void *a, const void *b, const void *bias, void *c)
{
    gemm.has_bias = bias != NULL;
    gemm.lda = gemm.transpose_a ? gemm.m : gemm.k;
    gemm.ldb = gemm.transpose_b ? gemm.k : gemm.n;
    gemm.ldc = gemm.n;
    if (gemm.m == 0 || gemm.n == 0)
        return GSC_OK;
    if (gemm.k == 0) {
        fill_rows(&gemm, bias, c);
        return GSC_OK;
    }
    gsc__arena_mark mark = gsc__arena_get_mark(&tape->arena);
    gsc_status status =
        gemm.kind == GSC_F64 ? run_f64(tape, &gemm, a, b, bias, c) : run_dnnl(tape, gemm, a, b, bias, c);
    gsc__arena_rewind(&tape->arena, mark);
    return status;
}
