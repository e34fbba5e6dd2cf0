/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include <fenv.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "asserts.h"
#include "gradscaler/data.h"
#include "idx_files.h"
#include "temp_dir.h"

enum { COUNT = 10, FEATURES = 3, TARGETS = 2 };

/* Example i has features 3i, 3i + 1, 3i + 2 and targets 100 + 2i, 101 + 2i. */
static gsc_dataset *numbers(void)
{
    float x[COUNT * FEATURES], y[COUNT * TARGETS];
    for (int i = 0; i < COUNT * FEATURES; i++)
        x[i] = (float)i;
    for (int i = 0; i < COUNT * TARGETS; i++)
        y[i] = (float)(100 + i);
    gsc_dataset *dataset;
    assert_ok(gsc_dataset_regression(x, y, COUNT, FEATURES, TARGETS, &dataset));
    return dataset;
}

static gsc_loader *new_loader(const gsc_dataset *dataset, size_t batch, bool shuffle, uint64_t seed)
{
    gsc_loader *loader;
    assert_ok(gsc_loader_create(dataset, batch, shuffle, seed, &loader));
    return loader;
}

/* The numbers of the remaining examples of an epoch, in order; checks all values of each row. */
static size_t collect(gsc_loader *loader, int *examples)
{
    const DLTensor *x, *y;
    size_t total = 0;
    for (size_t n; (n = gsc_loader_next(loader, &x, &y)) > 0; total += n)
        for (size_t row = 0; row < n; row++) {
            const float *features = (const float *)x->data + row * FEATURES;
            const float *targets = (const float *)y->data + row * TARGETS;
            int example = (int)(features[0] / (float)FEATURES);
            for (int i = 0; i < FEATURES; i++)
                assert_true(features[i] == (float)(example * FEATURES + i));
            for (int i = 0; i < TARGETS; i++)
                assert_true(targets[i] == (float)(100 + example * TARGETS + i));
            assert_true(total + row < COUNT);
            examples[total + row] = example;
        }
    assert_true(x == NULL && y == NULL);
    return total;
}

static void assert_compact(const DLTensor *tensor, int32_t ndim, int64_t rows, int64_t columns, DLDataType dtype)
{
    assert_int_equal(tensor->ndim, ndim);
    assert_int_equal(tensor->shape[0], rows);
    if (ndim > 1)
        assert_int_equal(tensor->shape[1], columns);
    assert_null(tensor->strides);
    assert_int_equal(tensor->byte_offset, 0);
    assert_int_equal(tensor->device.device_type, kDLCPU);
    assert_memory_equal(&tensor->dtype, &dtype, sizeof dtype);
}

static void batches_come_in_order_and_the_last_is_smaller(void **state)
{
    (void)state;
    gsc_dataset *dataset = numbers();
    gsc_loader *loader = new_loader(dataset, 4, false, 0);
    assert_int_equal(gsc_loader_batches(loader), 3);
    for (int epoch = 0; epoch < 2; epoch++) {
        const DLTensor *x, *y;
        static const size_t sizes[] = {4, 4, 2, 0, 0};
        for (int i = 0; i < 5; i++) {
            assert_int_equal(gsc_loader_next(loader, &x, &y), sizes[i]);
            if (sizes[i] == 0)
                continue;
            assert_compact(x, 2, (int64_t)sizes[i], FEATURES, GSC_FLOAT32);
            assert_compact(y, 2, (int64_t)sizes[i], TARGETS, GSC_FLOAT32);
        }
        gsc_loader_start(loader, 0);
        int examples[COUNT];
        assert_int_equal(collect(loader, examples), COUNT);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(examples[i], i);
        gsc_loader_start(loader, 1);
    }
    gsc_loader_free(loader);
    gsc_dataset_free(dataset);
}

static void every_batch_size_gives_the_same_order(void **state)
{
    (void)state;
    gsc_dataset *dataset = numbers();
    int reference[COUNT], examples[COUNT];
    gsc_loader *loader = new_loader(dataset, 1, true, 9);
    assert_int_equal(collect(loader, reference), COUNT);
    gsc_loader_free(loader);
    static const size_t batches[] = {2, 3, 9, 10, 11, SIZE_MAX};
    static const size_t counts[] = {5, 4, 2, 1, 1, 1};
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        loader = new_loader(dataset, batches[i], true, 9);
        assert_int_equal(gsc_loader_batches(loader), counts[i]);
        assert_int_equal(collect(loader, examples), COUNT);
        assert_memory_equal(examples, reference, sizeof reference);
        gsc_loader_free(loader);
    }
    gsc_dataset_free(dataset);
}

static void the_order_is_a_permutation_that_depends_on_seed_and_epoch_alone(void **state)
{
    (void)state;
    gsc_dataset *dataset = numbers();
    int orders[2][3][COUNT];
    for (uint64_t seed = 0; seed < 2; seed++) {
        gsc_loader *loader = new_loader(dataset, 4, true, seed);
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            if (epoch > 0)
                gsc_loader_start(loader, epoch);
            assert_int_equal(collect(loader, orders[seed][epoch]), COUNT);
            int seen = 0;
            for (int i = 0; i < COUNT; i++)
                seen |= 1 << orders[seed][epoch][i];
            assert_int_equal(seen, (1 << COUNT) - 1);
        }
        gsc_loader_free(loader);
    }
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(orders[i / 3][i % 3], orders[k / 3][k % 3], sizeof orders[0][0]);
    /* Started in epoch 2, directly and from the middle of another epoch. */
    gsc_loader *loader = new_loader(dataset, 4, true, 1);
    int examples[COUNT];
    const DLTensor *x, *y;
    for (int i = 0; i < 2; i++) {
        gsc_loader_start(loader, 2);
        assert_int_equal(collect(loader, examples), COUNT);
        assert_memory_equal(examples, orders[1][2], sizeof examples);
        gsc_loader_start(loader, 7);
        assert_int_equal(gsc_loader_next(loader, &x, &y), 4);
    }
    gsc_loader_free(loader);
    gsc_dataset_free(dataset);
}

