/* SPDX-License-Identifier: Apache-2.0 */
/* dataset.c: data sets in memory: MNIST's files, or the caller's rows of floats. */
#define _POSIX_C_SOURCE 200809L /* access */
#include "train/data/dataset.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/try.h"

static gsc_status out_of_memory(const char *function)
{
    return gsc_fail(GSC_ERR_MEMORY, "%s: out of memory", function);
}

/* *out: the path of dir/<prefix><suffix>, or of that file with .gz, to be freed with free() also on failure. */
static gsc_status find_file(const char *dir, const char *prefix, const char *suffix, char **out)
{
    size_t size = strlen(dir) + strlen(prefix) + strlen(suffix) + sizeof "/.gz";
    char *path = *out = malloc(size);
    if (!path)
        return out_of_memory("gsc_dataset_mnist");
    snprintf(path, size, "%s/%s%s", dir, prefix, suffix);
    if (access(path, F_OK) == 0)
        return GSC_OK;
    snprintf(path, size, "%s/%s%s.gz", dir, prefix, suffix);
    if (access(path, F_OK) == 0)
        return GSC_OK;
    return gsc_fail(GSC_ERR_IO, "%s: holds neither %s%s nor %s%s.gz: %s", dir, prefix, suffix, prefix, suffix,
                    strerror(errno));
}

static gsc_status check_images(const char *path, const gsc_idx *images)
{
    if (images->ndim != 3)
        return gsc_fail(GSC_ERR_VALUE, "%s: has %d dimensions, expected 3: image, row, column", path,
                        (int)images->ndim);
    if (images->count == 0)
        return gsc_fail(GSC_ERR_VALUE, "%s: holds %lld images of %lld x %lld pixels, expected at least one of each",
                        path, (long long)images->shape[0], (long long)images->shape[1], (long long)images->shape[2]);
    return GSC_OK;
}

static gsc_status check_labels(const char *path, const gsc_idx *labels, int64_t images, int64_t classes)
{
    if (labels->ndim != 1)
        return gsc_fail(GSC_ERR_VALUE, "%s: has %d dimensions, expected 1", path, (int)labels->ndim);
    if (labels->shape[0] != images)
        return gsc_fail(GSC_ERR_VALUE, "%s: holds %lld labels, expected %lld, one for each image", path,
                        (long long)labels->shape[0], (long long)images);
    for (size_t i = 0; i < labels->count; i++)
        if (labels->data[i] >= classes)
            return gsc_fail(GSC_ERR_VALUE, "%s: label %zu is %u, expected 0 to %lld", path, i,
                            (unsigned)labels->data[i], (long long)classes - 1);
    return GSC_OK;
}

static gsc_status read_images(const char *dir, const char *prefix, gsc_idx *images)
{
    char *path;
    gsc_status status = find_file(dir, prefix, "-images-idx3-ubyte", &path);
    if (status == GSC_OK)
        status = gsc_idx_read(path, images);
    if (status == GSC_OK)
        status = check_images(path, images);
    free(path);
    return status;
}

static gsc_status read_labels(const char *dir, const char *prefix, int64_t images, int64_t classes, gsc_idx *labels)
{
    char *path;
    gsc_status status = find_file(dir, prefix, "-labels-idx1-ubyte", &path);
    if (status == GSC_OK)
        status = gsc_idx_read(path, labels);
    if (status == GSC_OK)
        status = check_labels(path, labels, images, classes);
    free(path);
    return status;
}

static gsc_status read_mnist(const char *dir, const char *prefix, int64_t classes, gsc_idx *images, gsc_idx *labels)
{
    GSC_TRY(read_images(dir, prefix, images));
    return read_labels(dir, prefix, images->shape[0], classes, labels);
}

/* NULL: no memory. */
static int64_t *widen_labels(const gsc_idx *labels)
{
    int64_t *wide = malloc(labels->count * sizeof *wide);
    for (size_t i = 0; wide && i < labels->count; i++)
        wide[i] = labels->data[i];
    return wide;
}

