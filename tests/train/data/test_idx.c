/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>

#include "asserts.h"
#include "gradscaler/data.h"
#include "idx_files.h"
#include "temp_dir.h"

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

static const uint8_t six[6] = {0, 1, 127, 128, 254, 255};

static bytes two_by_three(void) { return idx_bytes(2, (const uint32_t[]){2, 3}, six, sizeof six); }

static gsc_status read_content(const char *dir, const bytes *content, gsc_idx *idx)
{
    return gsc_idx_read(temp_write(dir, "file", content->data, content->size), idx);
}

/* Plain and gzipped: the message must be the same, too. */
#define assert_refused(content, ...)                                                                                   \
    do {                                                                                                               \
        bytes refused_ = (content), gzipped_ = gzip_bytes(&refused_);                                                  \
        gsc_idx idx_;                                                                                                  \
        memset(&idx_, 0x55, sizeof idx_);                                                                              \
        assert_fails(GSC_ERR_VALUE, read_content(*state, &refused_, &idx_), *state, __VA_ARGS__);                      \
        assert_fails(GSC_ERR_VALUE, read_content(*state, &gzipped_, &idx_), *state, __VA_ARGS__);                      \
        assert_int_equal(idx_.ndim, 0x55555555);                                                                       \
    } while (0)

static void assert_two_by_three(const char *dir, const bytes *content)
{
    gsc_idx idx;
    assert_ok(read_content(dir, content, &idx));
    assert_int_equal(idx.ndim, 2);
    assert_int_equal(idx.shape[0], 2);
    assert_int_equal(idx.shape[1], 3);
    assert_int_equal(idx.count, 6);
    assert_memory_equal(idx.data, six, sizeof six);
    gsc_idx_free(&idx);
    assert_null(idx.data);
}

static void plain_and_gzipped_files_are_read(void **state)
{
    bytes plain = two_by_three(), gzipped = gzip_bytes(&plain);
    assert_two_by_three(*state, &plain);
    assert_two_by_three(*state, &gzipped);
}

/* RFC 1952 allows a file of several members. */
static void gzip_members_are_joined(void **state)
{
    bytes plain = two_by_three(), first = {0}, second = {0};
    append(&first, plain.data, 7);
    append(&second, plain.data + 7, plain.size - 7);
    bytes file = gzip_bytes(&first), rest = gzip_bytes(&second);
    append(&file, rest.data, rest.size);
    assert_two_by_three(*state, &file);
}

static void one_to_four_dimensions_are_read(void **state)
{
    for (uint8_t ndim = 1; ndim <= 4; ndim++) {
        bytes content = idx_bytes(ndim, (const uint32_t[]){1, 2, 3, 1}, six, ndim == 1 ? 1 : ndim == 2 ? 2 : 6);
        gsc_idx idx;
        assert_ok(read_content(*state, &content, &idx));
        assert_int_equal(idx.ndim, ndim);
        gsc_idx_free(&idx);
    }
    bytes content = idx_bytes(2, (const uint32_t[]){0, 5}, six, 0);
    gsc_idx idx;
    assert_ok(read_content(*state, &content, &idx));
    assert_int_equal(idx.count, 0);
    gsc_idx_free(&idx);
}

static void each_header_field_is_checked(void **state)
{
    bytes content = two_by_three();
    content.data[0] = 1;
    assert_refused(content, "not an IDX file", "0x01 0x00");
    content = two_by_three();
    content.data[1] = 2;
    assert_refused(content, "not an IDX file", "0x00 0x02");
    static const struct {
        uint8_t code;
        const char *name;
    } types[] = {{0x09, "signed byte"}, {0x0B, "short"},   {0x0C, "int"},    {0x0D, "float"},
                 {0x0E, "double"},      {0x00, "unknown"}, {0x0A, "unknown"}};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        content = two_by_three();
        content.data[2] = types[i].code;
        assert_refused(content, "type code", types[i].name, "expected 0x08");
    }
    static const uint8_t ndims[] = {0, 5, 255};
    for (size_t i = 0; i < sizeof ndims; i++) {
        content = two_by_three();
        content.data[3] = ndims[i];
        assert_refused(content, "number of dimensions", "expected 1 to 4");
    }
}

static void every_truncation_is_refused(void **state)
{
    bytes whole = two_by_three();
    for (size_t size = 1; size < whole.size; size++) {
        bytes content = whole;
        content.size = size;
        if (size < 4)
            assert_refused(content, "within the magic number");
        else if (size < 12)
            assert_refused(content, "within the sizes");
        else /* a small file shows it by its size alone */
            assert_refused(content, "expected 6");
    }
    bytes gzipped = gzip_bytes(&whole);
    for (size_t size = 3; size < gzipped.size; size++) {
        bytes content = gzipped;
        content.size = size;
        gsc_idx idx;
        assert_fails(GSC_ERR_VALUE, read_content(*state, &content, &idx), "gzip stream is truncated");
    }
}

