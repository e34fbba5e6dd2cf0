/* SPDX-License-Identifier: Apache-2.0 */
/* layouts.c: matrices that are not compact beside a compact one of as many elements. */
#include "data.h"
#include "report.h"
#include "topics.h"

typedef struct layout {
    const char *name;
    bool transposed;
    int64_t padding; /* elements between rows */
    int64_t step;    /* elements from one column to the next */
    double bar;      /* 0: none */
} layout;

static const layout layouts[] = {
    {"transposed", true, 0, 1, 0.5},
    {"padded rows", false, 16, 1, 0},
    {"padded rows, transposed", true, 16, 1, 0},
    {"every other column", false, 0, 2, 0},
};

static void measure_layout(bench *b, const layout *shape, gsc__kind kind, int64_t side)
{
    bench_row row = {.topic = "layouts",
                     .what = shape->name,
                     .kind = kind,
                     .elements = (size_t)(side * side),
                     .tensors = 1,
                     .threads = 1,
                     .beside = "compact matrix",
                     .bar = shape->bar};
    if (!bench_wanted(b, &row))
        return;
    int64_t column_stride = shape->step, row_stride = side * shape->step + shape->padding;
    bench_store memory = {.kind = kind, .bytes = (size_t)(side * row_stride) * gsc__kind_size(kind)};
    bench_store compact_memory = {.kind = kind, .bytes = (size_t)(side * side) * gsc__kind_size(kind)};
    bench_tensor ours, compact;
    bench_tensor_matrix(&ours, kind, bench_store_data(&memory), side, side,
                        shape->transposed ? column_stride : row_stride, shape->transposed ? row_stride : column_stride);
    bench_tensor_matrix(&compact, kind, bench_store_data(&compact_memory), side, side, side, 1);
    bench_compare(b, row, (bench_work){.run = bench_unscale_tensor, .ctx = &ours},
                  (bench_work){.run = bench_unscale_tensor, .ctx = &compact});
    bench_store_free(&memory);
    bench_store_free(&compact_memory);
}

void bench_layouts(bench *b)
{
    static const gsc__kind kinds[] = {GSC_F32, GSC_BF16};
    static const int64_t sides[] = {512, 8192}, quick_sides[] = {64, 256};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        for (size_t k = 0; k < 2; k++)
            for (size_t j = 0; j < 2; j++)
                measure_layout(b, &layouts[i], kinds[k], b->quick ? quick_sides[j] : sides[j]);
}