gsc_status gsc_dataset_mnist(const char *dir, const char *prefix, int64_t classes, gsc_dataset **out)
{
    static const char function[] = "gsc_dataset_mnist";
    if (!dir || !prefix || !out)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL", function, !dir ? "dir" : !prefix ? "prefix" : "out");
    if (classes < 1)
        return gsc_fail(GSC_ERR_VALUE, "%s: classes is %lld, it must be at least 1", function, (long long)classes);
    gsc_idx images = {0}, labels = {0};
    gsc_dataset *dataset = calloc(1, sizeof *dataset);
    gsc_status status = dataset ? read_mnist(dir, prefix, classes, &images, &labels) : out_of_memory(function);
    if (status == GSC_OK) {
        dataset->labels = widen_labels(&labels);
        status = dataset->labels ? GSC_OK : out_of_memory(function);
    }
    if (status != GSC_OK) {
        gsc_idx_free(&images);
        gsc_idx_free(&labels);
        free(dataset);
        return status;
    }
    dataset->count = labels.count;
    dataset->features = images.count / labels.count;
    dataset->classes = classes;
    dataset->pixels = images.data;
    gsc_idx_free(&labels);
    *out = dataset;
    return GSC_OK;
}

/* NULL: no memory. */
static void *copy_rows(const void *rows, size_t count, size_t width, size_t element_size)
{
    if (width > SIZE_MAX / element_size / count)
        return NULL;
    void *copy = malloc(count * width * element_size);
    if (copy)
        memcpy(copy, rows, count * width * element_size);
    return copy;
}

/* A data set with a copy of the features, nothing to learn yet. NULL: no memory. */
static gsc_dataset *copy_features(const float *x, size_t count, int64_t features)
{
    gsc_dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset)
        return NULL;
    dataset->count = count;
    dataset->features = (size_t)features;
    dataset->x = copy_rows(x, count, dataset->features, sizeof *x);
    if (dataset->x)
        return dataset;
    free(dataset);
    return NULL;
}

gsc_status gsc_dataset_regression(const float *x, const float *y, size_t count, int64_t features, int64_t targets,
                                  gsc_dataset **out)
{
    static const char function[] = "gsc_dataset_regression";
    if (!x || !y || !out)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL", function, !x ? "x" : !y ? "y" : "out");
    if (count < 1 || features < 1 || targets < 1)
        return gsc_fail(GSC_ERR_VALUE, "%s: count is %zu, features %lld, targets %lld; each must be at least 1",
                        function, count, (long long)features, (long long)targets);
    gsc_dataset *dataset = copy_features(x, count, features);
    if (!dataset)
        return out_of_memory(function);
    dataset->targets = (size_t)targets;
    dataset->y = copy_rows(y, count, dataset->targets, sizeof *y);
    if (!dataset->y) {
        gsc_dataset_free(dataset);
        return out_of_memory(function);
    }
    *out = dataset;
    return GSC_OK;
}

static gsc_status check_class_ids(const int64_t *labels, size_t count, int64_t classes, const char *function)
{
    for (size_t i = 0; i < count; i++)
        if (labels[i] < 0 || labels[i] >= classes)
            return gsc_fail(GSC_ERR_VALUE, "%s: label %zu is %lld, allowed are 0 to %lld", function, i,
                            (long long)labels[i], (long long)classes - 1);
    return GSC_OK;
}

gsc_status gsc_dataset_classification(const float *x, const int64_t *labels, size_t count, int64_t features,
                                      int64_t classes, gsc_dataset **out)
{
    static const char function[] = "gsc_dataset_classification";
    if (!x || !labels || !out)
        return gsc_fail(GSC_ERR_VALUE, "%s: %s is NULL", function, !x ? "x" : !labels ? "labels" : "out");
    if (count < 1 || features < 1 || classes < 1)
        return gsc_fail(GSC_ERR_VALUE, "%s: count is %zu, features %lld, classes %lld; each must be at least 1",
                        function, count, (long long)features, (long long)classes);
    gsc_dataset *dataset = copy_features(x, count, features);
    if (!dataset)
        return out_of_memory(function);
    dataset->classes = classes;
    dataset->labels = copy_rows(labels, count, 1, sizeof *labels);
    gsc_status status =
        dataset->labels ? check_class_ids(dataset->labels, count, classes, function) : out_of_memory(function);
    if (status == GSC_OK)
        *out = dataset;
    else
        gsc_dataset_free(dataset);
    return status;
}

void gsc_dataset_free(gsc_dataset *dataset)
{
    if (!dataset)
        return;
    free(dataset->pixels);
    free(dataset->labels);
    free(dataset->x);
    free(dataset->y);
    free(dataset);
}

size_t gsc_dataset_count(const gsc_dataset *dataset) { return dataset ? dataset->count : 0; }

int64_t gsc_dataset_features(const gsc_dataset *dataset) { return dataset ? (int64_t)dataset->features : 0; }

int64_t gsc_dataset_classes(const gsc_dataset *dataset) { return dataset ? dataset->classes : 0; }
