/* SPDX-License-Identifier: Apache-2.0 */
/* A damaged file is refused with a message, or its tensors lie within the file. */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#if defined(__has_feature)
#define SANITIZED                                                                                                      \
    (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#include "safetensors_files.h"
#include "skipped.h"

static char *dir;

static int make_dir(void **state)
{
    (void)state;
    dir = temp_dir_create();
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    temp_dir_remove(dir);
    return 0;
}

/* Reads every byte of a file's tensors. */
static unsigned touch(const gsc_safetensors *file)
{
    unsigned sum = 0;
    for (size_t i = 0; i < gsc_safetensors_count(file); i++) {
        const DLTensor *tensor = gsc_safetensors_tensor(file, i);
        size_t bytes = tensor->dtype.bits / 8;
        for (int32_t d = 0; d < tensor->ndim; d++)
            bytes *= (size_t)tensor->shape[d];
        for (size_t b = 0; b < bytes; b++)
            sum += ((const uint8_t *)tensor->data)[b];
        assert_ptr_equal(gsc_safetensors_find(file, gsc_safetensors_name(file, i)), tensor);
    }
    return sum;
}

static void refuse_raw(gsc_status expected, const char *header, size_t header_size, size_t data_size, const char *part)
{
    gsc_safetensors *file = NULL;
    const char *path = write_raw(dir, header, header_size, data_size);
    assert_fails(expected, gsc_safetensors_open(path, &file), path, part);
    assert_null(file);
}

static void refuse_header(const char *header, size_t data_size, const char *part)
{
    refuse_raw(GSC_ERR_VALUE, header, SIZE_MAX, data_size, part);
}

#define TENSOR(fields) "{\"x\":{" fields "}}"
#define PLACE(shape, offsets) TENSOR("\"dtype\":\"F32\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]")

static void invalid_headers_are_refused(void **state)
{
    (void)state;
    refuse_header("", 0, "begin with {");
    refuse_header("[]", 0, "begin with {");
    refuse_header(" {}", 0, "begin with {");
    refuse_header("{", 0, "line 1");
    refuse_header("{} x", 0, "end of file expected");
    refuse_header("{\"\xff\":1}", 0, "byte 0xff");
    refuse_header("{\"a\\u0000\":1}", 0, "NUL");
    refuse_header("{\"x\":1}", 0, "\"x\" is a number");
    refuse_header("{\"__metadata__\":[]}", 0, "is an array, it must be an object");
    refuse_header("{\"__metadata__\":{\"k\":1}}", 0, "\"k\" is a number, it must be a string");
    refuse_header("{\"__metadata__\":{\"k\":\"\",\"k\":\"\"}}", 0, "duplicate");
    refuse_header("{\"x\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                  "\"x\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}",
                  4, "duplicate");
}

static void wrong_fields_are_refused(void **state)
{
    (void)state;
    refuse_header(TENSOR("\"shape\":[],\"data_offsets\":[0,0]"), 0, "dtype is missing");
    refuse_header(TENSOR("\"dtype\":1,\"shape\":[],\"data_offsets\":[0,0]"), 0, "dtype is no string");
    refuse_header(TENSOR("\"dtype\":\"f32\",\"shape\":[],\"data_offsets\":[0,4]"), 4, "\"f32\"");
    refuse_raw(GSC_ERR_UNSUPPORTED, TENSOR("\"dtype\":\"F8_E4M3\",\"shape\":[],\"data_offsets\":[0,1]"), SIZE_MAX, 1,
               "F8_E4M3; convert");
    refuse_header(TENSOR("\"dtype\":\"F32\",\"data_offsets\":[0,4]"), 4, "shape is missing");
    refuse_header(TENSOR("\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]"), 4, "shape is no list");
    refuse_header(PLACE("1.0", "0,4"), 4, "shape has an entry that is no integer >= 0");
    refuse_header(PLACE("-1", "0,4"), 4, "shape has an entry that is no integer >= 0");
    refuse_header(PLACE("-1,-1", "0,4"), 4, "shape has an entry that is no integer >= 0");
    refuse_header(PLACE("true", "0,4"), 4, "shape has an entry that is no integer >= 0");
    refuse_header(TENSOR("\"dtype\":\"F32\",\"shape\":[]"), 0, "data_offsets is missing");
    refuse_header(PLACE("", "0"), 0, "data_offsets is no list of two");
    refuse_header(PLACE("", "0,4,8"), 8, "data_offsets is no list of two");
    refuse_header(PLACE("", "0,\"4\""), 4, "data_offsets has an entry");
    refuse_header(PLACE("", "-4,0"), 4, "data_offsets has an entry");
}

static void wrong_offsets_are_refused(void **state)
{
    (void)state;
    refuse_header(PLACE("", "4,0"), 4, "must rise");
    refuse_header(PLACE("2", "0,8"), 7, "within the 7 bytes");
    refuse_header(PLACE("2", "0,8"), 9, "9 bytes of data, its tensors 8");
    refuse_header(PLACE("2", "1,9"), 9, "begins at byte 1");
    refuse_header(PLACE("2", "0,4"), 4, "4 bytes, its shape");
    refuse_header(PLACE("0", "0,4"), 4, "4 bytes, its shape");
    refuse_header("{}", 1, "1 bytes of data, its tensors 0");
    refuse_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},"
                  "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}",
                  3, "begins at byte 1 of the data, the one before ends at 2");
    refuse_header("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                  "\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
                  3, "begins at byte 2 of the data, the one before ends at 1");
}