static void trailing_data_is_refused(void **state)
{
    bytes content = two_by_three();
    append(&content, "\0", 1);
    assert_refused(content, "too long", "6 bytes");
    /* After the gzip stream. */
    bytes plain = two_by_three();
    static const struct {
        const char *data;
        size_t size;
    } trails[] = {{"\0", 1}, {"x", 1}, {"\x1f", 1}, {"\x1f\x8b", 2}, {"garbage", 7}};
    for (size_t i = 0; i < sizeof trails / sizeof trails[0]; i++) {
        content = gzip_bytes(&plain);
        append(&content, trails[i].data, trails[i].size);
        gsc_idx idx;
        assert_fails(GSC_ERR_VALUE, read_content(*state, &content, &idx), "gzip stream is");
    }
}

/* Each byte of the stream is changed: an error, or the right content. */
static void corrupt_gzip_is_refused(void **state)
{
    bytes plain = two_by_three(), good = gzip_bytes(&plain);
    size_t refused = 0;
    for (size_t i = 0; i < good.size; i++) {
        bytes bad = good;
        bad.data[i] ^= 0x10;
        gsc_idx idx;
        gsc_status status = read_content(*state, &bad, &idx);
        if (status == GSC_OK) {
            assert_memory_equal(idx.data, six, sizeof six);
            gsc_idx_free(&idx);
        } else {
            assert_status(status, GSC_ERR_VALUE);
            refused++;
        }
    }
    assert_true(refused >= good.size - 7); /* time, extra flags and system do not affect the content */
    bytes bad = good;
    bad.data[bad.size - 8] ^= 1;
    gsc_idx idx;
    assert_fails(GSC_ERR_VALUE, read_content(*state, &bad, &idx), *state, "corrupt", "incorrect data check");
}

/* Headers that claim terabytes cause no such allocation. */
static void implausible_sizes_are_refused(void **state)
{
    static const uint32_t shapes[][4] = {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX},
                                         {65536, 65536, 65536, 65536},
                                         {1, 1, 1, UINT32_MAX},
                                         {1000, 1000, 1, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        assert_refused(idx_bytes(4, shapes[i], six, sizeof six), "size of dimension", "can hold");
}

/* If one size is 0, the others may have any value. */
static void a_size_of_0_needs_no_data(void **state)
{
    static const uint32_t shapes[][3] = {{0, UINT32_MAX, UINT32_MAX}, {UINT32_MAX, UINT32_MAX, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const bytes content = idx_bytes(3, shapes[i], six, 0);
        gsc_idx idx;
        assert_ok(read_content(*state, &content, &idx));
        assert_int_equal(idx.count, 0);
        assert_int_equal(idx.shape[1], UINT32_MAX);
        gsc_idx_free(&idx);
        assert_refused(idx_bytes(3, shapes[i], six, sizeof six), "too long");
    }
}

static void unreadable_paths_are_io_errors(void **state)
{
    gsc_idx idx;
    const char *missing = temp_path(*state, "missing");
    assert_fails(GSC_ERR_IO, gsc_idx_read(missing, &idx), missing, "No such file");
    assert_fails(GSC_ERR_IO, gsc_idx_read(*state, &idx), *state, "is a directory");
    const char *pipe = temp_path(*state, "pipe");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_fails(GSC_ERR_IO, gsc_idx_read(pipe, &idx), pipe, "not a regular file");
    const char *empty = temp_write(*state, "empty", "", 0);
    assert_fails(GSC_ERR_VALUE, gsc_idx_read(empty, &idx), empty, "is empty");
}

static void null_is_refused(void **state)
{
    gsc_idx idx;
    assert_fails(GSC_ERR_VALUE, gsc_idx_read(NULL, &idx), "path is NULL");
    assert_fails(GSC_ERR_VALUE, gsc_idx_read(*state, NULL), "out is NULL");
    gsc_idx_free(NULL);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(plain_and_gzipped_files_are_read),
        TEST(gzip_members_are_joined),
        TEST(one_to_four_dimensions_are_read),
        TEST(each_header_field_is_checked),
        TEST(every_truncation_is_refused),
        TEST(trailing_data_is_refused),
        TEST(corrupt_gzip_is_refused),
        TEST(implausible_sizes_are_refused),
        TEST(a_size_of_0_needs_no_data),
        TEST(unreadable_paths_are_io_errors),
        TEST(null_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
