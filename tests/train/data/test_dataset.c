/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "asserts.h"
#include "gradscaler/data.h"
#include "idx_files.h"
#include "skipped.h"
#include "temp_dir.h"

#define IMAGES "train-images-idx3-ubyte"
#define LABELS "train-labels-idx1-ubyte"
#define FASHION_MNIST "/usr/share/datasets/fashion-mnist"

static int make_dir(void **state)
{
    *state = temp_dir_create();
    return 0;
}

static int remove_dir(void **state)
{
    temp_dir_remove(*state);
    return 0;
}

static void write_content(const char *dir, const char *name, bytes content)
{
    temp_write(dir, name, content.data, content.size);
}

static void write_images(const char *dir, const char *name, uint32_t n, uint32_t height, uint32_t width)
{
    uint8_t pixels[256];
    for (int i = 0; i < 256; i++)
        pixels[i] = (uint8_t)i;
    write_content(dir, name, idx_bytes(3, (const uint32_t[]){n, height, width}, pixels, n * height * width));
}

static void write_labels(const char *dir, const char *name, uint32_t n, const uint8_t *labels)
{
    write_content(dir, name, idx_bytes(1, &n, labels, n));
}

static const uint8_t four_labels[4] = {3, 0, 2, 1};

static void mnist_reads_images_and_labels(void **state)
{
    write_images(*state, IMAGES, 4, 2, 3);
    write_labels(*state, LABELS, 4, four_labels);
    gsc_dataset *dataset;
    assert_ok(gsc_dataset_mnist(*state, "train", 4, &dataset));
    assert_int_equal(gsc_dataset_count(dataset), 4);
    assert_int_equal(gsc_dataset_features(dataset), 6);
    assert_int_equal(gsc_dataset_classes(dataset), 4);
    gsc_dataset_free(dataset);
}

static void mnist_reads_gz_if_there_is_no_plain_file(void **state)
{
    gsc_dataset *dataset = NULL;
    bytes labels = idx_bytes(1, (const uint32_t[]){4}, four_labels, 4);
    write_images(*state, IMAGES ".gz", 4, 2, 3); /* detected by content, not by name */
    write_content(*state, LABELS ".gz", gzip_bytes(&labels));
    assert_ok(gsc_dataset_mnist(*state, "train", 10, &dataset));
    gsc_dataset_free(dataset);
    write_images(*state, IMAGES, 3, 2, 3);
    assert_fails(GSC_ERR_VALUE, gsc_dataset_mnist(*state, "train", 10, &dataset), LABELS ".gz", "4 labels",
                 "expected 3");
}

static void mnist_names_both_missing_files(void **state)
{
    gsc_dataset *dataset = NULL;
    assert_fails(GSC_ERR_IO, gsc_dataset_mnist(*state, "train", 10, &dataset), *state, IMAGES " nor", IMAGES ".gz");
    write_images(*state, IMAGES, 4, 2, 3);
    assert_fails(GSC_ERR_IO, gsc_dataset_mnist(*state, "train", 10, &dataset), *state, LABELS " nor", LABELS ".gz");
    assert_fails(GSC_ERR_IO, gsc_dataset_mnist(*state, "t10k", 10, &dataset), "t10k-images-idx3-ubyte");
    assert_null(dataset);
}

static void mnist_checks_shapes_and_labels(void **state)
{
    gsc_dataset *dataset = NULL;
    write_labels(*state, LABELS, 4, four_labels);
    write_labels(*state, IMAGES, 4, four_labels);
    assert_fails(GSC_ERR_VALUE, gsc_dataset_mnist(*state, "train", 10, &dataset), IMAGES, "1 dimensions", "expected 3");
    static const uint32_t empty[][3] = {{0, 2, 3}, {4, 0, 3}, {4, 2, 0}};
    for (size_t i = 0; i < 3; i++) {
        write_images(*state, IMAGES, empty[i][0], empty[i][1], empty[i][2]);
        assert_fails(GSC_ERR_VALUE, gsc_dataset_mnist(*state, "train", 10, &dataset), IMAGES, "at least one");
    }
    write_images(*state, IMAGES, 5, 2, 3);
    assert_fails(GSC_ERR_VALUE, gsc_dataset_mnist(*state, "train", 10, &dataset), LABELS, "4 labels", "expected 5");
    write_images(*state, IMAGES, 4, 2, 3);
    assert_fails(GSC_ERR_VALUE, gsc_dataset_mnist(*state, "train", 3, &dataset), LABELS, "label 0 is 3",
                 "expected 0 to 2");
    write_images(*state, LABELS, 4, 1, 1);
    assert_fails(GSC_ERR_VALUE, gsc_dataset_mnist(*state, "train", 10, &dataset), LABELS, "3 dimensions", "expected 1");
    write_content(*state, LABELS, (bytes){.size = 3});
    assert_fails(GSC_ERR_VALUE, gsc_dataset_mnist(*state, "train", 10, &dataset), LABELS, "magic number");
    assert_null(dataset);
}

static void mnist_checks_arguments(void **state)
{
    gsc_dataset *dataset = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_dataset_mnist(NULL, "train", 10, &dataset), "dir is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_mnist(*state, NULL, 10, &dataset), "prefix is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_mnist(*state, "train", 10, NULL), "out is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_mnist(*state, "train", 0, &dataset), "classes is 0");
}