/* Sizes whose product or sum would wrap around to a valid value. */
static void huge_numbers_are_refused(void **state)
{
    (void)state;
    refuse_header(PLACE("9223372036854775808", "0,0"), 0, "integer");
    refuse_header(PLACE("9223372036854775807", "0,4"), 4, "4 bytes, its shape");
    refuse_header(PLACE("4611686018427387904", "0,0"), 0, "0 bytes, its shape");
    refuse_header(PLACE("4294967296,4294967296", "0,0"), 0, "0 bytes, its shape");
    refuse_header(PLACE("2147483648,2147483648,4", "0,0"), 0, "0 bytes, its shape");
    refuse_header(PLACE("", "9223372036854775804,9223372036854775807"), 4, "within the 4 bytes");
    refuse_header(PLACE("", "0,18446744073709551615"), 4, "integer");
    refuse_header(PLACE("", "0,1e99999"), 4, "overflow");
}

static void a_header_length_beyond_the_file_takes_no_memory(void **state)
{
    (void)state;
    const size_t lengths[] = {3, 100000000, 100000001, (size_t)1 << 31, (size_t)1 << 63, SIZE_MAX - 1, SIZE_MAX - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        refuse_raw(GSC_ERR_VALUE, "{}", lengths[i], 0, "its header's length");
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    enum { DEPTH = 1000000 };
    char *header = malloc(DEPTH + 8);
    assert_non_null(header);
    memcpy(header, "{\"x\":", 5);
    memset(header + 5, '[', DEPTH);
    header[5 + DEPTH] = '\0';
    refuse_header(header, 0, "depth");
    free(header);
}

static void truncation_at_every_byte_is_an_error(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = read_file(RECORDED("all.safetensors"), &size);
    const char *path =
        temp_write(dir, "raw.safetensors", bytes, size + 1); /* one byte too many, which read_file allocates */
    gsc_safetensors *file = NULL;
    assert_fails(GSC_ERR_VALUE, gsc_safetensors_open(path, &file), "bytes of data");
    for (size_t length = size; length-- > 0;) {
        assert_int_equal(truncate(path, (off_t)length), 0);
        assert_fails(GSC_ERR_VALUE, gsc_safetensors_open(path, &file), path);
        assert_null(file);
    }
    free(bytes);
}

/* A flipped bit may give a tensor another name, shape or dtype of the same size; only checksums can find that. */
static void every_flipped_bit_of_the_header_is_harmless(void **state)
{
    (void)state;
    size_t size, opened = 0;
    uint8_t *recorded = read_file(RECORDED("all.safetensors"), &size);
    const char *path = temp_write(dir, "raw.safetensors", recorded, size);
    free(recorded);
    int descriptor = open(path, O_RDWR);
    uint8_t *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    assert_true(bytes != MAP_FAILED);
    uint64_t length;
    memcpy(&length, bytes, sizeof length);
    const size_t bits = (sizeof length + length) * 8;
    for (size_t bit = 0; bit < bits; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        gsc_safetensors *file = NULL;
        gsc_status status = gsc_safetensors_open(path, &file);
        assert_true(status == GSC_OK || status == GSC_ERR_VALUE || status == GSC_ERR_UNSUPPORTED);
        assert_true((status == GSC_OK) == (file != NULL));
        if (status == GSC_OK) {
            opened++;
            touch(file);
            gsc_safetensors_close(file);
        }
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_true(opened > 0 && opened < bits / 4);
    assert_int_equal(munmap(bytes, size), 0);
    close(descriptor);
}

static void paths_that_are_not_files_are_io_errors(void **state)
{
    (void)state;
    gsc_safetensors *file = NULL;
    const char *path = temp_path(dir, "absent");
    assert_fails(GSC_ERR_IO, gsc_safetensors_open(path, &file), path, "No such file");
    assert_fails(GSC_ERR_IO, gsc_safetensors_open(dir, &file), "not a regular file");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_fails(GSC_ERR_IO, gsc_safetensors_open(path, &file), "not a regular file");
    assert_null(file);
}

/* With a limit of 64 MiB, files that claim gigabytes are refused for their content, not for lack of memory. Sanitizers
 * reserve terabytes, so they skip it. */
static void claims_are_checked_before_memory_is_taken(void **state)
{
    (void)state;
    if (SANITIZED)
        SKIP_BECAUSE("sanitizers end the process instead of returning NULL");
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_DATA, &before), 0);
    small = before;
    small.rlim_cur = (rlim_t)64 << 20;
    assert_int_equal(setrlimit(RLIMIT_DATA, &small), 0);
    refuse_header(PLACE("1000000000", "0,4000000000"), 4, "within the 4 bytes");
    refuse_raw(GSC_ERR_VALUE, "{}", 99999999, 0, "its header's length");
    assert_int_equal(setrlimit(RLIMIT_DATA, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(invalid_headers_are_refused),
        cmocka_unit_test(wrong_fields_are_refused),
        cmocka_unit_test(wrong_offsets_are_refused),
        cmocka_unit_test(huge_numbers_are_refused),
        cmocka_unit_test(a_header_length_beyond_the_file_takes_no_memory),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(truncation_at_every_byte_is_an_error),
        cmocka_unit_test(every_flipped_bit_of_the_header_is_harmless),
        cmocka_unit_test(paths_that_are_not_files_are_io_errors),
        cmocka_unit_test(claims_are_checked_before_memory_is_taken),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
