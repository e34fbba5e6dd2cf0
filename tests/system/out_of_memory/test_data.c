/* SPDX-License-Identifier: Apache-2.0 */
/* State dicts as text, and data files: each allocation fails once. Parsing JSON allocates only inside jansson. */
#define _XOPEN_SOURCE 700
#include "readers.h"

#include "gradscaler/state_json.h"
#include "gradscaler/train.h"
#include "idx_files.h"
#include "temp_dir.h"

static char *dir;

static const gsc_scaler_state scaler_state = {.scale = 1024,
                                              .growth_factor = 2,
                                              .backoff_factor = 0.5,
                                              .growth_interval = 10,
                                              .growth_tracker = 3,
                                              .min_scale = 1,
                                              .hysteresis = 2,
                                              .hysteresis_tracker = 1};

static gsc_status print_state(void **out)
{
    char *text = gsc_scaler_state_to_json(&scaler_state);
    if (!text)
        return GSC_ERR_MEMORY; /* this function returns no status */
    *out = text;
    return GSC_OK;
}

static void check_text(void *made)
{
    gsc_scaler_state again;
    assert_ok(gsc_scaler_state_from_json(made, &again));
    assert_memory_equal(&again, &scaler_state, sizeof again);
    gsc_free(made);
}

static gsc_idx idx;

static gsc_status read_idx_file(const char *name, void **out)
{
    idx = (gsc_idx){.ndim = 77};
    gsc_status status = gsc_idx_read(temp_path(dir, name), &idx);
    if (status == GSC_OK)
        *out = &idx;
    else
        assert_int_equal(idx.ndim, 77);
    return status;
}

static gsc_status read_idx(void **out) { return read_idx_file("plain", out); }
static gsc_status read_gzip(void **out) { return read_idx_file("gzipped", out); }

static void check_idx(void *made)
{
    assert_ptr_equal(made, &idx);
    assert_int_equal(idx.count, 3);
    assert_memory_equal(idx.data, "abc", 3);
    gsc_idx_free(&idx);
}

static gsc_status read_mnist(void **out) { return gsc_dataset_mnist(dir, "train", 10, (gsc_dataset **)out); }

static void check_mnist(void *made)
{
    assert_int_equal(gsc_dataset_count(made), 2);
    gsc_dataset_free(made);
}

static int make_files(void **state)
{
    (void)state;
    dir = temp_dir_create();
    const bytes plain = idx_bytes(1, (const uint32_t[]){3}, (const uint8_t *)"abc", 3);
    const bytes gzipped = gzip_bytes(&plain);
    const bytes images = idx_bytes(3, (const uint32_t[]){2, 1, 2}, (const uint8_t *)"abcd", 4);
    const bytes labels = idx_bytes(1, (const uint32_t[]){2}, (const uint8_t[]){1, 9}, 2);
    temp_write(dir, "plain", plain.data, plain.size);
    temp_write(dir, "gzipped", gzipped.data, gzipped.size);
    temp_write(dir, "train-images-idx3-ubyte", images.data, images.size);
    temp_write(dir, "train-labels-idx1-ubyte", labels.data, labels.size);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    temp_dir_remove(dir);
    return 0;
}

static void test_each_allocation_of_reading_and_writing(void **state)
{
    (void)state;
    const reader readers[] = {
        {"gsc_scaler_state_to_json", print_state, check_text, 10, true},
        {"gsc_idx_read", read_idx, check_idx, 3, false},
        {"gsc_idx_read, gzip", read_gzip, check_idx, 3, false},
        {"gsc_dataset_mnist", read_mnist, check_mnist, 8, false},
    };
    check_readers(readers, sizeof readers / sizeof readers[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation_of_reading_and_writing)};
    return cmocka_run_group_tests(tests, make_files, remove_files);
}