/* 256 images of one pixel: each byte once, in each rounding mode (downward: all these quotients round up). */
static void pixels_become_correctly_rounded_quotients(void **state)
{
    (void)state;
    uint8_t pixels[256], labels[256];
    for (int i = 0; i < 256; i++) {
        pixels[i] = (uint8_t)i;
        labels[i] = (uint8_t)(255 - i);
    }
    char *dir = temp_dir_create();
    bytes images = idx_bytes(3, (const uint32_t[]){256, 1, 1}, pixels, 256);
    temp_write(dir, "t10k-images-idx3-ubyte", images.data, images.size);
    bytes classes = idx_bytes(1, (const uint32_t[]){256}, labels, 256);
    temp_write(dir, "t10k-labels-idx1-ubyte", classes.data, classes.size);
    gsc_dataset *dataset;
    assert_ok(gsc_dataset_mnist(dir, "t10k", 256, &dataset));
    temp_dir_remove(dir);

    gsc_loader *loader = new_loader(dataset, 256, false, 0);
    const DLTensor *x, *y;
    fesetround(FE_DOWNWARD);
    size_t n = gsc_loader_next(loader, &x, &y);
    int mode = fegetround();
    fesetround(FE_TONEAREST);
    assert_int_equal(mode, FE_DOWNWARD);
    assert_int_equal(n, 256);
    assert_compact(x, 2, 256, 1, GSC_FLOAT32);
    assert_compact(y, 1, 256, 0, GSC_INT64);
    for (int i = 0; i < 256; i++) {
        assert_true(((const float *)x->data)[i] == (float)(i / 255.0)); /* double rounding is harmless in division */
        assert_int_equal(((const int64_t *)y->data)[i], 255 - i);
    }
    gsc_loader_free(loader);
    gsc_dataset_free(dataset);
}

static void arguments_are_checked(void **state)
{
    (void)state;
    gsc_dataset *dataset = numbers();
    gsc_loader *loader = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_loader_create(NULL, 4, true, 0, &loader), "dataset is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_loader_create(dataset, 4, true, 0, NULL), "out is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_loader_create(dataset, 0, true, 0, &loader), "batch is 0");
    assert_null(loader);
    loader = new_loader(dataset, 4, true, 0);
    const DLTensor *x, *y;
    assert_int_equal(gsc_loader_next(NULL, &x, &y), 0);
    assert_int_equal(gsc_loader_next(loader, NULL, &y), 0);
    assert_int_equal(gsc_loader_next(loader, &x, NULL), 0);
    assert_message("gsc_loader_next: y is NULL");
    assert_int_equal(gsc_loader_next(loader, &x, &y), 4);
    gsc_loader_start(NULL, 0);
    assert_int_equal(gsc_loader_batches(NULL), 0);
    gsc_loader_free(NULL);
    gsc_loader_free(loader);
    gsc_dataset_free(dataset);
}

/* After a seek to any position, the batches are those of a loader that got there batch by batch. */
static void seek_reaches_the_same_batches_as_next(void **state)
{
    (void)state;
    gsc_dataset *dataset = numbers();
    gsc_loader *walked = new_loader(dataset, 4, true, 7), *sought = new_loader(dataset, 4, true, 7);
    const DLTensor *x, *y;
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        for (size_t batch = 0; batch <= 3; batch++) {
            gsc_loader_start(walked, epoch);
            for (size_t i = 0; i < batch; i++)
                assert_true(gsc_loader_next(walked, &x, &y) > 0);
            assert_int_equal(gsc_loader_epoch(walked), epoch);
            assert_int_equal(gsc_loader_batch(walked), batch);
            assert_ok(gsc_loader_seek(sought, epoch, batch));
            assert_int_equal(gsc_loader_epoch(sought), epoch);
            assert_int_equal(gsc_loader_batch(sought), batch);
            int expected[COUNT], found[COUNT];
            size_t n = collect(walked, expected);
            assert_int_equal(collect(sought, found), n);
            assert_memory_equal(found, expected, n * sizeof *found);
            assert_int_equal(gsc_loader_batch(sought), 3);
        }
    assert_ok(gsc_loader_seek(sought, 5, 1));
    assert_fails(GSC_ERR_VALUE, gsc_loader_seek(sought, 6, 4), "batch is 4", "3 batches");
    assert_int_equal(gsc_loader_epoch(sought), 5);
    assert_int_equal(gsc_loader_batch(sought), 1);
    assert_fails(GSC_ERR_VALUE, gsc_loader_seek(NULL, 0, 0), "loader is NULL");
    assert_int_equal(gsc_loader_epoch(NULL), 0);
    assert_int_equal(gsc_loader_batch(NULL), 0);
    gsc_loader_free(walked);
    gsc_loader_free(sought);
    gsc_dataset_free(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_come_in_order_and_the_last_is_smaller),
        cmocka_unit_test(every_batch_size_gives_the_same_order),
        cmocka_unit_test(the_order_is_a_permutation_that_depends_on_seed_and_epoch_alone),
        cmocka_unit_test(pixels_become_correctly_rounded_quotients),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(seek_reaches_the_same_batches_as_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
