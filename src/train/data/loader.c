/* SPDX-License-Identifier: Apache-2.0 */
/* loader.c: batches of a data set. One thread fills them: 128 images of 28 x 28 take about 0.1 ms, far less than a
 * training step. */
#include <stdlib.h>
#include <string.h>

#include "base/blocks.h"
#include "base/fpenv.h"
#include "train/data/dataset.h"

/* The upper half of gsc_random's streams is kept for shuffling; users take the lower ones. */
#define SHUFFLE_STREAMS (UINT64_C(1) << 63)

struct gsc_loader {
    const gsc_dataset *dataset;
    size_t batch_size; /* at most the data set's count */
    uint64_t seed;
    int64_t *order; /* NULL: not shuffled */
    uint64_t epoch;
    size_t position; /* how many examples of the epoch were returned */
    float *x_data;
    void *y_data; /* int64 labels or float32 targets */
    int64_t x_shape[2], y_shape[2];
    DLTensor x, y;
};

/* Aligned for whole vectors. rows is at least 1: a data set is never empty. NULL: no memory, or rows * row_bytes
 * overflows. */
static void *allocate_rows(size_t rows, size_t row_bytes)
{
    enum { ALIGNMENT = 64 };
    if (row_bytes > (SIZE_MAX - ALIGNMENT) / rows)
        return NULL;
    return aligned_alloc(ALIGNMENT, (rows * row_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

/* Regression has targets (float32), classification has none and has labels (int64) instead. */
static bool is_regression(const gsc_dataset *dataset) { return dataset->targets > 0; }

static void describe_batch(gsc_loader *loader)
{
    const gsc_dataset *dataset = loader->dataset;
    DLDevice cpu = {kDLCPU, 0};
    loader->x_shape[1] = (int64_t)dataset->features;
    loader->y_shape[1] = (int64_t)dataset->targets;
    loader->x =
        (DLTensor){.data = loader->x_data, .device = cpu, .ndim = 2, .dtype = GSC_FLOAT32, .shape = loader->x_shape};
    loader->y = (DLTensor){.data = loader->y_data,
                           .device = cpu,
                           .ndim = is_regression(dataset) ? 2 : 1,
                           .dtype = is_regression(dataset) ? GSC_FLOAT32 : GSC_INT64,
                           .shape = loader->y_shape};
}

gsc_status gsc_loader_create(const gsc_dataset *dataset, size_t batch, bool shuffle, uint64_t seed, gsc_loader **out)
{
    static const char function[] = "gsc_loader_create";
    if (!dataset || !out)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL", function, dataset ? "out" : "dataset");
    if (batch < 1)
        return gsc_fail(GSC_ERR_VALUE, "%s: batch is 0, it must be at least 1", function);
    gsc_loader *loader = calloc(1, sizeof *loader);
    if (!loader)
        return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", function);
    size_t rows = batch < dataset->count ? batch : dataset->count;
    loader->dataset = dataset;
    loader->batch_size = rows;
    loader->seed = seed;
    loader->order = shuffle ? allocate_rows(dataset->count, sizeof *loader->order) : NULL;
    loader->x_data = allocate_rows(rows, dataset->features * sizeof(float));
    loader->y_data = allocate_rows(rows, is_regression(dataset) ? dataset->targets * sizeof(float) : sizeof(int64_t));
    if ((shuffle && !loader->order) || !loader->x_data || !loader->y_data) {
        gsc_loader_free(loader);
        return gsc_fail(GSC_ERR_MEMORY, "%s: no memory for batches of %zu examples", function, rows);
    }
    describe_batch(loader);
    gsc_loader_start(loader, 0);
    *out = loader;
    return GSC_OK;
}

void gsc_loader_free(gsc_loader *loader)
{
    if (!loader)
        return;
    free(loader->order);
    free(loader->x_data);
    free(loader->y_data);
    free(loader);
}

size_t gsc_loader_batches(const gsc_loader *loader)
{
    if (!loader)
        return 0;
    size_t count = loader->dataset->count;
    return gsc__parts(count, loader->batch_size);
}

void gsc_loader_start(gsc_loader *loader, uint64_t epoch)
{
    if (!loader) {
        gsc_fail(GSC_ERR_VALUE, "gsc_loader_start: loader is NULL");
        return;
    }
    loader->epoch = epoch;
    loader->position = 0;
    if (!loader->order)
        return;
    for (size_t i = 0; i < loader->dataset->count; i++)
        loader->order[i] = (int64_t)i;
    gsc_random random = gsc_random_init(loader->seed, SHUFFLE_STREAMS | epoch);
    gsc_random_shuffle(&random, loader->order, loader->dataset->count);
}

uint64_t gsc_loader_epoch(const gsc_loader *loader) { return loader ? loader->epoch : 0; }

/* How many batches of the epoch were returned. Rounded up, since the last batch may be smaller. */
size_t gsc_loader_batch(const gsc_loader *loader)
{
    return loader ? gsc__parts(loader->position, loader->batch_size) : 0;
}

gsc_status gsc_loader_seek(gsc_loader *loader, uint64_t epoch, size_t batch)
{
    if (!loader)
        return gsc_fail(GSC_ERR_VALUE, "gsc_loader_seek: loader is NULL");
    size_t batches = gsc_loader_batches(loader), count = loader->dataset->count;
    if (batch > batches)
        return gsc_fail(GSC_ERR_VALUE, "gsc_loader_seek: batch is %zu, but an epoch has %zu batches", batch, batches);
    gsc_loader_start(loader, epoch);
    loader->position = batch == batches ? count : batch * loader->batch_size;
    return GSC_OK;
}

static void copy_features(const gsc_dataset *dataset, size_t example, float *row)
{
    size_t features = dataset->features;
    if (dataset->x) {
        memcpy(row, dataset->x + example * features, features * sizeof *row);
        return;
    }
    const uint8_t *pixels = dataset->pixels + example * features;
    for (size_t i = 0; i < features; i++)
        row[i] = (float)pixels[i] / 255.0f;
}

static void copy_example(gsc_loader *loader, size_t row, size_t example)
{
    const gsc_dataset *dataset = loader->dataset;
    copy_features(dataset, example, loader->x_data + row * dataset->features);
    if (is_regression(dataset))
        memcpy((float *)loader->y_data + row * dataset->targets, dataset->y + example * dataset->targets,
               dataset->targets * sizeof(float));
    else
        ((int64_t *)loader->y_data)[row] = dataset->labels[example];
}

size_t gsc_loader_next(gsc_loader *loader, const DLTensor **x, const DLTensor **y)
{
    if (!loader || !x || !y) {
        gsc_fail(GSC_ERR_VALUE, "gsc_loader_next: %s is NULL", !loader ? "loader" : !x ? "x" : "y");
        return 0;
    }
    size_t left = loader->dataset->count - loader->position;
    size_t n = left < loader->batch_size ? left : loader->batch_size;
    gsc__fpenv caller = gsc__fpenv_enter();
    for (size_t row = 0; row < n; row++) {
        size_t index = loader->position + row;
        size_t example = loader->order ? (size_t)loader->order[index] : index;
        copy_example(loader, row, example);
    }
    gsc__fpenv_leave(caller);
    loader->position += n;
    loader->x_shape[0] = loader->y_shape[0] = (int64_t)n;
    *x = n > 0 ? &loader->x : NULL;
    *y = n > 0 ? &loader->y : NULL;
    return n;
}