static void regression_copies_and_checks_its_rows(void **state)
{
    (void)state;
    const float x[6] = {1, 2, 3, 4, 5, 6}, y[2] = {7, 8};
    gsc_dataset *dataset = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_dataset_regression(NULL, y, 2, 3, 1, &dataset), "x is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_regression(x, NULL, 2, 3, 1, &dataset), "y is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_regression(x, y, 2, 3, 1, NULL), "out is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_regression(x, y, 0, 3, 1, &dataset), "count is 0");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_regression(x, y, 2, 0, 1, &dataset), "features 0");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_regression(x, y, 2, 3, -1, &dataset), "targets -1");
    assert_fails(GSC_ERR_MEMORY, gsc_dataset_regression(x, y, SIZE_MAX / 2, 3, 1, &dataset), "out of memory");
    assert_null(dataset);
    assert_ok(gsc_dataset_regression(x, y, 2, 3, 1, &dataset));
    assert_int_equal(gsc_dataset_count(dataset), 2);
    assert_int_equal(gsc_dataset_features(dataset), 3);
    assert_int_equal(gsc_dataset_classes(dataset), 0);
    gsc_dataset_free(dataset);
}

static void null_is_an_empty_dataset(void **state)
{
    (void)state;
    assert_int_equal(gsc_dataset_count(NULL), 0);
    assert_int_equal(gsc_dataset_features(NULL), 0);
    assert_int_equal(gsc_dataset_classes(NULL), 0);
    gsc_dataset_free(NULL);
}

static void check_fashion_mnist(const char *prefix, size_t count)
{
    gsc_dataset *dataset;
    assert_ok(gsc_dataset_mnist(FASHION_MNIST, prefix, 10, &dataset));
    assert_int_equal(gsc_dataset_count(dataset), count);
    assert_int_equal(gsc_dataset_features(dataset), 28 * 28);
    gsc_loader *loader;
    assert_ok(gsc_loader_create(dataset, 4096, false, 0, &loader));
    size_t per_class[10] = {0};
    const DLTensor *x, *y;
    for (size_t n; (n = gsc_loader_next(loader, &x, &y)) > 0;)
        for (size_t i = 0; i < n; i++)
            per_class[((const int64_t *)y->data)[i]]++;
    for (int i = 0; i < 10; i++)
        assert_int_equal(per_class[i], count / 10);
    gsc_loader_free(loader);
    gsc_dataset_free(dataset);
}

static void fashion_mnist_is_read(void **state)
{
    (void)state;
    if (access(FASHION_MNIST, F_OK) != 0)
        SKIP_BECAUSE("Fashion-MNIST is not installed");
    check_fashion_mnist("train", 60000);
    check_fashion_mnist("t10k", 10000);
    gsc_idx idx;
    assert_ok(gsc_idx_read(FASHION_MNIST "/train-images-idx3-ubyte.gz", &idx));
    assert_true(idx.ndim == 3 && idx.shape[0] == 60000 && idx.shape[1] == 28 && idx.shape[2] == 28);
    gsc_idx_free(&idx);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_dir, remove_dir)

static void classification_copies_and_checks_its_rows(void **state)
{
    (void)state;
    float x[] = {1, 2, 3, 4};
    int64_t labels[] = {299, 0};
    gsc_dataset *dataset = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_dataset_classification(NULL, labels, 2, 2, 300, &dataset), "x is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_classification(x, NULL, 2, 2, 300, &dataset), "labels is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_classification(x, labels, 2, 2, 300, NULL), "out is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_classification(x, labels, 0, 2, 300, &dataset), "count is 0");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_classification(x, labels, 2, 0, 300, &dataset), "features 0");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_classification(x, labels, 2, 2, 0, &dataset), "classes 0");
    assert_fails(GSC_ERR_VALUE, gsc_dataset_classification(x, labels, 2, 2, 299, &dataset), "label 0 is 299",
                 "0 to 298");
    labels[1] = -1;
    assert_fails(GSC_ERR_VALUE, gsc_dataset_classification(x, labels, 2, 2, 300, &dataset), "label 1 is -1");
    labels[1] = 0;
    assert_fails(GSC_ERR_MEMORY, gsc_dataset_classification(x, labels, SIZE_MAX / 2, 3, 1, &dataset), "out of memory");
    assert_null(dataset);
    assert_ok(gsc_dataset_classification(x, labels, 2, 2, 300, &dataset));
    x[0] = 7;
    labels[0] = 1;
    assert_int_equal(gsc_dataset_classes(dataset), 300);
    gsc_loader *loader;
    assert_ok(gsc_loader_create(dataset, 2, false, 0, &loader));
    const DLTensor *batch, *batch_labels;
    assert_int_equal(gsc_loader_next(loader, &batch, &batch_labels), 2);
    assert_exact((double)((float *)batch->data)[0], 1);
    assert_exact((double)((float *)batch->data)[3], 4);
    assert_int_equal(batch_labels->ndim, 1);
    assert_int_equal(((int64_t *)batch_labels->data)[0], 299);
    assert_int_equal(((int64_t *)batch_labels->data)[1], 0);
    gsc_loader_free(loader);
    gsc_dataset_free(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(mnist_reads_images_and_labels),
        TEST(mnist_reads_gz_if_there_is_no_plain_file),
        TEST(mnist_names_both_missing_files),
        TEST(mnist_checks_shapes_and_labels),
        TEST(mnist_checks_arguments),
        cmocka_unit_test(regression_copies_and_checks_its_rows),
        cmocka_unit_test(classification_copies_and_checks_its_rows),
        cmocka_unit_test(null_is_an_empty_dataset),
        cmocka_unit_test(fashion_mnist_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
